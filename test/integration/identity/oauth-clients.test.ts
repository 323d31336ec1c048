/** OAuth clients: grants that machines do not have, loopback addresses, and clients that register themselves. */

import { beforeAll, describe, expect, test } from 'vitest'
import { expectStatus, get, send, str } from '../../support/clients/rest-client.ts'
import { askToken, makeMachine } from '../../support/fixtures/administrators.ts'
import { createTenantPair, expectIsolated, type World } from '../../support/fixtures/tenant-pair.ts'

const CLIENTS = '/v1/oauth-clients'

let world: World

beforeAll(async () => {
  world = await createTenantPair()
})

describe('machines', () => {
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
})

describe('public clients', () => {
  const open = (...uris: string[]) =>
    world.admin.post(CLIENTS, { kind: 'public', name: 'App', redirect_uris: uris })

  test.each(['http://127.0.0.1/callback', 'http://localhost:3000/cb', 'http://[::1]:3000/cb'])(
    'public client: loopback address %s: accepted',
    async (uri) => expectStatus(await open(uri), 201),
  )
})

describe('clients that register themselves (RFC 7591)', () => {
  const register = (json: unknown) => send('POST', '/auth/register', { json })
  const body = { redirect_uris: ['http://127.0.0.1/callback'], token_endpoint_auth_method: 'none' }

  test('registration: valid: 201 with an id; a requested scope has no effect', async () => {
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

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
