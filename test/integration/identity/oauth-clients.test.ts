/** Checks OAuth clients: machines and secrets, public clients and redirect URIs, registration, access. */

import { beforeAll, describe, expect, test } from 'vitest'
import { askToken, machine, makeMachine } from '../../support/fixtures/administrators.ts'
import { anonymous, Caller, expectProblem, expectStatus, get, list, send, str, token } from '../../support/clients/rest-client.ts'
import { createTenantPair, expectIsolated, type World, word } from '../../support/fixtures/tenant-pair.ts'

const CLIENTS = '/v1/oauth-clients'

let world: World

beforeAll(async () => {
  world = await createTenantPair()
})

const make = (by: Caller, more: Record<string, unknown>) =>
  by.post(CLIENTS, { kind: 'machine', name: `c ${word()}`, ...more })
const status = (text: string) => async () =>
  (await new Caller({ authorization: `Bearer ${text}` }).get('/v1/me')).status

describe('machines', () => {
  test('machine: created: secret in that reply only', async () => {
    const made = await make(world.admin, { role: 'tenant_admin', tenant_id: world.a.tenant })
    expectStatus(made, 201)
    expect(made.headers.get('cache-control')).toContain('no-store')
    const { client_secret: secret, ...shown } = made.body as Record<string, string>
    expect(made.headers.get('location')).toContain(`${CLIENTS}/${shown['client_id']}`)
    const read = await world.admin.get(`${CLIENTS}/${shown['client_id']}`)
    expect(read.body).toEqual(shown)
    const listed = await world.admin.get(`${CLIENTS}?tenant_id=${world.a.tenant}`)
    expect(list(listed).map((one) => str(one, 'client_id'))).toContain(shown['client_id'])
    expect(listed.text + read.text).not.toContain(secret)
  })

  test('machine: secret rotated: the new one is valid within 5 s, the old one is not', async () => {
    const one = await makeMachine(world, world.a, 'tenant_admin')
    const turned = await world.admin.post(`${CLIENTS}/${one.id}/rotate-secret`, {})
    expectStatus(turned, 200)
    expect(str(turned, 'client_secret')).not.toBe(one.secret)
    const fresh = { ...one, secret: str(turned, 'client_secret') }
    await expect.poll(async () => (await askToken(fresh)).status, { timeout: 6000 }).toBe(200)
    await expect.poll(async () => (await askToken(one)).status, { timeout: 6000 }).toBe(401)
  })

  test('machine: deleted: no new tokens, existing ones end within 5 s', async () => {
    const one = await makeMachine(world, world.a, 'workspace_admin')
    const before = str(await askToken(one), 'access_token')
    expect(await status(before)()).toBe(200)
    const deleted = await world.admin.delete(`${CLIENTS}/${one.id}`)
    expect(deleted.body).toEqual({ client_id: one.id, deleted: true })
    await expect.poll(status(before), { timeout: 6000 }).toBe(401)
    await expect.poll(async () => (await askToken(one)).status, { timeout: 6000 }).toBe(401)
    expectProblem(await world.admin.delete(`${CLIENTS}/${one.id}`), 404, 'not_found')
  })

  test('machine: no secret, password grant or code grant: no token', async () => {
    const one = await makeMachine(world, world.a, 'tenant_admin')
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    for (const grant of ['client_credentials', 'password', 'authorization_code', 'refresh_token']) {
      const raw = `grant_type=${grant}&client_id=${one.id}&username=a&password=b&code=c&refresh_token=d`
      expectStatus(await send('POST', '/auth/token', { raw, headers }), 400, 401)
    }
  })

  test('machine: another resource: no token', async () => {
    const one = await makeMachine(world, world.a, 'tenant_admin')
    const reply = await askToken(one, { resource: 'https://example.com/v1' })
    expectStatus(reply, 400)
    expect(get(reply, 'error')).toBe('invalid_target')
  })

  test('machine: role service: data routes, no administrative ones', async () => {
    const one = await machine(world, world.a, 'service')
    const sent = { title: 'm', mark: world.a.mark }
    expectStatus(await one.post('/v1/collections/notes/documents', sent), 201)
    expectProblem(await one.get('/v1/tenants'), 403, 'privilege_domain_mismatch')
  })
})

