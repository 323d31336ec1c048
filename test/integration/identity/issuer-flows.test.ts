/** Checks the embedded issuer for users: invitation, sign-in, code with PKCE, refresh, consent, revocation. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  addAccount,
  addClient,
  askTokens,
  authorization,
  Browser,
  claimsOf,
  exchange,
  REDIRECT,
  refresh,
  signIn,
  type TestAccount,
  tokensOf,
} from '../../support/clients/browser.ts'
import { base, Caller, expectProblem, expectStatus, get, list, send, str } from '../../support/clients/rest-client.ts'
import { createTenantPair, expectIsolated, type Party, type World, word } from '../../support/fixtures/tenant-pair.ts'

let world: World
let ada: TestAccount
let app: string

beforeAll(async () => {
  world = await createTenantPair()
  app = await addClient(world.admin.headers)
  ada = await addAccount(world.admin.headers, { role: 'tenant_admin', tenant_id: world.a.tenant })
})

const at = (party: Party, role: string) => ({
  role,
  ...(role === 'tenant_admin' ? { tenant_id: party.tenant } : { workspace_id: party.workspace }),
})
const getMe = (text: string | undefined) => new Caller({ authorization: `Bearer ${text}` }).get('/v1/me')

describe('discovery (mcp §2.1, 5)', () => {
  test.each(['/auth/.well-known/openid-configuration', '/.well-known/oauth-authorization-server/auth'])(
    '%s: everything OAuth 2.1 clients need',
    async (path) => {
      const reply = await send('GET', path)
      expectStatus(reply, 200)
      expect(reply.body).toMatchObject({
        ...{ issuer: `${base}/auth`, code_challenge_methods_supported: ['S256'] },
        ...{ response_types_supported: ['code'], authorization_response_iss_parameter_supported: true },
        ...{ registration_endpoint: expect.stringMatching(/^http/), jwks_uri: `${base}/auth/jwks` },
      })
      expect(list(reply, 'token_endpoint_auth_methods_supported')).toContain('none')
      expect(list(reply, 'grant_types_supported')).not.toContain('implicit')
      expect(list(reply, 'grant_types_supported')).not.toContain('password')
    },
  )

  test('discovery: other Host header: uses the configured address', async () => {
    const reply = await send('GET', '/auth/.well-known/openid-configuration', {
      headers: { 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'https' },
    })
    expect(reply.text).not.toContain('evil.example')
  })
})

describe('authorization code with PKCE', () => {
  test('code: consent given: code, state and iss, then a token of the REST API', async () => {
    const flow = authorization(app)
    const end = await signIn(new Browser(REDIRECT), flow, ada)
    expect(end.searchParams.get('state')).toBe(flow.state)
    expect(end.searchParams.get('iss')).toBe(`${base}/auth`)
    const { status, body } = await exchange(app, flow, end)
    expect(status).toBe(200)
    expect(body).toMatchObject({ token_type: 'Bearer', expires_in: 600, refresh_token: expect.any(String) })
    expect(claimsOf(body['access_token'])).toMatchObject({
      tenant_id: world.a.tenant,
      roles: ['tenant_admin'],
    })
    const me = await getMe(body['access_token'])
    expect(me.body).toMatchObject({ kind: 'token', tenant_id: world.a.tenant, roles: ['tenant_admin'] })
  })

  test('code: used twice: all its tokens are revoked', async () => {
    const flow = authorization(app)
    const end = await signIn(new Browser(REDIRECT), flow, ada)
    const first = await exchange(app, flow, end)
    expect(first.status).toBe(200)
    const second = await exchange(app, flow, end)
    expect(second).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
    expect(await refresh(app, first.body['refresh_token'])).toMatchObject({ status: 400 })
  })

  test.each([
    ['no verifier', { code_verifier: '' }],
    ['another verifier', { code_verifier: 'x'.repeat(43) }],
    ['another redirect_uri', { redirect_uri: 'http://127.0.0.1:9/other' }],
  ])('code: %s: no token', async (_, bent) => {
    const flow = authorization(app)
    const end = await signIn(new Browser(REDIRECT), flow, ada)
    const reply = await askTokens({
      ...{ grant_type: 'authorization_code', client_id: app, code: end.searchParams.get('code') ?? '' },
      ...{ redirect_uri: REDIRECT, code_verifier: flow.verifier },
      ...bent,
    })
    expect(reply).toMatchObject({ status: 400 })
    expect(reply.body['access_token']).toBeUndefined()
  })

  test('code: another client: refused', async () => {
    const other = await addClient(world.admin.headers, { name: 'Other' })
    const flow = authorization(app)
    const end = await signIn(new Browser(REDIRECT), flow, ada)
    expect(await exchange(other, flow, end)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
  })

  test.each([
    ['without code_challenge', { code_challenge: '', code_challenge_method: '' }],
    ['with code_challenge_method plain', { code_challenge_method: 'plain' }],
    ['for an implicit token', { response_type: 'token' }],
    ['for a foreign resource', { resource: 'https://example.com/v1' }],
  ])('authorization request: %s: redirected with an error', async (_, bent) => {
    const seen = await new Browser(REDIRECT).open(authorization(app, bent).url)
    const errorCode = new URL(seen.url.replace('#', '?')).searchParams.get('error') ?? seen.html
    expect(errorCode).toMatch(/invalid_request|unsupported_response_type|invalid_target|invalid/i)
    expect(seen.html).not.toMatch(/name="password"/)
  })

  test.each([
    'https://evil.example/callback',
    'http://127.0.0.1:9/callback/../x',
    'http://127.0.0.1:9/callback?x=1',
    'http://127.0.0.1.evil.example/callback',
    'javascript:alert(1)',
  ])('authorization request: redirect_uri %s is not registered: no redirect', async (redirect_uri) => {
    const response = await fetch(authorization(app, { redirect_uri }).url, { redirect: 'manual' })
    expect(response.status).toBe(400)
    expect(response.headers.get('location')).toBeNull()
  })

  test('pages: security headers: no framing, not stored (mcp §2.5)', async () => {
    const page = await new Browser(REDIRECT).open(authorization(app).url)
    expect(page.html).toMatch(/password/)
    expect(page.headers.get('content-security-policy')).toMatch(/frame-ancestors 'none'/)
    expect(page.headers.get('cache-control')).toMatch(/no-store/)
  })

  test('cookies: after sign-in: HttpOnly and SameSite', async () => {
    const browser = new Browser(REDIRECT)
    await signIn(browser, authorization(app), ada)
    expect(browser.cookies.length).toBeGreaterThan(0)
    for (const { text } of browser.cookies) {
      expect(text).toMatch(/httponly/i)
      expect(text).toMatch(/samesite=(lax|strict)/i)
    }
  })
})

describe('sign-in', () => {
  const attempt = async (fields: Record<string, string>) => {
    const browser = new Browser(REDIRECT)
    const login = await browser.open(authorization(app).url)
    return browser.submit(login, { action: 'login', tenant: ada.tenant, email: ada.email, ...fields })
  }
  const plain = (html: string) => html.replaceAll(/value="[^"]*"/g, '').replaceAll(/[\w-]{20,}/g, '')

  test('sign-in: wrong password or unknown address: same reply', async () => {
    const wrong = await attempt({ password: 'wrong' })
    const unknownAddress = await attempt({ password: 'wrong', email: `${word()}@example.test` })
    const otherTenant = await attempt({ password: ada.password, tenant: `t-${world.b.mark}` })
    for (const seen of [wrong, unknownAddress, otherTenant]) {
      expect(seen.url.startsWith(REDIRECT)).toBe(false)
      expect(seen.status).toBe(wrong.status)
      expect(plain(seen.html)).toBe(plain(wrong.html))
    }
  })

  test('sign-in: HTML in the form: shown as text', async () => {
    const seen = await attempt({ password: 'x', email: '"><script>alert(1)</script>@x.test' })
    expect(seen.html).not.toContain('<script>alert(1)')
  })

  test('consent: denied: access_denied, no code', async () => {
    const client = await addClient(world.admin.headers, { name: 'Refused' })
    const browser = new Browser(REDIRECT)
    const login = await browser.open(authorization(client).url)
    let page = await browser.submit(login, {
      action: 'login',
      ...{ tenant: ada.tenant, email: ada.email, password: ada.password },
    })
    if (!page.url.startsWith(REDIRECT)) page = await browser.submit(page, { action: 'deny' })
    const back = new URL(page.url).searchParams
    expect([back.get('error'), back.get('code')]).toEqual(['access_denied', null])
  })

  test('sign-in: client of another tenant: refused', async () => {
    const client = await addClient(world.admin.headers, { tenant_id: world.b.tenant })
    const flow = authorization(client)
    await expect(signIn(new Browser(REDIRECT), flow, ada)).rejects.toThrow()
  })
})

describe('refresh', () => {
  test('refresh token: used: replaced, valid for a minute more (issue 6, 3: refresh rotation)', async () => {
    const one = await tokensOf(app, ada)
    const two = await refresh(app, one.body['refresh_token'])
    expect(two.status).toBe(200)
    expect(two.body['refresh_token']).not.toBe(one.body['refresh_token'])
    expect((await getMe(two.body['access_token'])).status).toBe(200)
    expect((await refresh(app, one.body['refresh_token'])).status).toBe(200)
    expect((await refresh(app, two.body['refresh_token'])).status).toBe(200)
  })

  test('refresh token: revoked: refused', async () => {
    const { body } = await tokensOf(app, ada)
    const raw = new URLSearchParams({ token: body['refresh_token'] ?? '', client_id: app }).toString()
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    expectStatus(await send('POST', '/auth/revoke', { raw, headers }), 200)
    expect(await refresh(app, body['refresh_token'])).toMatchObject({ status: 400 })
  })

  test('refresh token: another client: refused', async () => {
    const { body } = await tokensOf(app, ada)
    expect(await refresh(await addClient(world.admin.headers), body['refresh_token'])).toMatchObject({
      status: 400,
    })
  })

  test('refresh token: as an access token: refused', async () => {
    const { body } = await tokensOf(app, ada)
    expectProblem(await getMe(body['refresh_token']), 401, 'token_invalid')
  })

  test('ID token: as an access token: refused', async () => {
    const { body } = await tokensOf(app, ada, { scope: 'openid' })
    if (body['id_token']) expectProblem(await getMe(body['id_token']), 401, 'token_invalid')
  })
})

describe('accounts', () => {
  const invite = (by: Caller, more: Record<string, unknown>) =>
    by.post('/v1/accounts', { email: `${word()}@example.test`, ...more })

  test('invitation: created: shown once, usable once', async () => {
    const made = await invite(world.admin, at(world.a, 'workspace_admin'))
    expectStatus(made, 201)
    expect(made.body).toMatchObject({ status: 'invited', role: 'workspace_admin', tenant_id: world.a.tenant })
    const url = str(made, 'invitation_url')
    const read = await world.admin.get(`/v1/accounts/${str(made, 'id')}`)
    expect(get(read, 'invitation_url')).toBeUndefined()
    const set = async (password: string) => {
      const browser = new Browser('nowhere:')
      return browser.submit(await browser.open(url), { password, again: password })
    }
    expect((await set('correct horse battery')).status).toBe(200)
    expect(get(await world.admin.get(`/v1/accounts/${str(made, 'id')}`), 'status')).toBe('active')
    expect((await set('another horse battery')).status).toBeGreaterThanOrEqual(400)
  })

  test('invitation: second one created: the first is void', async () => {
    const made = await invite(world.admin, at(world.a, 'workspace_admin'))
    const again = await world.admin.post(`/v1/accounts/${str(made, 'id')}/invite`, {})
    expectStatus(again, 200)
    expect((await new Browser('nowhere:').open(str(made, 'invitation_url'))).status).toBeGreaterThanOrEqual(
      400,
    )
    expect((await new Browser('nowhere:').open(str(again, 'invitation_url'))).status).toBe(200)
  })

  test.each([
    ['short', 'short'],
    ['correct horse battery', 'something else'],
  ])('passwords: %j and %j: refused', async (password, again) => {
    const made = await invite(world.admin, at(world.a, 'workspace_admin'))
    const browser = new Browser('nowhere:')
    await browser.submit(await browser.open(str(made, 'invitation_url')), { password, again })
    expect(get(await world.admin.get(`/v1/accounts/${str(made, 'id')}`), 'status')).toBe('invited')
  })

  test('account: disabled: signed out everywhere, access tokens end within 5 s', async () => {
    const lin = await addAccount(world.admin.headers, at(world.a, 'workspace_admin'))
    const { body } = await tokensOf(app, lin)
    expectStatus(await getMe(body['access_token']), 200)
    expectStatus(await world.admin.send('PATCH', `/v1/accounts/${lin.id}`, { json: { disabled: true } }), 200)
    expect(await refresh(app, body['refresh_token'])).toMatchObject({ status: 400 })
    await expect.poll(async () => (await getMe(body['access_token'])).status, { timeout: 6000 }).toBe(401)
    await expect(tokensOf(app, lin)).rejects.toThrow()
  })

  test('account: deleted: same, and the account is gone', async () => {
    const lin = await addAccount(world.admin.headers, at(world.a, 'workspace_admin'))
    const { body } = await tokensOf(app, lin)
    expectStatus(await world.admin.delete(`/v1/accounts/${lin.id}`), 200)
    expectProblem(await world.admin.get(`/v1/accounts/${lin.id}`), 404, 'not_found')
    expect(await refresh(app, body['refresh_token'])).toMatchObject({ status: 400 })
    await expect.poll(async () => (await getMe(body['access_token'])).status, { timeout: 6000 }).toBe(401)
  })

  test("account: created by an admin: at most the admin's own role and assignment", async () => {
    const { body } = await tokensOf(app, ada)
    const admin = new Caller({ authorization: `Bearer ${body['access_token']}` }, world.a.transcript)
    expectProblem(await invite(admin, { role: 'operator' }), 403)
    expectStatus(await invite(admin, at(world.b, 'tenant_admin')), 403, 404)
    expectStatus(await invite(admin, at(world.b, 'workspace_admin')), 403, 404)
    expectStatus(await invite(admin, at(world.a, 'tenant_admin')), 201)
    const listed = await admin.get('/v1/accounts')
    expect(list(listed).every((one) => get(one, 'tenant_id') === world.a.tenant)).toBe(true)
  })

  test("account: promoted by PATCH beyond the admin's role: refused", async () => {
    const { body } = await tokensOf(app, ada)
    const admin = new Caller({ authorization: `Bearer ${body['access_token']}` })
    const made = await invite(admin, at(world.a, 'workspace_admin'))
    const path = `/v1/accounts/${str(made, 'id')}`
    expectStatus(await admin.send('PATCH', path, { json: { role: 'operator' } }), 400, 403)
    expectStatus(await admin.send('PATCH', path, { json: { tenant_id: world.b.tenant } }), 400, 403, 404)
    expect(get(await world.admin.get(path), 'role')).toBe('workspace_admin')
  })

  test('account: same address in one tenant: 409; in another tenant: another account', async () => {
    const email = `${word()}@example.test`
    expectStatus(await invite(world.admin, { ...at(world.a, 'workspace_admin'), email }), 201)
    expectProblem(
      await invite(world.admin, { ...at(world.a, 'workspace_admin'), email: email.toUpperCase() }),
      409,
    )
    expectStatus(await invite(world.admin, { ...at(world.b, 'workspace_admin'), email }), 201)
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
