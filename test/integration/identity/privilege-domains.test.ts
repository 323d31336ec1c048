/** Checks tenants, workspaces, keys and the two privilege domains, sentence by sentence of the specification. */

import { beforeAll, describe, expect, test } from 'vitest'
import { anonymous, Caller, expectProblem, expectStatus, get, list, pause, str, token } from '../../support/clients/rest-client.ts'
import { createTenantPair, expectIsolated, makeKey, type World, word } from '../../support/fixtures/tenant-pair.ts'

let world: World

beforeAll(async () => {
  world = await createTenantPair()
})

const DOCUMENTS = '/v1/collections/notes/documents'

describe('tenants and workspaces', () => {
  test('tenant: created without Prefer: 202 with the Location of its operation', async () => {
    const made = await world.admin.post('/v1/tenants', { name: 'Later', slug: `later-${word()}` })
    expectStatus(made, 202)
    expect(made.headers.get('location')).toMatch(/\/v1\/operations\/op_\w+$/)
    const path = new URL(made.headers.get('location') ?? '', 'http://x').pathname
    await expect
      .poll(async () => get(await world.admin.get(path), 'state'), { timeout: 20_000 })
      .toBe('succeeded')
  })

  test('tenant: created with Prefer: wait=30: 201 with id, name, slug and state', async () => {
    const slug = `now-${word()}`
    const made = await world.admin.post('/v1/tenants', { name: 'Now', slug }, { prefer: 'wait=30' })
    expectStatus(made, 201)
    expect(made.body).toMatchObject({
      id: expect.stringMatching(/^ten_\w+$/),
      name: 'Now',
      slug,
      state: 'active',
    })
  })

  test('workspace: created: 201 with an id, belongs to its tenant', async () => {
    const { a } = world
    const sent = { tenant_id: a.tenant, name: 'Second', slug: `second-${word()}` }
    const made = await a.admin.post('/v1/workspaces', sent, { prefer: 'wait=30' })
    expectStatus(made, 201)
    expect(made.body).toMatchObject({ id: expect.stringMatching(/^ws_\w+$/), tenant_id: a.tenant })
  })

  test('administrative route: unknown field: refused', async () => {
    expectProblem(
      await world.admin.post('/v1/tenants', { name: 'N', slug: `s-${word()}`, colour: 'red' }),
      400,
    )
  })

  test('workspace: missing tenant: 404', async () => {
    const missingTenant = `${world.a.tenant.slice(0, -4)}zzzz`
    expectProblem(
      await world.admin.post('/v1/workspaces', { tenant_id: missingTenant, name: 'N', slug: 'n' }),
      404,
    )
  })
})

describe('API keys', () => {
  test('API key: both kinds: prefixes svc_anon_ and svc_service_', () => {
    expect(world.a.anonKey).toMatch(/^svc_anon_/)
    expect(world.a.serviceKey).toMatch(/^svc_service_/)
  })

  test('API key: listed: masked', async () => {
    const listed = await world.a.admin.get(`/v1/api-keys?workspace_id=${world.a.workspace}`)
    expectStatus(listed, 200)
    expect(list(listed).length).toBeGreaterThanOrEqual(2)
    expect(listed.text).not.toContain(world.a.serviceKey)
    expect(listed.text).not.toContain(world.a.anonKey)
  })

  test('API key: revoked: 401 at once', async () => {
    const { a } = world
    const made = await a.admin.post('/v1/api-keys', {
      workspace_id: a.workspace,
      kind: 'service',
      name: 'short',
    })
    const caller = new Caller({ apikey: str(made, 'key') })
    expectStatus(await caller.post(DOCUMENTS, { mark: a.mark }), 201)
    expectStatus(await a.admin.delete(`/v1/api-keys/${str(made, 'id')}`), 200)
    await pause(100)
    expectProblem(await caller.get(DOCUMENTS), 401)
  })

  const presentations: [string, (key: string) => Record<string, string>][] = [
    ['header apikey', (key) => ({ apikey: key })],
    ['header x-api-key', (key) => ({ 'x-api-key': key })],
    ['Authorization: ApiKey', (key) => ({ authorization: `ApiKey ${key}` })],
    ['Authorization: Bearer', (key) => ({ authorization: `Bearer ${key}` })],
  ]

  test.each(presentations)('API key: by %s: accepted', async (_, headers) => {
    const reply = await new Caller(headers(world.a.serviceKey)).get(DOCUMENTS)
    expectStatus(reply, 200)
    expect(reply.text).toContain(world.a.mark)
  })

  test.each(presentations)('API key: wrong, by %s: 401 without fallback', async (_, headers) => {
    const wrong = headers(`svc_service_${'x'.repeat(48)}`)
    const context = { 'x-tenant-id': world.a.tenant, 'x-workspace-id': world.a.workspace }
    expectProblem(await new Caller({ ...context, ...wrong }).get(DOCUMENTS), 401)
  })

  test('bearer token: wrong: 401 with a challenge', async () => {
    const reply = await new Caller({ authorization: 'Bearer abc.def.ghi' }).get(DOCUMENTS)
    expectProblem(reply, 401)
    expect(reply.headers.get('www-authenticate')).toMatch(/Bearer/)
  })

  test('credential: none: 401 credentials_missing', async () => {
    expectProblem(await new Caller({}).get(DOCUMENTS), 401, 'credentials_missing')
  })

  test('API keys: two different ones: 400', async () => {
    const two = new Caller({ apikey: world.a.serviceKey, 'x-api-key': world.b.serviceKey })
    expectProblem(await two.get(DOCUMENTS), 400)
  })

  test('x-tenant-id: sent by a client: ignored', async () => {
    const { a, b } = world
    const context = { 'x-tenant-id': a.tenant, 'x-workspace-id': a.workspace, 'x-pg-role': 'service' }
    const reply = await b.service.with(context).get(DOCUMENTS)
    expectStatus(reply, 200)
    expect(reply.text).not.toContain(a.mark)
  })

  test('context headers: alone: no credential', async () => {
    const { a } = world
    const context = { 'x-tenant-id': a.tenant, 'x-workspace-id': a.workspace, 'x-auth-subject': 'me' }
    expectProblem(await new Caller({ ...context, 'x-pg-role': 'service' }).get(DOCUMENTS), 401)
  })

  test('?apikey=: service key: 401 service_key_in_query', async () => {
    const path = `/v1/events/subscribe?topic=t&apikey=${world.a.serviceKey}`
    const reply = await new Caller({}).get(path)
    expectProblem(reply, 401, 'service_key_in_query')
    expect(reply.text).not.toContain(world.a.serviceKey)
  })

  test('?apikey=: route other than subscribe: not read', async () => {
    const reply = await new Caller({}).get(`${DOCUMENTS}?apikey=${world.a.anonKey}`)
    expectProblem(reply, 401)
    expect(reply.text).not.toContain(world.a.anonKey)
  })

  test('anon key: write without an access rule: refused', async () => {
    expectProblem(await world.a.anon.post(DOCUMENTS, { mark: world.a.mark }), 403)
  })

  test('API key: of another tenant: 404 identical to that of a missing one', async () => {
    const { a, b } = world
    const made = await a.admin.post('/v1/api-keys', {
      workspace_id: a.workspace,
      kind: 'anon',
      name: 'unseen',
    })
    const [foreignId, missingId] = [str(made, 'id'), `${str(made, 'id').slice(0, -4)}zzzz`]
    // A key of B is out of bounds here; the reply must not show whether it exists.
    const seen = await b.service.delete(`/v1/api-keys/${foreignId}`)
    const missing = await b.service.delete(`/v1/api-keys/${missingId}`)
    expect(anonymous(seen, foreignId)).toBe(anonymous(missing, missingId))
    expectStatus(await new Caller({ apikey: str(made, 'key') }).get('/v1/me'), 200)
  })
})

