/** Checks the precedence of credentials: every combination of two and three, and the gateway. */

import { beforeAll, describe, expect, test } from 'vitest'
import { sendRaw } from '../../support/clients/raw-http.ts'
import { tokenOf } from '../../support/fixtures/tenants.ts'
import { gatewayHeaders, identityHeaders } from '../../support/stack/gateway.ts'
import { base, Caller, expectProblem, expectStatus, get, list, Stream, str } from '../../support/clients/rest-client.ts'
import { createTenantPair, expectIsolated, type Party, type World } from '../../support/fixtures/tenant-pair.ts'

const DOCUMENTS = '/v1/collections/notes/documents'

let world: World
let good: string

beforeAll(async () => {
  world = await createTenantPair({ anonReads: true })
  const { authorization = '' } = await tokenOf({
    ...{ tenant_id: world.b.tenant, workspace_id: world.b.workspace, roles: ['service'] },
  })
  good = authorization.slice('Bearer '.length)
})

type Headers = Record<string, string>
const idsOf = ({ tenant, workspace }: Party) => ({ tenantId: tenant, workspaceId: workspace })
const mistyped = (key: string) => `${key.slice(0, -3)}${key.endsWith('aaa') ? 'bbb' : 'aaa'}`

/** The key belongs to A, the token to B, the gateway acts for B: the tenant shows which one counts. */
const keys: [string, (key: string) => Headers][] = [
  ['apikey', (key) => ({ apikey: key })],
  ['x-api-key', (key) => ({ 'x-api-key': key })],
  ['ApiKey', (key) => ({ authorization: `ApiKey ${key}` })],
  ['Bearer', (key) => ({ authorization: `Bearer ${key}` })],
]
const bearer = (text: string): Headers => ({ authorization: `Bearer ${text}` })
const gateway = (): Headers => ({ ...gatewayHeaders(idsOf(world.b)) })

const getMe = (headers: Headers) => new Caller(headers).get('/v1/me')

async function expectCaller(headers: Headers, kind: string, party: Party): Promise<void> {
  const reply = await getMe(headers)
  expectStatus(reply, 200)
  expect(reply.body).toMatchObject({ kind, tenant_id: party.tenant, workspace_id: party.workspace })
}

async function expectNoCaller(headers: Headers, code: string): Promise<void> {
  for (const path of ['/v1/me', DOCUMENTS, '/v1/events/subscribe?topic=x']) {
    expectProblem(await new Caller(headers).get(path), 401, code)
  }
}

describe('one credential', () => {
  test.each(keys)('key by %s: that key', (_, put) =>
    expectCaller(put(world.a.serviceKey), 'api_key', world.a),
  )
  test('token: that token', () => expectCaller(bearer(good), 'token', world.b))
  test("gateway: the gateway's caller", () => expectCaller(gateway(), 'gateway', world.b))
})

describe('two credentials', () => {
  test.each(keys)('key by %s and gateway: the key', (_, put) =>
    expectCaller({ ...gateway(), ...put(world.a.serviceKey) }, 'api_key', world.a),
  )
  test.each(keys)('invalid key by %s and gateway: 401', (_, put) =>
    expectNoCaller({ ...gateway(), ...put(mistyped(world.a.serviceKey)) }, 'api_key_invalid'),
  )
  test('token and gateway: the token', async () => {
    const mine = await tokenOf({
      tenant_id: world.a.tenant,
      workspace_id: world.a.workspace,
      roles: ['service'],
    })
    await expectCaller({ ...gateway(), ...mine }, 'token', world.a)
  })
  test('invalid token and gateway: 401', () =>
    expectNoCaller({ ...gateway(), ...bearer(`${good}x`) }, 'token_invalid'))
  test.each(keys.slice(0, 2))('key by %s and token: the key', (_, put) =>
    expectCaller({ ...bearer(good), ...put(world.a.serviceKey) }, 'api_key', world.a),
  )
  test.each(keys.slice(0, 2))('invalid key by %s and token: 401', (_, put) =>
    expectNoCaller({ ...bearer(good), ...put(mistyped(world.a.serviceKey)) }, 'api_key_invalid'),
  )
  test.each(keys.slice(0, 2))(
    'key by %s and invalid token: 401 ("a presented but invalid credential is 401, whatever else is sent")',
    (_, put) => expectNoCaller({ ...bearer(`${good}x`), ...put(world.a.serviceKey) }, 'token_invalid'),
  )

  const pairs = keys.flatMap((one, at) => keys.slice(at + 1).map((other) => [one, other] as const))
  const together = pairs.filter(([[one], [other]]) => !/er|Ap/.test(one) || !/er|Ap/.test(other))

  test.each(together)('same key by %s and %s: one key', ([, one], [, other]) =>
    expectCaller({ ...one(world.a.serviceKey), ...other(world.a.serviceKey) }, 'api_key', world.a),
  )
  test.each(together)('different keys by %s and %s: 400 (decisions §3)', async ([, one], [, other]) => {
    for (const second of [world.b.serviceKey, world.a.anonKey, mistyped(world.a.serviceKey)]) {
      expectProblem(
        await getMe({ ...one(world.a.serviceKey), ...other(second) }),
        400,
        'credentials_conflict',
      )
    }
  })
})

