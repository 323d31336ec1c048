/** Users sign in at the issuer: authorization code with PKCE, consent, and tokens with their rights. */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { ISSUER_LIMITS } from '../../../src/features/identity/limits.ts'
import {
  addAccount,
  addClient,
  askTokens,
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
  type TestAccount,
  tokensOf,
} from '../../support/clients/browser.ts'
import { ok, publishMcpServer, rpc } from '../../support/clients/mcp.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

let workspace: TestWorkspace
let admin: TestAccount
let clientId: string
/** A second API process on the same database. */
let node: Node
beforeAll(async () => {
  node = await startInProcessNode()
  workspace = await createTestWorkspace()
  admin = await addAccount(workspace.operator, { role: 'tenant_admin', tenant_id: workspace.tenantId })
  clientId = await addClient(workspace.operator)
})
afterAll(() => node?.close())
const api = () => `${inject('tenon').url}/v1`

/** Does what a tab asks for until its client has its answer. */
async function finish(browser: Browser, tab: Seen): Promise<URL> {
  const { tenant, email, password } = admin
  const isSignIn = tab.html.includes('name="password"')
  const fields = isSignIn ? { action: 'login', tenant, email, password } : { action: 'allow' }
  const next = await browser.submit(tab, fields)
  if (next.url.startsWith(REDIRECT)) return new URL(next.url)
  if (!isSignIn) throw new Error(`${next.status} ${next.url} ${next.html}`)
  return finish(browser, next)
}

