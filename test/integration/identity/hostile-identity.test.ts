/** Attacks on identity by callers with a valid credential or none: each of these once succeeded. */

import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { makeKey } from '../../../src/access/authentication/credentials.ts'
import { ACCESS_LIMITS } from '../../../src/access/limits.ts'
import { buildApp } from '../../../src/api/app.ts'
import { openAuthServices } from '../../../src/app/auth-services.ts'
import { openPlatform } from '../../../src/app/platform.ts'
import { ISSUER_LIMITS } from '../../../src/features/identity/limits.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { INFRA_LIMITS } from '../../../src/infra/limits.ts'
import { openLog } from '../../../src/infra/log.ts'
import {
  addAccount,
  addClient,
  authorization,
  Browser,
  bearer,
  claimsOf,
  exchange,
  inWorkspace,
  REDIRECT,
  refresh,
  type Seen,
  signIn,
  tokensOf,
} from '../../support/clients/browser.ts'
import { ok, publishMcpServer, RPC } from '../../support/clients/mcp.ts'
import { closeSubscriptions, receivedAtLeast, subscribeToEvents } from '../../support/clients/sse.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

let node: Node
let workspace: TestWorkspace
let clientId: string
beforeAll(async () => {
  ;[workspace, node] = await Promise.all([
    createTestWorkspace(),
    startInProcessNode({
      REDIS_URL: `${inject('tenon').env['REDIS_URL']}/8`,
      TENON_RATE_AUTH_FAILURES: '6/min burst 5',
      TENON_TRUSTED_PROXIES: 'loopback',
      TENON_SIGN_INS_PER_ADDRESS: '60',
      TENON_REGISTRATIONS_PER_ADDRESS: '30',
    }),
  ])
  clientId = await addClient(workspace.operator)
})
afterEach(closeSubscriptions)
afterAll(() => node?.close())

const from = (address: string) => ({ 'x-forwarded-for': address })
/** The same authorization page, requested from the process with rate limits. */
const atLimitedNode = (page: Seen): Seen => ({
  ...page,
  url: page.url.replace(inject('tenon').url, node.at.url),
})

describe('credentials that end', () => {
  test('user token: its client is deleted: refused', async () => {
    const person = await addAccount(workspace.operator, {
      role: 'tenant_admin',
      tenant_id: workspace.tenantId,
    })
    const own = await addClient(workspace.operator)
    const { body } = await tokensOf(own, person)
    const as = bearer(body['access_token'])
    expect((await call('GET', '/v1/workspaces', { as })).status).toBe(200)
    await ok(call('DELETE', `/v1/oauth-clients/${own}`, { as: workspace.operator }))
    await eventually(async () => {
      const { status } = await call('GET', '/v1/workspaces', { as })
      return status === 401 ? true : undefined
    }, 7_000)
  })

  test('stream: another client at its address guesses keys: continues', async () => {
    const headers = from('203.0.113.20')
    const received = await subscribeToEvents(workspace.service, 'topic=guessed', headers, node.at)
    // Meanwhile its own key has to be looked up again. Events continue for longer than that.
    const untilMs = performance.now() + INFRA_LIMITS.credentialCacheMs + 2_500
    for (let n = 1; performance.now() < untilMs; n++) {
      await call('GET', '/v1/collections', { as: { apikey: makeKey('service') }, headers, at: node.at })
      const body = { topic: 'guessed', data: n }
      await call('POST', '/v1/events/publish', { as: workspace.service, body, at: node.at })
      await receivedAtLeast(received, n)
    }
    expect(received.filter(({ event }) => event === 'end')).toEqual([])
  })
})

describe('one client has a whole /64', () => {
  const address = (n: number) => from(`2001:db8:1:2::${n.toString(16)}`)
  test('client registration: addresses of one /64: limited like one address', async () => {
    const body = { redirect_uris: [REDIRECT] }
    const statuses = []
    for (let n = 1; n <= 31; n++)
      statuses.push((await call('POST', '/auth/register', { body, headers: address(n), at: node.at })).status)
    expect(statuses.at(-1)).toBe(429)
  })

  test('sign-in: password guesses from one /64: limited like one address', async () => {
    const browser = new Browser(REDIRECT)
    const page = atLimitedNode(await browser.open(authorization(clientId).url))
    let last = 0
    for (let n = 1; n <= 61; n++) {
      const fields = { action: 'login', tenant: 'none', email: `${n}@x.test`, password: 'short' }
      last = (await browser.submit(page, fields, address(n + 1_000))).status
    }
    expect(last).toBe(429)
  })
})

