/** GET /v1/me and /v1/limits: scopes, expiry and rates of a caller, and the headers of their replies. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  Caller,
  expectProblem,
  expectStatus,
  get,
  list,
  send,
  str,
} from '../../support/clients/rest-client.ts'
import { machine } from '../../support/fixtures/administrators.ts'
import { createTenantPair, expectIsolated, type World } from '../../support/fixtures/tenant-pair.ts'

let world: World

beforeAll(async () => {
  world = await createTenantPair({ anonReads: true })
})

describe('GET /v1/me', () => {
  test('me: key with scopes and expiry: shown', async () => {
    const { a } = world
    const end = new Date(Date.now() + 60_000).toISOString()
    const sent = {
      workspace_id: a.workspace,
      kind: 'service',
      name: 'n',
      scopes: ['events:read'],
      expires_at: end,
    }
    const made = await a.admin.post('/v1/api-keys', sent)
    const reply = await new Caller({ apikey: str(made, 'key') }).get('/v1/me')
    expect(reply.body).toMatchObject({
      scopes: ['events:read'],
      key: { id: str(made, 'id'), expires_at: end },
    })
  })

  test('me: machine of a tenant: its identity', async () => {
    const { a } = world
    const reply = await (await machine(world, a, 'tenant_admin')).get('/v1/me')
    expect(reply.body).toMatchObject({
      ...{ kind: 'token', roles: ['tenant_admin'], domains: ['structural_admin'] },
      ...{ tenant_id: a.tenant, workspace_id: null },
    })
  })

  test('me: workspace admin, with a workspace in its token: no data without a data token', async () => {
    const { a } = world
    const admin = await machine(world, a, 'workspace_admin')
    const reply = await admin.get('/v1/me')
    expect(reply.body).toMatchObject({ kind: 'token', tenant_id: a.tenant, workspace_id: a.workspace })
    expect(list(reply, 'roles')).toContain('workspace_admin')
    expect(list(reply, 'domains')).toEqual(['structural_admin'])
    const documents = '/v1/collections/notes/documents'
    expectProblem(await admin.get(documents), 403, 'privilege_domain_mismatch')
    expectProblem(await admin.post(documents, { title: 'no' }), 403, 'privilege_domain_mismatch')
  })

  test.each(['/v1/me', '/v1/limits'])('%s: no credential: 401 with both challenges', async (path) => {
    const reply = await send('GET', path)
    expectProblem(reply, 401, 'credentials_missing')
    expect(reply.headers.get('www-authenticate')).toMatch(/Bearer/)
    expect(reply.headers.get('www-authenticate')).toMatch(/ApiKey/)
  })
})

describe('reply headers', () => {
  test('Cache-Control: JSON reply: private, not stored', async () => {
    expect((await world.a.service.get('/v1/me')).headers.get('cache-control')).toBe('private, no-store')
  })

  test('X-Request-Id: valid: echoed', async () => {
    const reply = await world.a.service.get('/v1/me', { 'x-request-id': 'mine-1.2_3' })
    expect(reply.headers.get('x-request-id')).toBe('mine-1.2_3')
  })

  test.each(['a b', 'x'.repeat(129), '<script>', '"; drop'])('X-Request-Id: %j: replaced', async (sent) => {
    const reply = await world.a.service.get('/v1/me', { 'x-request-id': sent })
    expectStatus(reply, 200)
    expect(reply.headers.get('x-request-id')).toMatch(/^req_/)
  })

  test.each(['POST', 'PUT', 'PATCH', 'DELETE'])('method: %s: 405 with Allow', async (method) => {
    const reply = await world.a.service.send(method, '/v1/me', method === 'DELETE' ? {} : { json: {} })
    expectProblem(reply, 405, 'method_not_allowed')
    expect(reply.headers.get('allow')).toMatch(/GET/)
  })
})

describe('GET /v1/limits', () => {
  const policies = async (caller: Caller) =>
    list(await caller.get('/v1/limits'), 'rates').map((rate) => str(rate, 'policy'))

  test('limits: service key: per key and per tenant', async () => {
    expect((await policies(world.a.service)).sort()).toEqual(['key', 'tenant'])
  })

  test('limits: anon key: also per address', async () => {
    expect((await policies(world.a.anon)).sort()).toEqual(['address', 'key', 'tenant'])
  })

  test('limits: token: per subject, and per tenant if it has one', async () => {
    expect(await policies(world.admin)).toEqual(['subject'])
    expect((await policies(await machine(world, world.a, 'tenant_admin'))).sort()).toEqual([
      'subject',
      'tenant',
    ])
  })

  test('limits: headers of the reply: same numbers', async () => {
    const reply = await world.a.service.get('/v1/limits')
    const policy = reply.headers.get('ratelimit-policy') ?? ''
    for (const rate of list(reply, 'rates')) {
      const { policy: name, limit, window_seconds: w } = rate as Record<string, unknown>
      expect(policy).toContain(`"${name}";q=${limit};w=${w}`)
    }
    expect(reply.headers.get('ratelimit')).toMatch(/^"(key|tenant)";r=\d+;t=\d+$/)
  })

  test('limits: sizes: as documented', async () => {
    expect(get(await world.a.service.get('/v1/limits'), 'sizes')).toMatchObject({
      ...{ url_bytes: 8192, header_bytes: 16_384, body_bytes: 1_048_576, document_depth: 32 },
      ...{ document_keys: 1000, batch_ops: 500, batch_bytes: 4_194_304, filters: 50, page_size: 200 },
      ...{ event_bytes: 262_144, function_input_bytes: 1_048_576, object_key_bytes: 1024, query_limit: 1000 },
    })
  })

  test('limits: key with its own rate: shown', async () => {
    const { a } = world
    const sent = { workspace_id: a.workspace, kind: 'service', name: 'slow', rate_limit: 77 }
    const made = await a.admin.post('/v1/api-keys', sent)
    const reply = await new Caller({ apikey: str(made, 'key') }).get('/v1/limits')
    expect(list(reply, 'rates')).toContainEqual(
      expect.objectContaining({ policy: 'key', per_minute: 77, limit: 77, remaining: 76 }),
    )
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