describe('user', () => {
  test('user: signs in and consents: acts in the role of the account', async () => {
    const browser = new Browser(REDIRECT)
    const flow = authorization(clientId)
    const login = await browser.open(flow.url)
    expect([login.status, login.html]).toEqual([
      200,
      expect.stringContaining('<b>App</b> asks you to sign in'),
    ])
    const { tenant, email, password } = admin
    const consent = await browser.submit(login, { action: 'login', tenant, email, password })
    expect(consent.html).toContain('127.0.0.1:9')
    expect(consent.html).toContain('<code>api</code>')
    const end = new URL((await browser.submit(consent, { action: 'allow' })).url)
    expect(Object.fromEntries(end.searchParams)).toEqual({
      code: expect.stringMatching(/^[\w-]{43}$/),
      state: flow.state,
      iss: `${inject('tenon').url}/auth`,
    })
    const { status, body } = await exchange(clientId, flow, end)
    expect([status, body]).toMatchObject([200, { token_type: 'Bearer', expires_in: 600, scope: 'api' }])
    expect(claimsOf(body['access_token'])).toMatchObject({
      sub: admin.id,
      client_id: clientId,
      roles: ['tenant_admin'],
      tenant_id: workspace.tenantId,
      aud: api(),
    })
    const list = await call('GET', '/v1/workspaces', { as: bearer(body['access_token']) })
    expect(list.body.data.map(({ id }: { id: string }) => id)).toEqual([workspace.workspaceId])
  })

  test.each([
    ['service', { roles: ['service'] }],
    ['workspace_admin', { roles: ['workspace_admin'] }],
  ])('user: role %s: limited to the workspace', async (role, claims) => {
    const person = await addAccount(workspace.operator, { role, ...inWorkspace(workspace) })
    const { body } = await tokensOf(clientId, person)
    expect(claimsOf(body['access_token'])).toMatchObject({ ...claims, ...inWorkspace(workspace) })
    const path = role === 'service' ? '/v1/collections' : '/v1/workspaces'
    expect((await call('GET', path, { as: bearer(body['access_token']) })).status).toBe(200)
    const foreign = await call('GET', '/v1/tenants', { as: bearer(body['access_token']) })
    expect(foreign.status).toBe(403)
  })

  test('operator: signs in: without a tenant, refused by clients of a tenant', async () => {
    const person = await addAccount(workspace.operator, { role: 'operator' })
    const { body } = await tokensOf(clientId, person)
    expect((await call('GET', '/v1/tenants', { as: bearer(body['access_token']) })).status).toBe(200)
    const tenantClient = await addClient(workspace.operator, { tenant_id: workspace.tenantId })
    const browser = new Browser(REDIRECT)
    const login = await browser.open(authorization(tenantClient).url)
    expect(login.html).not.toContain('name="tenant"')
    const { email, password } = person
    expect((await browser.submit(login, { action: 'login', tenant: '', email, password })).status).toBe(401)
  })

  test('user: denies consent: no token, the client gets access_denied', async () => {
    const browser = new Browser(REDIRECT)
    const flow = authorization(clientId)
    const { tenant, email, password } = admin
    const consent = await browser.submit(await browser.open(flow.url), {
      action: 'login',
      tenant,
      email,
      password,
    })
    const end = new URL((await browser.submit(consent, { action: 'deny' })).url)
    expect(end.searchParams.get('error')).toBe('access_denied')
    expect([end.searchParams.get('state'), end.searchParams.get('code')]).toEqual([flow.state, null])
  })

  test('user: signs out: another user can sign in during the same authorization', async () => {
    const other = await addAccount(workspace.operator, { role: 'service', ...inWorkspace(workspace) })
    const browser = new Browser(REDIRECT)
    await signIn(browser, authorization(clientId), admin)
    const flow = authorization(clientId)
    const consent = await browser.open(flow.url)
    expect(consent.html).toContain(admin.email)
    const login = await browser.submit(consent, { action: 'leave' })
    expect(login.html).toContain('name="password"')
    const { tenant, email, password } = other
    const again = await browser.submit(login, { action: 'login', tenant, email, password })
    const end = new URL((await browser.submit(again, { action: 'allow' })).url)
    const { body } = await exchange(clientId, flow, end)
    expect(claimsOf(body['access_token'])).toMatchObject({ sub: other.id, roles: ['service'] })
  })

  test.each([
    ['signed in before', [0, 1]],
    ['signed in before', [1, 0]],
    ['signed in by neither', [0, 1]],
    ['signed in by neither', [1, 0]],
  ] as const)(
    'user: opens one client in two tabs, %s, ends them in the order %j: each gets tokens of its own',
    async (before, order) => {
      const browser = new Browser(REDIRECT)
      if (before === 'signed in before') await signIn(browser, authorization(clientId), admin)
      const flows = [authorization(clientId), authorization(clientId)] as const
      const tabs = [await browser.open(flows[0].url), await browser.open(flows[1].url)] as const
      const ends: URL[] = []
      const tokens: Record<string, string>[] = []
      for (const n of order) {
        ends[n] = await finish(browser, tabs[n])
        expect(ends[n]?.searchParams.get('state')).toBe(flows[n].state)
      }
      // The code of one is nothing to the other, which does not cost it.
      const crossed = await exchange(clientId, flows[order[1]], ends[order[0]] as URL)
      expect([crossed.status, crossed.body['error']]).toEqual([400, 'invalid_grant'])
      for (const n of order) {
        const { status, body } = await exchange(clientId, flows[n], ends[n] as URL)
        expect([n, status]).toEqual([n, 200])
        tokens.push(body)
      }
      for (const pair of tokens) {
        expect((await call('GET', '/v1/me', { as: bearer(pair['access_token']) })).status).toBe(200)
        expect((await refresh(clientId, pair['refresh_token'])).status).toBe(200)
      }
      // A form that is sent once more gives no further code.
      expect((await browser.submit(tabs[0], { action: 'allow' })).url.startsWith(REDIRECT)).toBe(false)
    },
  )

  test('user: has a session, client on the same machine: asked again, since other programs could pose as it', async () => {
    const browser = new Browser(REDIRECT)
    await signIn(browser, authorization(clientId), admin)
    const again = await browser.open(authorization(clientId).url)
    expect(again.html).toContain('Allow access?')
    const silent = await browser.open(authorization(clientId, { prompt: 'none' }).url)
    expect(new URL(silent.url).searchParams.get('error')).toBe('interaction_required')
  })
})

