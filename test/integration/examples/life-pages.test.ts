/** Runs the commands of the pages about tenants and about a person's data, as they stand there, one after the other. */

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { operatorEnv } from '../../support/clients/cli.ts'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

/** The command starts in a second, and most calls of it print a token. */
const NPX = 'npx() { case "$*" in *" token") printf %s "$TOKEN" ;; *) command npx "$@" ;; esac; }\n'

async function run(page: string, workspace: TestWorkspace, adapt: (text: string) => string): Promise<string> {
  const blocks = [...(await readFile(`docs/${page}.md`, 'utf8')).matchAll(/```bash\n([\s\S]*?)```/g)]
  const script = NPX + adapt(blocks.map(([, text = '']) => text).join(''))
  const TOKEN = workspace.operator['authorization']?.replace('Bearer ', '')
  const env = {
    ...process.env,
    ...operatorEnv(workspace),
    TENON_SERVICE_KEY: workspace.service['apikey'],
    TOKEN,
  }
  return (await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], { env })).stdout
}

test('page of tenants: its commands create, use, suspend, restore and purge a workspace', async () => {
  const slug = unique('acme')
  const stdout = await run('tenants', await createTestWorkspace(), (text) =>
    text.replace('--slug acme', `--slug ${slug}`),
  )
  expect(stdout).toContain('"state": "suspended"')
  expect(stdout).toContain('"after": {}')
}, 120_000)

test('page of a person: its commands export a user, count and delete what the user has', async () => {
  const workspace = await createTestWorkspace()
  await configure(workspace, { auth: { sign_up: 'invite' } })
  const { operator: as, workspaceId: workspace_id } = workspace
  const body = { workspace_id, email: 'mia@example.com' }
  expect((await call('POST', '/v1/users', { as, body })).status).toBe(201)
  const file = join(await mkdtemp(join(tmpdir(), 'tenon-page-')), 'person.ndjson')
  const stdout = await run('privacy', workspace, (text) => text.replaceAll('person.ndjson', file))
  expect(await readFile(file, 'utf8')).toContain('"type":"profile"')
  await rm(dirname(file), { recursive: true })
  expect(stdout).toContain('"dry_run":true')
  expect(stdout).toContain('"state":"succeeded"')
}, 60_000)