describe('three credentials', () => {
  test.each(keys.slice(0, 2))('key by %s, token and gateway: the key', (_, put) =>
    expectCaller({ ...gateway(), ...bearer(good), ...put(world.a.serviceKey) }, 'api_key', world.a),
  )
  test.each(keys.slice(0, 2))('invalid key by %s, token and gateway: 401', (_, put) =>
    expectNoCaller(
      { ...gateway(), ...bearer(good), ...put(mistyped(world.a.serviceKey)) },
      'api_key_invalid',
    ),
  )
  test.each(keys.slice(0, 2))('key by %s, invalid token and gateway: 401', (_, put) =>
    expectNoCaller({ ...gateway(), ...bearer(`${good}x`), ...put(world.a.serviceKey) }, 'token_invalid'),
  )
  test('same key by apikey, x-api-key and ApiKey: one key', () =>
    expectCaller(
      Object.assign({}, ...keys.slice(0, 3).map(([, put]) => put(world.a.serviceKey))),
      'api_key',
      world.a,
    ))
  test('key header: sent twice: 400', async () => {
    const headers = { apikey: [world.a.serviceKey, world.b.serviceKey] }
    expect(await sendRaw(`${base}/v1/me`, headers)).toMatchObject({
      ...{ status: 400, body: { code: 'credentials_conflict' } },
    })
  })
})

describe('identity headers from clients (interface §5: "A client-supplied x-tenant-id is never trusted")', () => {
  const claimedHeaders = () => ({ ...identityHeaders(idsOf(world.a)) })

  test('identity headers: alone: no credential', () =>
    expectNoCaller(claimedHeaders(), 'credentials_missing'))

  test.each(['', 'guess', ' '.repeat(3)])(
    'identity headers: with gateway secret %j: no credential',
    (secret) => expectNoCaller({ ...claimedHeaders(), 'x-gateway-secret': secret }, 'credentials_missing'),
  )

  test.each(['service', 'anon'] as const)('identity headers: with a %s key: ignored', async (kind) => {
    const key = kind === 'service' ? world.b.serviceKey : world.b.anonKey
    await expectCaller({ ...claimedHeaders(), apikey: key }, 'api_key', world.b)
    expect(get(await getMe({ ...claimedHeaders(), apikey: key }), 'roles')).toEqual([kind])
  })

  test('identity headers: with a token: ignored', () =>
    expectCaller({ ...claimedHeaders(), ...bearer(good) }, 'token', world.b))

  test('identity headers: on a hosted MCP server: no credential', async () => {
    const path = `/v1/mcp/workspaces/${world.a.workspace}/servers/any/mcp`
    const sent = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
    for (const headers of [claimedHeaders(), { ...gatewayHeaders(idsOf(world.a)) }]) {
      expectStatus(await new Caller(headers).post(path, sent), 401, 404)
    }
  })
})