describe('client', () => {
  test('client: of a tenant or workspace: refuses users of others, the tenant admin too', async () => {
    const other = await createTestWorkspace()
    const otherUser = await addAccount(other.operator, { role: 'tenant_admin', tenant_id: other.tenantId })
    const ours = await addClient(workspace.operator, { tenant_id: workspace.tenantId })
    const browser = new Browser(REDIRECT)
    // Signs in at a public client first, so that a session exists.
    await signIn(browser, authorization(clientId), otherUser)
    const refused = await browser.open(authorization(ours).url)
    expect([refused.status, refused.html]).toEqual([403, expect.stringContaining('may not use')])
    const forced = await browser.submit(refused, { action: 'allow' })
    expect(forced.status).toBe(403)
    const narrow = await addClient(workspace.operator, inWorkspace(workspace))
    const admins = new Browser(REDIRECT)
    await signIn(admins, authorization(clientId), admin)
    expect((await admins.open(authorization(narrow).url)).status).toBe(403)
  })

  test('client: unknown redirect URI: no redirect', async () => {
    for (const redirect_uri of [
      'https://evil.test/callback',
      'http://127.0.0.1:9/callback/../x',
      'http://127.0.0.1:9/callback?x=1',
      'http://127.0.0.1.evil.test:9/callback',
      'http://user@127.0.0.1:9/callback',
      'http://localhost:9/callback',
    ]) {
      const reply = await fetch(authorization(clientId, { redirect_uri }).url, { redirect: 'manual' })
      expect([redirect_uri, reply.status, reply.headers.get('location')]).toEqual([redirect_uri, 400, null])
    }
  })

  test('client: loopback redirect URI: any port', async () => {
    const flow = authorization(clientId, { redirect_uri: 'http://127.0.0.1:4711/callback' })
    expect((await new Browser(REDIRECT).open(flow.url)).status).toBe(200)
  })

  test.each([
    ['no code_challenge', { code_challenge: '' }],
    ['code_challenge_method plain', { code_challenge_method: 'plain' }],
    ['response_type token', { response_type: 'token' }],
    ['unknown resource', { resource: 'https://evil.test/v1' }],
    ['two resources', { resource: ['a', 'b'].join() }],
  ])('client: %s: redirected with an error', async (_what, change) => {
    const end = await new Browser(REDIRECT).open(authorization(clientId, change).url)
    const { search, hash } = new URL(end.url)
    const errorParameters = new URLSearchParams(search || hash.slice(1))
    expect(end.url.startsWith(REDIRECT)).toBe(true)
    expect(errorParameters.get('error')).toMatch(
      /^(invalid_request|unsupported_response_type|invalid_target)$/,
    )
    expect(errorParameters.get('iss')).toBe(`${inject('tenon').url}/auth`)
  })
})

test('resource of an MCP server with a slash at its end: consented to, its tokens and their successors are for the server', async () => {
  const hosted = await publishMcpServer(workspace, unique('slash'))
  const client = await addClient(workspace.operator)
  for (const url of [hosted.url, `${inject('tenon').url}/v1/mcp/platform/mcp`]) {
    const { status, body } = await tokensOf(client, admin, { resource: `${url}/` })
    expect([status, claimsOf(body['access_token']).aud]).toEqual([200, url])
    const next = (await refresh(client, body['refresh_token'])).body['access_token']
    expect(claimsOf(next).aud).toBe(url)
    const { pathname } = new URL(url)
    for (const token of [body['access_token'], next])
      expect(
        (await rpc(`${pathname}/`, bearer(token), 'tools/list')).body.result.tools.length,
      ).toBeGreaterThan(0)
  }
})

describe('code', () => {
  const codeOf = async () => {
    const flow = authorization(clientId)
    return { flow, end: await signIn(new Browser(REDIRECT), flow, admin) }
  }

  test('code: other verifier, client or redirect URI: refused', async () => {
    const { flow, end } = await codeOf()
    const other = await addClient(workspace.operator)
    const wrong = [
      await exchange(clientId, { ...flow, verifier: authorization(clientId).verifier }, end),
      await exchange(other, flow, end),
      await askTokens({
        grant_type: 'authorization_code',
        client_id: clientId,
        code: end.searchParams.get('code') ?? '',
        redirect_uri: `${REDIRECT}2`,
        code_verifier: flow.verifier,
      }),
      await exchange(clientId, { ...flow, verifier: '' }, end),
    ]
    for (const { status, body } of wrong)
      expect([status, body['error']]).toEqual([400, expect.stringMatching(/^invalid_(grant|request)$/)])
    expect((await exchange(clientId, flow, end)).status).toBe(200)
  })

  test('code: used twice: its tokens are revoked', async () => {
    const { flow, end } = await codeOf()
    const first = await exchange(clientId, flow, end)
    expect((await exchange(clientId, flow, end)).body['error']).toBe('invalid_grant')
    expect((await refresh(clientId, first.body['refresh_token'])).body['error']).toBe('invalid_grant')
  })

  test('code: used ten times at once: one success at most', async () => {
    const { flow, end } = await codeOf()
    const replies = await Promise.all(Array.from({ length: 10 }, () => exchange(clientId, flow, end)))
    expect(replies.filter(({ status }) => status === 200).length).toBeLessThanOrEqual(1)
  })
})

