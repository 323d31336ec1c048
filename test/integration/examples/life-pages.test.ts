/** Runs the commands of the pages about tenants, host names, roles, a person's data and the command line, as they stand there, one after the other. */

import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { addClient, Browser, type TestAccount, tokensOf } from '../../support/clients/browser.ts'
import { operatorEnv } from '../../support/clients/cli.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { startDnsServer } from '../../support/servers/dns-server.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

/** The command takes a second to start, and most calls print a token. Where a person signs in, `SIGN_IN` does it. */
const NPX = `npx() { shift; case "$*" in *token) printf %s "$TOKEN" ;; *login) curl -sf "$SIGN_IN" -d "$LINK" ;;
  *) node_modules/.bin/tenon "$@" ;; esac; }\n`

async function run(
  page: string,
  workspace: TestWorkspace,
  adapt: (text: string) => string,
  more: Readonly<Record<string, string>> = {},
): Promise<string> {
  const blocks = [...(await readFile(`docs/${page}.md`, 'utf8')).matchAll(/```bash\n([\s\S]*?)```/g)]
  const script = NPX + adapt(blocks.map(([, text = '']) => text).join(''))
  const TOKEN = workspace.operator['authorization']?.replace('Bearer ', '')
  const env = {
    ...process.env,
    ...operatorEnv(workspace),
    TENON_SERVICE_KEY: workspace.service['apikey'],
    TENON_TENANT_ID: workspace.tenantId,
    // TENON_TOKEN also spares each command the request for a token.
    ...{ TOKEN, TENON_TOKEN: TOKEN },
    ...more,
  }
  return (await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], { env })).stdout
}

test('page of tenants: its commands create, use, suspend, restore and purge a workspace', async () => {
  const slug = unique('acme')
  const stdout = await run('tenants', await createTestWorkspace(), (text) =>
    text.replace('--slug acme', `--slug ${slug}`).replace('ada@', `${slug}@`),
  )
  expect(stdout).toMatch(/^state +suspended$/m)
  expect(stdout).toContain('"after": {}')
})

test('page of moving: its commands export a tenant and a workspace, and import the archives beside them', async () => {
  const workspace = await createTestWorkspace()
  const { operator: as, service, tenantId } = workspace
  await call('POST', '/v1/collections/notes/documents', { as: service, body: { n: 1 } })
  const folder = await mkdtemp(join(tmpdir(), 'tenon-page-'))
  const slug = unique('acme')
  const stdout = await run('moving-workspaces', workspace, (text) =>
    text
      .replaceAll(/(shop|acme)(\.tar\.zst|\.json)/g, (name) => join(folder, name))
      .replace('acme-copy', slug)
      .replace('--tenant $TENANT ', `--tenant ${tenantId} `),
  )
  await rm(folder, { recursive: true })
  expect(stdout).toMatch(new RegExp(`^slug +${slug}$`, 'm'))
  const [, id] = /^workspace_id +(ws_\S+)$/m.exec(stdout) ?? []
  const { body: copy } = await call('GET', `/v1/workspaces/${id}`, { as })
  expect([copy.slug, copy.state]).toEqual(['shop-copy', 'active'])
  expect(stdout).toMatch(/^counts\.documents +1$/m)
})

test('page of a person: its commands export a user, count and delete what the user has, and make another anonymous', async () => {
  const workspace = await createTestWorkspace()
  await configure(workspace, { auth: { sign_up: 'invite' } })
  const { operator: as, workspaceId: workspace_id } = workspace
  for (const email of ['mia@example.com', 'ida@example.com'])
    expect((await call('POST', '/v1/users', { as, body: { workspace_id, email } })).status).toBe(201)
  const file = join(await mkdtemp(join(tmpdir(), 'tenon-page-')), 'person.ndjson')
  const stdout = await run('privacy', workspace, (text) => text.replaceAll('person.ndjson', file))
  expect(await readFile(file, 'utf8')).toContain('"type":"profile"')
  await rm(dirname(file), { recursive: true })
  expect(stdout).toContain('"dry_run": true')
  expect([...stdout.matchAll(/^(type|state) +(\S+)$/gm)].map(([, , value]) => value).sort()).toEqual([
    ...['succeeded', 'succeeded', 'user.anonymize', 'user.delete'],
  ])
  const left = await call('GET', `/v1/users?workspace_id=${workspace_id}`, { as })
  expect(left.body.data).toEqual([])
})