describe('granting roles (docs/identity.md "Roles")', () => {
  const ownTenant = () => ({ tenant_id: world.a.tenant })

  test('tenant admin: creates clients: in the own tenant, no operator', async () => {
    const admin = await machine(world, world.a, 'tenant_admin')
    expectStatus(await make(admin, { role: 'tenant_admin', ...ownTenant() }), 201)
    expectStatus(await make(admin, { role: 'workspace_admin', workspace_id: world.a.workspace }), 201)
    expectProblem(await make(admin, { role: 'operator' }), 403)
    expectStatus(await make(admin, { role: 'tenant_admin', tenant_id: world.b.tenant }), 403, 404)
    expectStatus(await make(admin, { role: 'service', workspace_id: world.b.workspace }), 403, 404)
  })

  test('workspace admin: creates clients: in the own workspace', async () => {
    const admin = await machine(world, world.a, 'workspace_admin')
    expectStatus(await make(admin, { role: 'service', workspace_id: world.a.workspace }), 201)
    expectStatus(await make(admin, { role: 'tenant_admin', ...ownTenant() }), 403, 404)
    expectStatus(await make(admin, { role: 'workspace_admin', workspace_id: world.b.workspace }), 403, 404)
  })

  test.each([
    ['operator within a tenant', () => ({ role: 'operator', ...ownTenant() })],
    ['tenant admin without a tenant', () => ({ role: 'tenant_admin' })],
    ['workspace admin without a workspace', () => ({ role: 'workspace_admin', ...ownTenant() })],
    [
      'workspace of another tenant',
      () => ({ role: 'service', ...ownTenant(), workspace_id: world.b.workspace }),
    ],
    ['unknown role', () => ({ role: 'root' })],
    ['no role', () => ({})],
  ])('client: %s: refused', async (_, body) => {
    expectStatus(await make(world.admin, body()), 400, 404)
  })

  const verbs: [string, string][] = [
    ['GET', ''],
    ['POST', '/rotate-secret'],
    ['DELETE', ''],
  ]
  test.each(verbs)(
    '%s %s: client of another tenant: 404 identical to that of a missing one',
    async (method, end) => {
      const { id } = await makeMachine(world, world.a, 'workspace_admin')
      const missing = `${id.slice(0, -6)}zzzzzz`
      const otherAdmin = await machine(world, world.b, 'tenant_admin')
      const ask = (which: string) =>
        otherAdmin.send(method, `${CLIENTS}/${which}${end}`, method === 'POST' ? { json: {} } : {})
      const seen = await ask(id)
      expectProblem(seen, 404, 'not_found')
      expect(anonymous(seen, id)).toBe(anonymous(await ask(missing), missing))
      expectStatus(await world.admin.get(`${CLIENTS}/${id}`), 200)
    },
  )

  test('client list: read by an admin: own clients only', async () => {
    await makeMachine(world, world.b, 'workspace_admin')
    const listed = await (await machine(world, world.a, 'tenant_admin')).get(CLIENTS)
    expectStatus(listed, 200)
    expect(list(listed).every((one) => get(one, 'tenant_id') === world.a.tenant)).toBe(true)
  })
})

describe('public clients', () => {
  const open = (...uris: string[]) =>
    world.admin.post(CLIENTS, { kind: 'public', name: 'App', redirect_uris: uris })

  test('public client: created: no secret', async () => {
    const made = await open('https://app.example/callback')
    expectStatus(made, 201)
    expect(get(made, 'client_secret')).toBeUndefined()
  })

  test.each(['http://127.0.0.1/callback', 'http://localhost:3000/cb', 'http://[::1]:3000/cb'])(
    'public client: loopback address %s: accepted',
    async (uri) => expectStatus(await open(uri), 201),
  )

  test.each([
    'http://app.example/callback',
    'https://app.example/callback#part',
    'https://*.example/callback',
    'javascript:alert(1)',
    'data:text/html,x',
    'http://127.0.0.1.example/callback',
    'http://user:pw@127.0.0.1/callback',
    'callback',
    '',
  ])('public client: address %j: 400', async (uri) => {
    expectProblem(await open(uri), 400)
  })

  test('public client: no address: 400', async () => expectProblem(await open(), 400))
})

describe('clients that register themselves (RFC 7591; mcp §2.1, 5)', () => {
  const register = (json: unknown) => send('POST', '/auth/register', { json })
  const body = { redirect_uris: ['http://127.0.0.1/callback'], token_endpoint_auth_method: 'none' }

  test('registration: valid: 201 with an id; a requested scope has no effect (mcp §2.3)', async () => {
    const reply = await register({ ...body, client_name: 'Agent', scope: 'mcp:x:y offline_access' })
    expectStatus(reply, 201)
    expect(str(reply, 'client_id')).toMatch(/\S/)
    const listed = await world.admin.get(CLIENTS)
    expectStatus(listed, 200)
  })

  test('registered client: REST API token: refused', async () => {
    const client = str(await register(body), 'client_id')
    const query = new URLSearchParams({
      ...{ client_id: client, response_type: 'code', redirect_uri: 'http://127.0.0.1/callback' },
      ...{ code_challenge: 'x'.repeat(43), code_challenge_method: 'S256', state: 's' },
    })
    const reply = await send('GET', `/auth/authorize?${query}`)
    expectStatus(reply, 302, 303, 400)
    const location = reply.headers.get('location') ?? ''
    if (location !== '') expect(location).toMatch(/error=/)
  })

  test.each([
    ['non-loopback address without TLS', { redirect_uris: ['http://evil.example/cb'] }],
    ['no address', { redirect_uris: [] }],
    ['client_credentials grant', { grant_types: ['client_credentials'], redirect_uris: [] }],
    ['javascript address', { redirect_uris: ['javascript:alert(1)'] }],
  ])('registration: %s: refused', async (_, more) => {
    const reply = await register({ ...body, ...more })
    expectStatus(reply, 400)
    expect(get(reply, 'error')).toMatch(/^invalid_/)
  })
})

describe('signing keys of the issuer', () => {
  test('key rotation: operator: new kid signs, earlier tokens stay valid, no request fails', async () => {
    const before = await token()
    const turned = await world.admin.post('/v1/issuer/rotate-keys', {})
    expectStatus(turned, 200)
    const kid = str(turned, 'kid')
    const kids = list(await send('GET', '/auth/jwks'), 'keys').map((key) => str(key, 'kid'))
    expect(kids).toContain(kid)
    const signer = async () =>
      JSON.parse(Buffer.from((await token()).split('.')[0] ?? '', 'base64url').toString()).kid
    expect(await status(await token())()).toBe(200)
    await expect.poll(signer, { timeout: 15_000 }).toBe(kid)
    expect(await status(before)()).toBe(200)
    expect(await status(await token())()).toBe(200)
  })

  test('key rotation: any other caller: refused', async () => {
    for (const role of ['tenant_admin', 'workspace_admin'] as const) {
      const one = await machine(world, world.a, role)
      expectProblem(await one.post('/v1/issuer/rotate-keys', {}), 403)
    }
    expectProblem(await world.a.service.post('/v1/issuer/rotate-keys', {}), 403, 'privilege_domain_mismatch')
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