describe('refresh token', () => {
  /** As if the refresh tokens of a client had been used so much longer ago. */
  const age = (client: string, seconds: number) =>
    asSuperuser(
      "update tenon.issuer_state set consumed_at = consumed_at - make_interval(secs => $2) where client_id = $1 and model = 'RefreshToken'",
      [client, seconds],
    )

  test('refresh token: used again after the grace: the whole family is revoked', async () => {
    const client = await addClient(workspace.operator)
    const { body: first } = await tokensOf(client, admin)
    const second = await refresh(client, first['refresh_token'])
    const third = await refresh(client, second.body['refresh_token'])
    expect([second.status, third.status]).toEqual([200, 200])
    await age(client, ISSUER_LIMITS.refreshGraceSeconds)
    expect((await refresh(client, first['refresh_token'])).body['error']).toBe('invalid_grant')
    expect((await refresh(client, third.body['refresh_token'])).body['error']).toBe('invalid_grant')
    const me = await call('GET', '/v1/me', { as: bearer(third.body['access_token']) })
    expect(me.status).toBe(401)
  })

  test.each([2, 8])(
    'refresh token: used %i times at once at two nodes: each pair of tokens is usable',
    async (times) => {
      const client = await addClient(workspace.operator)
      const { body } = await tokensOf(client, admin)
      const at = [inject('tenon'), node.at]
      const replies = await Promise.all(
        Array.from({ length: times }, (_, n) => refresh(client, body['refresh_token'], at[n % 2])),
      )
      expect(replies.map(({ status }) => status)).toEqual(replies.map(() => 200))
      expect(new Set(replies.map((reply) => reply.body['refresh_token'])).size).toBe(times)
      expect(new Set(replies.map((reply) => claimsOf(reply.body['access_token']).grant_id)).size).toBe(1)
      for (const { body: pair } of replies) {
        expect((await call('GET', '/v1/me', { as: bearer(pair['access_token']) })).status).toBe(200)
        expect((await refresh(client, pair['refresh_token'])).status).toBe(200)
      }
    },
  )

  test('refresh token: response lost: used again within the grace, which the second use does not extend', async () => {
    const client = await addClient(workspace.operator)
    const { body } = await tokensOf(client, admin)
    await refresh(client, body['refresh_token'])
    await age(client, ISSUER_LIMITS.refreshGraceSeconds / 2)
    const again = await refresh(client, body['refresh_token'])
    expect(again.status).toBe(200)
    await age(client, ISSUER_LIMITS.refreshGraceSeconds / 2)
    expect((await refresh(client, body['refresh_token'])).status).toBe(400)
    expect((await refresh(client, again.body['refresh_token'])).status).toBe(400)
  })

  test('refresh token: used, then its grant revoked: refused within the grace', async () => {
    const client = await addClient(workspace.operator)
    const { body } = await tokensOf(client, admin)
    const { body: next } = await refresh(client, body['refresh_token'])
    const form = new URLSearchParams({ client_id: client, token: next['refresh_token'] ?? '' })
    await fetch(`${inject('tenon').url}/auth/revoke`, { method: 'POST', body: form })
    expect((await refresh(client, body['refresh_token'])).status).toBe(400)
  })

  test('refresh token: another client: refused', async () => {
    const { body } = await tokensOf(clientId, admin)
    const other = await addClient(workspace.operator)
    expect((await refresh(other, body['refresh_token'])).body['error']).toBe('invalid_grant')
    expect((await refresh(clientId, body['refresh_token'])).status).toBe(200)
    // Within the grace, too; and the attempt of the other client ends nothing.
    expect((await refresh(other, body['refresh_token'])).body['error']).toBe('invalid_grant')
    expect((await refresh(clientId, body['refresh_token'])).status).toBe(200)
  })

  test('refresh token: revoked by its client: refused', async () => {
    const { body } = await tokensOf(clientId, admin)
    const parameters = { client_id: clientId, token: body['refresh_token'] ?? '' }
    const revocation = await fetch(`${inject('tenon').url}/auth/revoke`, {
      method: 'POST',
      body: new URLSearchParams(parameters),
    })
    expect(revocation.status).toBe(200)
    expect((await refresh(clientId, body['refresh_token'])).body['error']).toBe('invalid_grant')
  })

  test('refresh token: other resource than the granted one: refused', async () => {
    const { body } = await tokensOf(clientId, admin)
    const mcpServer = await publishMcpServer(await createTestWorkspace(), 'other')
    const other = await askTokens({
      grant_type: 'refresh_token',
      client_id: clientId,
      refresh_token: body['refresh_token'] ?? '',
      resource: mcpServer.url,
    })
    expect([other.status, other.body['error']]).toEqual([400, 'invalid_target'])
  })
})

