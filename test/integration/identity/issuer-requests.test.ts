/** The embedded issuer for users: discovery, refused authorization requests, cookies, tokens of the wrong kind, accounts. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  addAccount,
  addClient,
  authorization,
  Browser,
  REDIRECT,
  signIn,
  type TestAccount,
  tokensOf,
} from '../../support/clients/browser.ts'
import {
  base,
  Caller,
  expectProblem,
  expectStatus,
  get,
  list,
  send,
  str,
} from '../../support/clients/rest-client.ts'
import {
  createTenantPair,
  expectIsolated,
  type Party,
  type World,
  word,
} from '../../support/fixtures/tenant-pair.ts'

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

describe('discovery', () => {
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
  test('sign-in: HTML in the form: shown as text', async () => {
    const seen = await attempt({ password: 'x', email: '"><script>alert(1)</script>@x.test' })
    expect(seen.html).not.toContain('<script>alert(1)')
  })
})

describe('refresh', () => {
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

  test.each([
    ['short', 'short'],
    ['correct horse battery', 'something else'],
  ])('passwords: %j and %j: refused', async (password, again) => {
    const made = await invite(world.admin, at(world.a, 'workspace_admin'))
    const browser = new Browser('nowhere:')
    await browser.submit(await browser.open(str(made, 'invitation_url')), { password, again })
    expect(get(await world.admin.get(`/v1/accounts/${str(made, 'id')}`), 'status')).toBe('invited')
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
