/** `tenon login`: the terminal waits while a user signs in with a browser. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, inject, test } from 'vitest'
import {
  addAccount,
  addClient,
  Browser,
  bearer,
  inWorkspace,
  type TestAccount,
} from '../../support/clients/browser.ts'
import { call, createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'

async function login(clientId: string, person: TestAccount, action: 'allow' | 'deny') {
  const env = { ...process.env, TENON_URL: inject('tenon').url }
  const child = spawn(process.execPath, ['stack/bootstrap.mjs', 'login', '--client', clientId], { env })
  const output = { out: '', err: '' }
  child.stdout.on('data', (chunk) => {
    output.out += chunk
  })
  child.stderr.on('data', (chunk) => {
    output.err += chunk
  })
  const ended = once(child, 'exit')
  const url = await eventually(async () => /http\S+\/auth\/authorize\S+/.exec(output.err)?.[0], 60_000)
  const browser = new Browser('nowhere:')
  const { tenant, email, password } = person
  const fields = { action: 'login', tenant, email, password }
  const consent = await browser.submit(await browser.open(url), fields)
  const back = await browser.submit(consent, { action })
  const [code] = await ended
  return { ...output, back, code }
}

test('login: user signs in: token alone on stdout; user denies: no token', async () => {
  const workspace = await createTestWorkspace()
  const person = await addAccount(workspace.operator, { role: 'workspace_admin', ...inWorkspace(workspace) })
  const clientId = await addClient(workspace.operator, { redirect_uris: ['http://127.0.0.1/callback'] })
  const { out, back, code } = await login(clientId, person, 'allow')
  expect([code, back.html]).toEqual([0, expect.stringContaining('Close this page')])
  const { body } = await call('GET', '/v1/workspaces', { as: bearer(out.trim()) })
  expect(body.data).toMatchObject([{ id: workspace.workspaceId }])
  const denied = await login(clientId, person, 'deny')
  expect([denied.code, denied.out]).toEqual([1, ''])
  expect(denied.err).toContain('Sign-in failed: access was denied')
})