describe('ended accounts, clients and tenants', () => {
  const within = 5_500
  const unauthorized = async (token: string | undefined) =>
    eventually(
      async () =>
        (await call('GET', '/v1/workspaces', { as: bearer(token) })).status === 401 ? true : undefined,
      within,
    )

  test.each([
    [
      'disabled',
      (id: string) =>
        call('PATCH', `/v1/accounts/${id}`, { as: workspace.operator, body: { disabled: true } }),
    ],
    ['deleted', (id: string) => call('DELETE', `/v1/accounts/${id}`, { as: workspace.operator })],
  ])('account: %s: its sessions and tokens end', async (_what, end) => {
    const person = await addAccount(workspace.operator, {
      role: 'tenant_admin',
      tenant_id: workspace.tenantId,
    })
    const browser = new Browser(REDIRECT)
    const flow = authorization(clientId)
    const { body } = await exchange(clientId, flow, await signIn(browser, flow, person))
    expect((await end(person.id)).status).toBe(200)
    expect((await refresh(clientId, body['refresh_token'])).body['error']).toBe('invalid_grant')
    expect((await browser.open(authorization(clientId).url)).html).toContain('name="password"')
    await unauthorized(body['access_token'])
    expect(await asSuperuser('select from tenon.issuer_state where account_id = $1', [person.id])).toEqual([])
  })

  test('account: enabled again: needs a new sign-in, old tokens stay invalid', async () => {
    const as = workspace.operator
    const person = await addAccount(as, { role: 'tenant_admin', tenant_id: workspace.tenantId })
    const { body } = await tokensOf(clientId, person)
    for (const disabled of [true, false])
      await ok(call('PATCH', `/v1/accounts/${person.id}`, { as, body: { disabled } }))
    expect((await refresh(clientId, body['refresh_token'])).body['error']).toBe('invalid_grant')
    const renewed = await tokensOf(clientId, person)
    await unauthorized(body['access_token'])
    const mine = { authorization: `Bearer ${renewed.body['access_token']}` }
    await ok(call('GET', '/v1/me', { as: mine }))
  })

  test('client: deleted: its tokens end', async () => {
    const own = await addClient(workspace.operator)
    const { body } = await tokensOf(own, admin)
    await ok(call('DELETE', `/v1/oauth-clients/${own}`, { as: workspace.operator }))
    await eventually(async () => {
      const { body: reply } = await refresh(own, body['refresh_token'])
      return reply['error'] === 'invalid_client' ? true : undefined
    }, within)
    expect(await asSuperuser('select from tenon.issuer_state where client_id = $1', [own])).toEqual([])
  })

  test('tenant: suspended: no refresh, no sign-in', async () => {
    const other = await createTestWorkspace()
    const person = await addAccount(other.operator, { role: 'tenant_admin', tenant_id: other.tenantId })
    const { body } = await tokensOf(clientId, person)
    const setState = (state: string) =>
      asSuperuser('update tenon.tenants set state = $2 where id = $1', [other.tenantId, state])
    await setState('suspended')
    expect((await refresh(clientId, body['refresh_token'])).body['error']).toBe('invalid_grant')
    const browser = new Browser(REDIRECT)
    const { tenant, email, password } = person
    const login = await browser.open(authorization(clientId).url)
    expect((await browser.submit(login, { action: 'login', tenant, email, password })).status).toBe(401)
  })
})