describe('privilege domains', () => {
  const administrative: [string, string][] = [
    ['POST', '/v1/tenants'],
    ['POST', '/v1/workspaces'],
    ['POST', '/v1/schemas'],
    ['POST', '/v1/functions'],
    ['PUT', '/v1/functions/any/config'],
    ['POST', '/v1/api-keys'],
    ['PUT', '/v1/quotas'],
    ['GET', '/v1/quotas'],
    ['POST', '/v1/services/configure'],
    ['GET', '/v1/flows/workspaces/{ws}/definitions'],
    ['POST', '/v1/flows/workspaces/{ws}/validate'],
    ['GET', '/v1/flows/workspaces/{ws}/executions'],
    ['GET', '/v1/mcp/workspaces/{ws}/servers'],
    ['POST', '/v1/mcp/workspaces/{ws}/servers'],
  ]

  test.each(administrative)('%s %s: service key: 403', async (method, path) => {
    const { a } = world
    const json = method === 'GET' ? undefined : {}
    const reply = await a.service.send(method, path.replace('{ws}', a.workspace), {
      ...(json ? { json } : {}),
    })
    expectProblem(reply, 403, 'privilege_domain_mismatch')
    expect(reply.text).toContain('structural_admin')
  })

  const data: [string, string][] = [
    ['POST', '/v1/collections/notes/documents'],
    ['GET', '/v1/collections/notes/documents'],
    ['GET', '/v1/collections/notes/documents/01890000-0000-7000-8000-000000000000'],
    ['PUT', '/v1/collections/notes/documents/01890000-0000-7000-8000-000000000000'],
    ['DELETE', '/v1/collections/notes/documents/01890000-0000-7000-8000-000000000000'],
    ['POST', '/v1/collections/notes/query'],
    ['PUT', '/v1/objects/bucket/key'],
    ['GET', '/v1/objects/bucket/key'],
    ['DELETE', '/v1/objects/bucket/key'],
    ['POST', '/v1/events/publish'],
    ['GET', '/v1/events/subscribe?topic=t'],
    ['POST', '/v1/functions/any/invoke'],
    ['GET', '/v1/analytics/query?metric=requests&window=1h'],
  ]

  test.each(data)('%s %s: operator token: 403', async (method, path) => {
    const json = method === 'GET' || method === 'DELETE' ? undefined : {}
    const reply = await world.admin.send(method, path, { ...(json ? { json } : {}) })
    expectProblem(reply, 403, 'privilege_domain_mismatch')
    expect(reply.text).toContain('data_access')
  })

  test('issuer: operator client with its secret: gets a token', async () => {
    expect((await token()).split('.')).toHaveLength(3)
  })
})

test('service key: another workspace of the tenant: refused', async () => {
  const { a } = world
  const sent = { tenant_id: a.tenant, name: 'Third', slug: `third-${word()}` }
  const made = await a.admin.post('/v1/workspaces', sent, { prefer: 'wait=30' })
  const key = await makeKey(a.admin, str(made, 'id'), 'service')
  const reply = await new Caller({ apikey: key }).get(DOCUMENTS)
  expectStatus(reply, 200, 404)
  expect(reply.text).not.toContain(a.mark)
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
