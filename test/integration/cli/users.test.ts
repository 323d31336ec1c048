/** `tenon user` commands, run by an operator. */

import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { mailTo } from '../../support/clients/mails.ts'
import { createUserApp, newUser } from '../../support/clients/users.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'

let folder: string
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-users-'))
  const { url, clientId, clientSecret } = inject('tenon')
  const { workspace } = await createUserApp(await createTestWorkspace(), 'invite')
  const settings = { TENON_WORKSPACE_ID: workspace.workspaceId, TENON_URL: url, TENON_QUIET: '1' }
  env = { ...process.env, ...settings, TENON_CLIENT_ID: clientId, TENON_CLIENT_SECRET: clientSecret }
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Runs a command. @returns its exit code and output */
function tenon(...args: readonly string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((done) => {
    const program = [resolve('stack/bootstrap.mjs'), 'user', ...args]
    execFile(process.execPath, program, { cwd: folder, env }, (error, stdout, stderr) =>
      done({ code: Number(error?.code ?? 0), stdout, stderr }),
    )
  })
}

const json = async (...args: readonly string[]) => {
  const { code, stdout, stderr } = await tenon(...args, '--json')
  expect([args[0], code, stderr]).toEqual([args[0], 0, ''])
  return JSON.parse(stdout)
}

test('user: invited, shown by address, given claims, disabled, exported, deleted', async () => {
  const { email } = newUser()
  const made = await json('invite', email, '--name', 'Uma', '--claims', '{plan: pro}')
  expect(made).toMatchObject({ email, name: 'Uma', claims: { plan: 'pro' }, status: 'invited' })
  expect((await mailTo(email, 'Your invitation')).link).toBe(made.invitation_url)
  expect(await json('show', email)).toMatchObject({ id: made.id })
  expect(await json('claims', made.id, '{plan: team}')).toMatchObject({ claims: { plan: 'team' } })
  expect(await json('disable', email)).toMatchObject({ status: 'disabled' })
  expect(await json('enable', email)).toMatchObject({ status: 'invited' })
  expect(await json('sign-out', email)).toMatchObject({ id: made.id })
  const listed = await tenon('list')
  expect(listed.stdout).toMatch(new RegExp(`^USER.*\\n${made.id} +${email} +invited +– +Uma\\n$`))
  expect(JSON.parse((await tenon('export')).stdout)).toMatchObject({ id: made.id, email })
  expect(await json('delete', email, '--yes')).toEqual({ id: made.id, deleted: true })
  const missing = await tenon('show', email)
  expect([missing.code, missing.stderr]).toEqual([1, expect.stringContaining('has no user')])
})
