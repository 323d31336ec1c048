/** Clients whose id is the URL of a document that describes them (client ID metadata documents). */

import type { ServerResponse } from 'node:http'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { ACCESS_LIMITS } from '../../../src/access/limits.ts'
import { ClientDocuments } from '../../../src/features/identity/clients/client-documents.ts'
import { OAuthClients } from '../../../src/features/identity/clients/oauth-clients-store.ts'
import { ISSUER_LIMITS } from '../../../src/features/identity/limits.ts'
import { Egress } from '../../../src/infra/http-client/egress.ts'
import { Database } from '../../../src/infra/postgres/database.ts'
import { entriesOf } from '../../support/clients/audit.ts'
import {
  addAccount,
  askTokens,
  authorization,
  Browser,
  bearer,
  claimsOf,
  exchange,
  type Flow,
  inWorkspace,
  REDIRECT,
  refresh,
  type Seen,
  signIn,
  type TestAccount,
} from '../../support/clients/browser.ts'
import { ok, type PublishedMcpServer, publishMcpServer, rpc, scopesOf } from '../../support/clients/mcp.ts'
import { asSuperuser, call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { openTlsServer, type TlsServer } from '../../support/servers/tls-server.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'
import { stopwatch } from '../../support/stopwatch.ts'

const WEB = 'https://agent.test/callback'
const { bytesMax, timeoutMs } = ISSUER_LIMITS.clientDocuments

/** Answers of the server by path; other paths are documents without faults. */
const answers = new Map<string, (response: ServerResponse) => void>()
const requests: string[] = []
const systemAuthorities = getCACertificates('default')

let host: TlsServer
let unlisted: TlsServer
let node: Node
let workspace: TestWorkspace
let mcpServer: PublishedMcpServer
let person: TestAccount
beforeAll(async () => {
  host = await openTlsServer((request, response) => answer(host, request.url ?? '', response))
  unlisted = await openTlsServer((request, response) => answer(unlisted, request.url ?? '', response))
  setDefaultCACertificates([...systemAuthorities, host.certificate, unlisted.certificate])
  node = await startInProcessNode({ TENON_CLIENT_ID_HOSTS: host.host })
  workspace = await createTestWorkspace()
  mcpServer = await publishMcpServer(workspace, 'documents')
  person = await addAccount(workspace.operator, { role: 'service', ...inWorkspace(workspace) })
})
afterAll(async () => {
  setDefaultCACertificates(systemAuthorities)
  await Promise.all([node?.close(), host?.close(), unlisted?.close()])
})

function answer({ origin }: TlsServer, path: string, response: ServerResponse): void {
  requests.push(path)
  const respond = answers.get(path) ?? sendJson(documentFor(`${origin}${path}`))
  respond(response)
}

const documentFor = (client_id: string, more: object = {}) => ({
  client_id,
  client_name: 'Documented agent',
  redirect_uris: [REDIRECT],
  token_endpoint_auth_method: 'none',
  ...more,
})

const sendJson =
  (body: unknown, status = 200, headers: Record<string, string> = {}) =>
  (response: ServerResponse) =>
    void response
      .writeHead(status, { 'content-type': 'application/json', ...headers })
      .end(typeof body === 'string' ? body : JSON.stringify(body))

/** The address of a document. @param more members, or the whole answer */
function publishDocument(path: string, more: object | ((response: ServerResponse) => void) = {}): string {
  const id = `${host.origin}${path}`
  answers.set(path, typeof more === 'function' ? (more as never) : sendJson(documentFor(id, more)))
  return id
}

const readsOf = (id: string) => requests.filter((path) => id.endsWith(path)).length

/** Begins an authorization at the node that may read documents of the host. */
function begin(clientId: string, more: Record<string, string> = {}): Flow {
  const scope = scopesOf(mcpServer, 'notes_list')
  const flow = authorization(clientId, { resource: mcpServer.url, scope, ...more })
  return { ...flow, url: flow.url.replace(inject('tenon').url, node.at.url) }
}

async function consentPage(browser: Browser, flow: Flow): Promise<Seen> {
  const { tenant, email, password } = person
  return browser.submit(await browser.open(flow.url), { action: 'login', tenant, email, password })
}

test('metadata of the issuer: says that documents are read', async () => {
  const { body } = await call('GET', '/.well-known/oauth-authorization-server/auth')
  expect(body).toMatchObject({
    client_id_metadata_document_supported: true,
    token_endpoint_auth_methods_supported: expect.arrayContaining(['none']),
  })
})

describe('client with a document', () => {
  test('signs its user in at a hosted server, calls a tool, refreshes; its id is in tokens, logs and pages', async () => {
    const id = publishDocument('/agents/one.json', { client_name: 'Agent <One>' })
    const browser = new Browser(REDIRECT)
    const flow = begin(id)
    const consent = await consentPage(browser, flow)
    expect(consent.html).toContain('Agent &lt;One&gt;')
    expect(consent.html).toContain(`<code>${host.host}</code> describes this client, as <code>${id}</code>`)
    expect(consent.html).toContain('You will be sent to <code>127.0.0.1:9</code>')
    expect(consent.html).toContain('any program can pretend to be this client')
    const end = await browser.submit(consent, { action: 'allow' })
    const { body } = await exchange(id, flow, new URL(end.url))
    expect(claimsOf(body['access_token'])).toMatchObject({
      aud: mcpServer.url,
      client_id: id,
      sub: person.id,
    })
    expect(body['scope']).toBe(scopesOf(mcpServer, 'notes_list'))
    const as = bearer(body['access_token'])
    const called = { name: 'notes_list', arguments: {} }
    expect((await rpc(mcpServer.path, as, 'tools/call', called)).body.result.isError).toBe(false)
    expect((await refresh(id, body['refresh_token'])).status).toBe(200)
    expect(readsOf(id)).toBe(1)

    const asOperator = workspace.operator
    const calls = await ok(
      call('GET', `${mcpServer.base}/audit?client_id=${encodeURIComponent(id)}`, { as: asOperator }),
    )
    expect(calls.data).toMatchObject([{ client_id: id, tool: 'notes_list' }])
    const path = `/v1/oauth-clients/${encodeURIComponent(id)}`
    const client = await ok(call('GET', path, { as: asOperator }))
    expect(client).toMatchObject({ client_id: id, registered: true, tenant_id: null, kind: 'public' })
    const agents = new Browser('nowhere:')
    const first = await agents.open(`${inject('tenon').url}/auth/agents`)
    const { tenant, email, password } = person
    const list = await agents.submit(first, { action: 'sign_in', tenant, email, password })
    expect(list.html).toContain(`<code>${host.host}</code> describes this client`)
    const audited = await entriesOf(asOperator, '&operation=oauth_client.read_document')
    expect(audited.map(({ detail }) => detail)).toContainEqual({ client_id: id, client_name: 'Agent <One>' })

    await ok(call('DELETE', path, { as: asOperator }))
    expect((await refresh(id, body['refresh_token'], node.at)).body['error']).toBe('invalid_grant')
  })

  test('two installations of one client: each of them is asked for a further scope by a challenge', async () => {
    const id = publishDocument('/agents/shared.json')
    for (const _installation of [1, 2]) {
      const flow = begin(id)
      const end = await signIn(new Browser(REDIRECT), flow, person)
      const { body } = await exchange(id, flow, end)
      const call = { name: 'notes_delete', arguments: { id: 'x' } }
      expect((await rpc(mcpServer.path, bearer(body['access_token']), 'tools/call', call)).status).toBe(403)
    }
  })

  test('platform server: may be used; the REST API may not', async () => {
    const admin = await addAccount(workspace.operator, { role: 'workspace_admin', ...inWorkspace(workspace) })
    const id = publishDocument('/agents/two.json')
    const resource = `${inject('tenon').url}/v1/mcp/platform/mcp`
    const flow = begin(id, { resource, scope: 'platform:read platform:write api' })
    const { body } = await exchange(id, flow, await signIn(new Browser(REDIRECT), flow, admin))
    expect([body['scope'], claimsOf(body['access_token']).aud]).toEqual([
      'platform:read platform:write',
      resource,
    ])
    for (const more of [{}, { resource: `${inject('tenon').url}/v1` }]) {
      const end = await new Browser(REDIRECT).open(authorization(id, more).url)
      expect(new URL(end.url).searchParams.get('error')).toBe('invalid_target')
    }
  })

  test('redirect URI: exact; the port of a loopback address may vary', async () => {
    const id = publishDocument('/agents/uris.json', {
      redirect_uris: ['http://127.0.0.1/cb', WEB, 'cursor://anysphere/callback', 'http://agent.test/'],
    })
    const statusFor = async (redirect_uri: string) => {
      const { status, url } = await new Browser('nowhere:').open(begin(id, { redirect_uri }).url)
      return url.includes('/interaction/') ? 'sign-in' : status
    }
    for (const good of [
      'http://127.0.0.1/cb',
      'http://127.0.0.1:43210/cb',
      WEB,
      'cursor://anysphere/callback',
    ])
      expect([good, await statusFor(good)]).toEqual([good, 'sign-in'])
    for (const bad of [
      'http://127.0.0.1:43210/other',
      'http://localhost:43210/cb',
      `${WEB}/`,
      'https://agent.test:444/callback',
      'cursor://anysphere/other',
      'http://agent.test/',
    ])
      expect([bad, await statusFor(bad)]).toEqual([bad, 400])
  })

  test('gets no further grants: no client credentials, no code without PKCE', async () => {
    const id = publishDocument('/agents/grants.json', {
      grant_types: ['authorization_code', 'client_credentials', 'implicit'],
      response_types: ['code', 'token'],
      scope: 'mcp:documents:notes_delete platform:write api',
      jwks_uri: `${host.origin}/keys`,
    })
    await new Browser('nowhere:').open(begin(id).url)
    const machine = await askTokens(
      { grant_type: 'client_credentials', client_id: id, resource: mcpServer.url },
      node.at,
    )
    expect([machine.status, machine.body['error_description']]).toEqual([
      400,
      'requested grant type is not allowed for this client',
    ])
    for (const more of [{ response_type: 'token' }, { code_challenge: '' }]) {
      const end = await new Browser(REDIRECT).open(begin(id, more).url)
      expect(end.url).not.toContain('/interaction/')
    }
    expect(requests).not.toContain('/keys')
  })
})

describe('document', () => {
  const secret = { client_secret: 'hush' }
  const faulty: Record<string, [object | ((response: ServerResponse) => void), string]> = {
    'of another id': [{ client_id: 'https://agent.test/x.json' }, 'its client_id is not its URL'],
    'with a secret': [secret, 'it contains a secret'],
    'for a shared secret': [{ token_endpoint_auth_method: 'client_secret_post' }, 'must be none'],
    'for a key': [{ token_endpoint_auth_method: 'private_key_jwt' }, 'must be none'],
    'without a usable redirect URI': [
      { redirect_uris: ['http://agent.test/', 'javascript:alert(1)'] },
      'no redirect URI',
    ],
    'without the code grant': [{ grant_types: ['client_credentials'] }, 'must include authorization_code'],
    'with a hidden name': [{ client_name: 'Agent\u202e' }, 'client_name'],
    'with a word of two scripts': [
      { client_name: 'Cl\u0430ude' },
      'client_name has letters of several scripts',
    ],
    'with too many redirect URIs': [
      { redirect_uris: Array.from({ length: ISSUER_LIMITS.redirectUrisMax + 1 }, (_, n) => `${WEB}/${n}`) },
      'redirect URIs',
    ],
    'too large': [{ padding: 'x'.repeat(bytesMax) }, `more than ${bytesMax} bytes`],
    'of another type': [sendJson('{}', 200, { 'content-type': 'text/html' }), 'content type'],
    'no JSON': [sendJson('{'), 'not JSON'],
    'a list': [sendJson([]), 'needs client_id'],
    missing: [sendJson({}, 404), 'answered 404'],
    redirected: [sendJson({}, 302, { location: '/agents/one.json' }), 'answered 302'],
    hanging: [() => {}, 'cannot be read'],
    endless: [
      (response) => void response.writeHead(200, { 'content-type': 'application/json' }).write('{'),
      'cannot be read',
    ],
  }

  test('faulty, large, slow or redirected document: refused with the reason, and not read again at once (T19)', async () => {
    const elapsedMs = stopwatch()
    const found = await Promise.all(
      Object.entries(faulty).map(async ([what, [more, reason]]) => {
        const id = publishDocument(`/faulty/${encodeURIComponent(what)}`, more)
        const { status, html } = await new Browser(REDIRECT).open(begin(id).url)
        expect([what, status, html]).toEqual([what, 400, expect.stringContaining(reason)])
        expect((await new Browser(REDIRECT).open(begin(id).url)).status).toBe(400)
        return [what, readsOf(id)]
      }),
    )
    expect(found).toEqual(Object.keys(faulty).map((what) => [what, 1]))
    expect(elapsedMs()).toBeLessThan(timeoutMs + 4_000)
    const unknown = await asSuperuser("select id from tenon.oauth_clients where id like '%/faulty/%'")
    expect(unknown).toEqual([])
  })

  test('private, link-local or unlisted address, or no https: no request is sent (T19)', async () => {
    const { port } = new URL(host.origin)
    const ids = [
      `${unlisted.origin}/client.json`,
      `http://127.0.0.1:${new URL(unlisted.origin).port}/client.json`,
      'https://169.254.169.254/latest/meta-data',
      'https://10.0.0.1/client.json',
      'https://[::ffff:10.0.0.1]/client.json',
      `https://localhost:${port}/client.json`,
      'http://agent.test/client.json',
      `${host.origin}/`,
      `${host.origin}/a#b`,
      `${host.origin}/a/../b`,
      `${host.origin}/a/%2e%2e/b`,
      `https://u:p@${host.host}/client.json`,
      `HTTPS://${host.host}/client.json`,
      `${host.origin}/${'x'.repeat(ACCESS_LIMITS.clientIdUrlCharsMax)}`,
      `${host.origin}/a\\b`,
      'file:///etc/passwd',
    ]
    const before = requests.length
    for (const id of ids) {
      const { status, html } = await new Browser(REDIRECT).open(begin(id).url)
      expect([id, status]).toEqual([id, 400])
      expect(html).not.toMatch(/egress|public address|TENON_/)
    }
    expect(requests.slice(before)).toEqual([])
  })

  test('node without the setting: does not read it', async () => {
    const id = publishDocument('/agents/elsewhere.json')
    const { status } = await new Browser(REDIRECT).open(authorization(id, { resource: mcpServer.url }).url)
    expect([status, readsOf(id)]).toEqual([400, 0])
  })
})

describe('stored copy', () => {
  const by = { address: '192.0.2.7', requestId: '' }
  const audit = { documentRead: () => {}, documentRefused: () => {} } as never
  let database: Database
  beforeAll(() => {
    database = Database.open(inject('tenon').env['DATABASE_APP_URL'] ?? '', () => {}, 2)
  })
  afterAll(() => database?.close())

  /** Without anything remembered by an earlier one. */
  const open = (max = 1_000) =>
    new ClientDocuments({
      ...{ clients: new OAuthClients(database), egress: new Egress([]), audit },
      config: { TENON_CLIENT_ID_HOSTS: host.host, TENON_REGISTRATIONS_PER_ADDRESS: max },
    })
  const age = (id: string, by: string) =>
    asSuperuser(
      `update tenon.oauth_clients set fresh_until = fresh_until - $2::interval, changed_at = changed_at - $2::interval
       where id = $1`,
      [id, by],
    )

  test('fresh: not read again; stale: read again, used while the server fails, refused once it is withdrawn', async () => {
    const id = publishDocument('/agents/aging.json', (response) =>
      sendJson(documentFor(id), 200, { 'cache-control': 'max-age=600' })(response),
    )
    const [first] = await Promise.all([open().resolve(id, by), open().resolve(id, by)])
    const reads = readsOf(id)
    expect((await open().resolve(id, by)).changedAt).toBe(first.changedAt)
    expect(readsOf(id)).toBe(reads)
    await age(id, '11 minutes')
    answers.set('/agents/aging.json', sendJson({}, 503))
    expect((await open().resolve(id, by)).name).toBe('Documented agent')
    expect(readsOf(id)).toBe(reads + 1)
    answers.set('/agents/aging.json', sendJson({}, 410))
    await expect(open().resolve(id, by)).rejects.toMatchObject({ error: 'invalid_client' })
    await age(id, '24 hours')
    answers.set('/agents/aging.json', sendJson({}, 503))
    await expect(open().resolve(id, by)).rejects.toMatchObject({ error: 'invalid_client' })
    answers.set('/agents/aging.json', sendJson(documentFor(id, { redirect_uris: [WEB] })))
    const changed = await open().resolve(id, by)
    expect(changed.redirectUris).toEqual([WEB])
    expect(changed.changedAt).toBeGreaterThan((first.changedAt ?? 0) - 90_000)
  })

  test('many unknown documents from one address: refused; a stored one is still used', async () => {
    const documents = open(3)
    const ids = [1, 2, 3, 4, 5].map((n) => publishDocument(`/agents/many-${n}.json`))
    const results = []
    for (const id of ids) results.push(await documents.resolve(id, by).catch((error) => error.error))
    expect(results.map((one) => one.id ?? one)).toEqual([
      ...ids.slice(0, 3),
      'invalid_client',
      'invalid_client',
    ])
    expect((await documents.resolve(ids[0] ?? '', by)).id).toBe(ids[0])
    expect((await documents.resolve(ids[4] ?? '', { ...by, address: '192.0.2.8' })).id).toBe(ids[4])
  })
})

test('document that changed: its user is asked again, though the session has a consent', async () => {
  const id = publishDocument('/agents/changing.json', { redirect_uris: [WEB] })
  const browser = new Browser(WEB)
  const flow = begin(id, { redirect_uri: WEB })
  const consent = await consentPage(browser, flow)
  expect((await browser.submit(consent, { action: 'allow' })).url).toContain(`${WEB}?code=`)
  expect((await browser.open(begin(id, { redirect_uri: WEB }).url)).url).toContain(`${WEB}?code=`)
  await asSuperuser(
    "update tenon.oauth_clients set changed_at = now() + interval '1 minute', fresh_until = fresh_until where id = $1",
    [id],
  )
  await expect
    .poll(async () => (await browser.open(begin(id, { redirect_uri: WEB }).url)).html)
    .toContain('Allow access?')
})