test('page of the command line: its example creates a tenant, and watches its purge', async () => {
  const slug = unique('acme')
  const stdout = await run('command-line', await createTestWorkspace(), (text) =>
    text.replace('--slug acme', `--slug ${slug}`),
  )
  expect(stdout).toMatch(/^type +tenant\.delete$/m)
  expect(stdout).toMatch(/^steps\.finish_purge +succeeded$/m)
})

/** Sets the password at the link that is posted first, and answers with an access token of the person. */
async function startSignIn(workspace: TestWorkspace, email: string) {
  const clientId = await addClient(workspace.operator)
  const tenant = (await call('GET', `/v1/tenants/${workspace.tenantId}`, { as: workspace.operator })).body
    .slug
  const person: TestAccount = { id: '', email, password: 'correct horse again', tenant }
  let isAccepted = false
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const link = await text(request)
    const browser = new Browser('nowhere:')
    const { password } = person
    if (!isAccepted) await browser.submit(await browser.open(link), { password, again: password })
    isAccepted = true
    response.end((await tokensOf(clientId, person, { scope: 'api' })).body['access_token'])
  }
  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => response.writeHead(500).end(String(error)))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() }
}

test('page of roles: a developer deploys, sees no payload, is granted the right, and her look is in the audit log', async () => {
  const workspace = await createTestWorkspace()
  const email = `${unique('dora')}@acme.example`
  const signIn = await startSignIn(workspace, email)
  const adapt = (page: string) => page.replaceAll('dora@acme.example', email)
  const stdout = await run('roles', workspace, adapt, { SIGN_IN: signIn.url }).finally(signIn.close)
  expect(stdout).toMatch(/\{"page":"home"\}$/m)
  expect(stdout).toMatch(/^\{"data":"refused"\}\nrefused$/m)
  const printed = stdout.matchAll(/\{\n {2}"(?:status|operation)"[\s\S]*?\n\}/g)
  const [before, after, look] = [...printed].map(([json]) => JSON.parse(json))
  expect(before).toEqual({ status: 'completed', output: null, payloads: 'hidden' })
  expect(after).toEqual({ status: 'completed', output: { text: 'Hello Ada' }, payloads: null })
  expect(look).toMatchObject({ operation: 'execution.get', actor: { role: 'developer' } })
})

test('page of running flows: a shell follows all executions of the workspace, and of two edits of one draft the second is refused', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tenon-runs-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const inFolder = (page: string) => page.replaceAll(/\b(status\.txt|draft\.(?:json|txt))\b/g, `${folder}/$1`)
  const stdout = await run('flows-running', await createTestWorkspace(), inFolder)
  const lines = stdout.trim().split('\n')
  const changes = lines.slice(0, -2).map((line) => JSON.parse(line))
  expect(changes[0]).toMatchObject({ flow: 'hello', previous_status: null })
  expect(changes.at(-1)).toMatchObject({ flow: 'hello', status: 'completed' })
  expect(lines.slice(-2)).toEqual(['200', '412'])
})

/** Answers each request after `work`. */
async function startHook(work: () => Promise<void>) {
  const server = createServer((_request, response) => {
    work().then(
      () => response.end(),
      (error: unknown) => response.writeHead(500).end(String(error)),
    )
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() }
}

test('page of host names: its commands claim and prove a name, and read under it', async () => {
  const workspace = await createTestWorkspace()
  const dns = await startDnsServer()
  const node = await startInProcessNode({ TENON_DNS_SERVERS: dns.address })
  const host = `${unique('api')}.shop.example`
  const publishing = await startHook(async () => {
    const [row] = await asSuperuser<{ proof: string }>('select proof from tenon.hosts where host = $1', [
      host,
    ])
    dns.texts.set(`_tenon.${host}`, [row?.proof ?? ''])
  })
  const adapt = (page: string) =>
    page
      .replace(/^api .*\/verify/m, (line) => `curl -sf "$PUBLISH"\n${line}`)
      .replace('https://api.shop.example/', `-H 'host: ${host}' $TENON_URL/`)
      .replaceAll('api.shop.example', host)
  const env = { WS: workspace.workspaceId, KEY: String(workspace.service['apikey']) }
  const more = { ...env, TENON_URL: node.at.url, PUBLISH: publishing.url }
  onTestFinished(async () => {
    publishing.close()
    await node.close()
    await dns.close()
  })
  const stdout = await run('host-names', workspace, adapt, more)
  const [claimed, verified, documents] = stdout.split(/(?<=\})(?=\{)/).map((one) => JSON.parse(one))
  expect([claimed.host, claimed.verified_at]).toEqual([host, null])
  expect(verified).toEqual({ ...claimed, verified_at: expect.any(String) })
  expect(documents.data).toEqual([])
})