describe('no lock-out', () => {
  test('sign-in: guesses from another address: the user can still sign in', async () => {
    const person = await addAccount(workspace.operator, { role: 'service', ...inWorkspace(workspace) })
    const { tenant, email, password } = person
    const browser = new Browser(REDIRECT)
    const page = atLimitedNode(await browser.open(authorization(clientId).url))
    const login = (text: string, address: string) =>
      browser.submit(page, { action: 'login', tenant, email, password: text }, from(address))
    const statuses = []
    for (let n = 0; n < ACCESS_LIMITS.attemptsMax.accountFromAddress + 1; n++)
      statuses.push((await login('short', '203.0.113.30')).status)
    expect(statuses.at(-1)).toBe(429)
    expect((await login(password, '203.0.113.31')).status).not.toBe(429)
  })

  test('client registration: many unused clients: others can still register', async () => {
    await asSuperuser(
      `insert into tenon.oauth_clients (id, kind, name, redirect_uris, registered, created_by, created_at)
       select 'client_x' || n, 'public', 'flood', '[]', true, 'registration', now() - interval '20 hours'
       from generate_series(1, $1) n on conflict do nothing`,
      [ISSUER_LIMITS.registrationsMax],
    )
    try {
      const body = { redirect_uris: [REDIRECT] }
      const reply = await call('POST', '/auth/register', { body, headers: from('203.0.113.40'), at: node.at })
      expect([reply.status, reply.body]).toEqual([201, expect.anything()])
    } finally {
      await asSuperuser(`delete from tenon.oauth_clients where name = 'flood'`)
    }
  })
})

test('hosted MCP server: unauthenticated clients: limited before a database lookup', async () => {
  const mcpServer = await publishMcpServer(workspace, 'unauthenticated')
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
  const statuses = []
  for (let n = 0; n < 8; n++) {
    const headers = { ...RPC, ...from('203.0.113.50') }
    statuses.push((await call('POST', mcpServer.path, { body, headers, at: node.at })).status)
  }
  expect(statuses).toEqual([401, 401, 401, 401, 401, 429, 429, 429])
})

test('two users in one browser: consent of the first: does not apply to the second', async () => {
  const admin = () => addAccount(workspace.operator, { role: 'tenant_admin', tenant_id: workspace.tenantId })
  const [first, second] = await Promise.all([admin(), admin()])
  const browser = new Browser(REDIRECT)
  await signIn(browser, authorization(clientId), first)
  const flow = authorization(clientId, { prompt: 'login' })
  const { tenant, email, password } = second
  const login = await browser.open(flow.url)
  const consent = await browser.submit(login, { action: 'login', tenant, email, password })
  expect(consent.html).toContain(second.email)
  const end = new URL((await browser.submit(consent, { action: 'allow' })).url)
  const { body } = await exchange(clientId, flow, end)
  expect(claimsOf(body['access_token']).sub).toBe(second.id)
})

test('authorization: state that contains a well-known path: returned unchanged', async () => {
  const state = 'x/.well-known/oauth-authorization-server'
  const end = await new Browser(REDIRECT).open(authorization(clientId, { state, prompt: 'none' }).url)
  expect(new URL(end.url).searchParams.get('state')).toBe(state)
})

test.each(['https://a;sandbox/', 'https://a,b.test/', "https://a'b.test/", 'https://a&b.test/'])(
  'redirect host: meaningful in a header: %s: refused',
  async (uri) => {
    const body = { redirect_uris: [uri] }
    const reply = await call('POST', '/auth/register', { body, headers: from('203.0.113.60'), at: node.at })
    expect([reply.status, reply.body.error]).toEqual([400, 'invalid_redirect_uri'])
  },
)

test('issuer: internal error: logged under the request id, without the token', async () => {
  const lines: string[] = []
  const config = parseConfig(inject('tenon').env)
  const log = openLog('error', 'test', { write: (line) => void lines.push(line) })
  const { platform, parts } = openPlatform(config, log)
  const app = await buildApp(platform, openAuthServices(config, parts))
  try {
    const person = await addAccount(workspace.operator, { role: 'service', ...inWorkspace(workspace) })
    const { body: tokens } = await tokensOf(clientId, person)
    const corrupt = `update tenon.issuer_state set sealed = '\\x00' where account_id = $1 and model = 'RefreshToken'`
    await asSuperuser(corrupt, [person.id])
    const url = await app.listen({ host: '127.0.0.1', port: 0 })
    const { status, body } = await refresh(clientId, tokens['refresh_token'], { ...inject('tenon'), url })
    expect([status, body['error']]).toEqual([500, 'server_error'])
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { msg: 'issuer request failed', request_id: expect.stringMatching(/^req_/) },
    ])
    expect(lines.join()).not.toContain(tokens['refresh_token'])
  } finally {
    await app.close()
    await platform.close()
  }
})

test('refresh token: revoked by another client: stays valid', async () => {
  const person = await addAccount(workspace.operator, { role: 'service', ...inWorkspace(workspace) })
  const { body: tokens } = await tokensOf(clientId, person)
  const other = await addClient(workspace.operator)
  const body = new URLSearchParams({ client_id: other, token: tokens['refresh_token'] ?? '' })
  await fetch(`${inject('tenon').url}/auth/revoke`, { method: 'POST', body })
  expect((await refresh(clientId, tokens['refresh_token'])).status).toBe(200)
})
