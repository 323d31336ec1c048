/** Runs the commands of the pages for each kind of reader, and of those for people who come from other products, from the first to the last in an empty folder. */

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { operatorEnv } from '../../support/clients/cli.ts'
import {
  call,
  createTestWorkspaceWithStorage,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'

/** Most calls print a token, and the command takes a second to start. */
const NPX = `npx() { shift; case "$*" in *token) printf %s "$TOKEN" ;; *) ${resolve('node_modules/.bin/tenon')} "$@" ;; esac; }\n`

/** @returns what the commands of the page print */
async function run(
  page: string,
  workspace: TestWorkspace,
  adapt = (text: string) => text,
  more: Readonly<Record<string, string>> = {},
): Promise<string> {
  const blocks = [...(await readFile(`docs/${page}.md`, 'utf8')).matchAll(/```bash\n([\s\S]*?)```/g)]
  expect(blocks.length).toBeGreaterThan(0)
  // What curl prints has no line break at its end.
  const script = NPX + adapt(blocks.map(([, text = '']) => `${text}\necho\n`).join(''))
  const cwd = await mkdtemp(join(tmpdir(), 'tenon-page-'))
  onTestFinished(() => rm(cwd, { recursive: true, force: true }))
  const TOKEN = workspace.operator['authorization']?.replace('Bearer ', '')
  const env = {
    ...operatorEnv(workspace),
    TENON_ANON_KEY: workspace.anon['apikey'],
    TENON_SERVICE_KEY: workspace.service['apikey'],
    TENON_TENANT_ID: workspace.tenantId,
    // TENON_TOKEN also spares each command the request for a token.
    ...{ TOKEN, TENON_TOKEN: TOKEN },
    ...more,
  }
  return (await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], { env, cwd })).stdout
}

test('page for app developers: keeps a booking, opens the sign-up, links to a file, subscribes, and invokes a function', async () => {
  const workspace = await createTestWorkspaceWithStorage()
  const printed = await run('for-app-developers', workspace)
  expect(printed).toContain('"court":"A","starts_at":"2027-05-01T10:00:00Z"}]')
  expect(printed).toContain('Court A is closed on Sunday.')
  expect(printed).toContain('event: ready')
  expect(printed).toMatch(/Ada/)
  const twice = { as: workspace.service, body: { court: 'A', starts_at: '2027-05-01T10:00:00Z' } }
  expect((await call('POST', '/v1/collections/bookings/documents', twice)).body.code).toBe('unique_violation')
})

test('page for flow authors: tests, publishes, approves and looks at a flow', async () => {
  const printed = await run('for-flow-authors', await createTestWorkspaceWithStorage())
  expect(printed).toMatch(/2 of 2|2 passed|2 cases/)
  expect(printed).toMatch(/completed/)
})

test('page for agent builders: publishes a collection and a function as tools, and calls both', async () => {
  const printed = await run('for-agent-builders', await createTestWorkspaceWithStorage())
  expect(printed).toContain('Call Ann')
  expect(printed).toContain('Hello, Ada!')
})

test('page for operators: creates a tenant with a workspace, rotates a key, and verifies the audit log', async () => {
  const slug = unique('acme')
  const printed = await run('for-operators', await createTestWorkspaceWithStorage(), (text) =>
    text.replace('--slug acme', `--slug ${slug}`),
  )
  expect(printed).toContain('tenant.create')
})

test('page from Firebase: a user sees the own notes, an anon key the public one', async () => {
  const workspace = await createTestWorkspaceWithStorage()
  const USER_TOKEN = (await userToken(workspace, 'mia'))['authorization']?.replace('Bearer ', '') ?? ''
  const printed = await run('from-firebase', workspace, undefined, { USER_TOKEN })
  const lists = [...printed.matchAll(/\{"data":\[[^\]]*\]/g)].map(([list]) =>
    [...list.matchAll(/"title":"(\w+)"/g)].map(([, title]) => title),
  )
  expect(lists).toEqual([['private', 'shared'], ['shared']])
  expect(printed).toContain('event: ready')
})