describe('identity headers from the gateway', () => {
  const as = (more: Headers) => new Caller({ ...gatewayHeaders(idsOf(world.a)), ...more }, world.a.transcript)

  test('gateway: tenant and workspace named: reads and writes that workspace', async () => {
    expectStatus(await as({}).post(DOCUMENTS, { title: 'gate', mark: world.a.mark }), 201)
    expect(list(await world.a.service.get(`${DOCUMENTS}?title=eq.gate`))).toHaveLength(1)
  })

  test('gateway: x-pg-role anon: no more writes than an anon key', async () => {
    const anon = as({ 'x-pg-role': 'anon' })
    expectStatus(await anon.get(DOCUMENTS), 200)
    expectProblem(await anon.post(DOCUMENTS, { title: 'no' }), 403)
  })

  test.each(['operator', 'tenant_admin', 'tenon_owner', 'postgres', 'SERVICE', 'service,anon', ''])(
    'gateway: x-pg-role %j: refused, only anon and service are valid',
    async (role) => {
      expectProblem(await as({ 'x-pg-role': role }).get(DOCUMENTS), 401, 'gateway_identity_invalid')
    },
  )

  test.each(['x-tenant-id', 'x-workspace-id', 'x-auth-subject', 'x-pg-role'])(
    'gateway: %s missing: no caller',
    async (name) => {
      const { [name]: _, ...rest } = gatewayHeaders(idsOf(world.a))
      expectProblem(await new Caller(rest).get(DOCUMENTS), 401, 'gateway_identity_invalid')
    },
  )

  test('gateway: workspace of another tenant: refused', async () => {
    const reply = await as({ 'x-workspace-id': world.b.workspace }).get('/v1/collections/keepsakes/documents')
    expect(reply.text).not.toContain(world.b.mark)
    expectStatus(reply, 401, 404)
  })

  test('gateway: prefix of a tenant id (ten_1 for ten_10): refused', async () => {
    for (const tenant of [world.a.tenant.slice(0, -1), `${world.a.tenant}0`, 'ten_1']) {
      expectStatus(await as({ 'x-tenant-id': tenant }).get(DOCUMENTS), 401, 404)
    }
  })

  test('gateway: administrative routes: refused', async () => {
    expectProblem(await as({}).get('/v1/tenants'), 403, 'privilege_domain_mismatch')
  })

  test('gateway: subscription: stream opens', async () => {
    const stream = await Stream.open('/v1/events/subscribe?topic=gate.*', as({}))
    await stream.next(({ event }) => event === 'ready')
    expectStatus(await world.a.service.post('/v1/events/publish', { topic: 'gate.x', data: 1 }), 202)
    await stream.next(({ event, data }) => event === 'message' && get(data, 'topic') === 'gate.x')
    stream.close()
  })
})

describe('?apikey= (decisions §3: on subscribe alone, and only svc_anon_)', () => {
  const at = (key: string) => `/v1/events/subscribe?topic=q&apikey=${key}`

  test('?apikey=: anon key: stream opens', async () => {
    const stream = await Stream.open(at(world.a.anonKey), new Caller({}))
    await stream.next(({ event }) => event === 'ready')
    stream.close()
  })

  test('?apikey=: invalid anon key, with or without a gateway: 401', async () => {
    expectProblem(await new Caller({}).get(at(mistyped(world.a.anonKey))), 401, 'api_key_invalid')
    expectProblem(await new Caller(gateway()).get(at(mistyped(world.a.anonKey))), 401, 'api_key_invalid')
  })

  test('?apikey=: service key next to any credential: 401 with advice to revoke it', async () => {
    for (const headers of [{}, { apikey: world.a.serviceKey }, bearer(good), gateway()]) {
      const reply = await new Caller(headers).get(at(world.a.serviceKey))
      expectProblem(reply, 401, 'service_key_in_query')
      expect(str(reply, 'hint')).toMatch(/revoke/i)
      expect(reply.text).not.toContain(world.a.serviceKey)
    }
  })

  test('?apikey=: another key in a header: 400', async () => {
    expectProblem(await world.b.anon.get(at(world.a.anonKey)), 400, 'credentials_conflict')
  })

  test.each(['/v1/me', DOCUMENTS, '/v1/objects/b/k'])('?apikey=: on %s: not read', async (path) => {
    const reply = await new Caller({}).get(`${path}?apikey=${world.a.anonKey}`)
    expectProblem(reply, 401)
    expect(reply.text).not.toContain(world.a.anonKey)
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
