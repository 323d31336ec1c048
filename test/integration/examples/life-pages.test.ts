/** Runs the commands of the pages about tenants, a person's data and sign-ins, as they stand there, one after the other. */

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { addAccount, addClient, inWorkspace, tokensOf } from '../../support/clients/browser.ts'
import { operatorEnv } from '../../support/clients/cli.ts'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

/** The command takes a second to start, and most calls print a token. */
const NPX =
  'npx() { shift; case "$*" in *token) printf %s "$TOKEN" ;; login) printf %s "$PERSON" ;; *) node_modules/.bin/tenon "$@" ;; esac; }\n'

interface Run {
  /** Of the blocks: those that a test runs. */
  readonly language?: string
  /** The access token that `tenon login` prints. */
  readonly person?: string | undefined
}

async function run(
  page: string,
  workspace: TestWorkspace,
  adapt: (text: string) => string,
  { language = 'bash', person = '' }: Run = {},
): Promise<string> {
  const text = await readFile(`docs/${page}.md`, 'utf8')
  const blocks = [...text.matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g'))]
  const script = NPX + adapt(blocks.map(([, text = '']) => text).join(''))
  const TOKEN = workspace.operator['authorization']?.replace('Bearer ', '')
  const env = {
    ...process.env,
    ...operatorEnv(workspace),
    TENON_SERVICE_KEY: workspace.service['apikey'],
    TENON_TENANT_ID: workspace.tenantId,
    TOKEN,
    PERSON: person,
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

test('page of sign-ins: its commands require a second factor and take it back, list sessions and consents, and end the oldest session', async () => {
  const workspace = await createTestWorkspace()
  const { operator } = workspace
  const [clientId, account] = await Promise.all([
    addClient(operator),
    addAccount(operator, { role: 'workspace_admin', ...inWorkspace(workspace) }),
  ])
  await tokensOf(clientId, account)
  const { access_token: person } = (await tokensOf(clientId, account)).body
  const folder = await mkdtemp(join(tmpdir(), 'tenon-page-'))
  const inFolder = (text: string) =>
    text.replace('> token', `> ${folder}/token`).replace('cat token', `cat ${folder}/token`)
  const stdout = await run('identity', workspace, inFolder, { language: 'sh', person })
  await rm(folder, { recursive: true })
  expect(stdout.match(/"require_mfa":(true|false)/g)).toEqual(
    ['true', 'true', 'false'].map((value) => `"require_mfa":${value}`),
  )
  expect(stdout.match(/"current": true/g)).toHaveLength(1)
  expect(stdout).toMatch(/"id":"ses_\w+","ended":true/)
  expect(stdout).toContain('"client_name": "App"')
  const left = await call('GET', `/v1/accounts/${account.id}/sessions`, { as: operator })
  expect(left.body.data).toHaveLength(1)
}, 120_000)
