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

/** The command takes a second to start, and most calls print a token. */
const NPX =
  'npx() { shift; case "$*" in *token) printf %s "$TOKEN" ;; *) node_modules/.bin/tenon "$@" ;; esac; }\n'

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
}, 240_000)

test('page of moving: its commands export a workspace and import the archive beside it', async () => {
  const workspace = await createTestWorkspace()
  const { operator: as, service, tenantId } = workspace
  await call('POST', '/v1/collections/notes/documents', { as: service, body: { n: 1 } })
  const file = join(await mkdtemp(join(tmpdir(), 'tenon-page-')), 'shop.tar.zst')
  const stdout = await run('moving-workspaces', workspace, (text) =>
    text.replaceAll('shop.tar.zst', file).replace('$TENANT', tenantId),
  )
  await rm(dirname(file), { recursive: true })
  const [, id] = /^workspace_id +(ws_\S+)$/m.exec(stdout) ?? []
  const { body: copy } = await call('GET', `/v1/workspaces/${id}`, { as })
  expect([copy.slug, copy.state]).toEqual(['shop-copy', 'active'])
  expect(stdout).toMatch(/^counts\.documents +1$/m)
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
}, 240_000)
