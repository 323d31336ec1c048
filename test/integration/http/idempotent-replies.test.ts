/** Checks Idempotency-Key for POSTs of keys and admins: one effect, one reply, never that of another caller. */

import { beforeAll, describe, expect, test } from 'vitest'
import { sendRaw } from '../../support/clients/raw-http.ts'
import { asSuperuser } from '../../support/fixtures/tenants.ts'
import { base, Caller, expectProblem, expectStatus, get, list, type Reply, str } from '../../support/clients/rest-client.ts'
import { createTenantPair, expectIsolated, makeKey, type World, word } from '../../support/fixtures/tenant-pair.ts'

const DOCUMENTS = '/v1/collections/orders/documents'

let world: World

beforeAll(async () => {
  world = await createTenantPair()
})

const withKey = (key: string) => ({ 'idempotency-key': key })
const order = (more: Record<string, unknown> = {}) => ({ mark: world.a.mark, n: word(), ...more })
const countOf = async (n: unknown) =>
  list(await world.a.service.get(`${DOCUMENTS}?n=eq.${encodeURIComponent(String(n))}`)).length

function expectReplay(second: Reply, first: Reply): void {
  expect(second.status).toBe(first.status)
  expect(second.text).toBe(first.text)
  expect(second.headers.get('location')).toBe(first.headers.get('location'))
  expect(second.headers.get('content-type')).toBe(first.headers.get('content-type'))
  expect(first.headers.get('idempotent-replayed')).toBeNull()
  expect(second.headers.get('idempotent-replayed')).toBe('true')
}

describe('same key and body: stored reply (data-plane §2.5)', () => {
  const posts: [string, () => [Caller, string, unknown]][] = [
    ['a document', () => [world.a.service, DOCUMENTS, order()]],
    [
      'a batch',
      () => [
        world.a.service,
        '/v1/collections/orders/batch',
        { ops: [{ op: 'create', data: { n: word() } }] },
      ],
    ],
    ['an event', () => [world.a.service, '/v1/events/publish', { topic: 'a.b', data: 1 }]],
    [
      'an API key',
      () => [world.a.admin, '/v1/api-keys', { workspace_id: world.a.workspace, kind: 'anon', name: 'i' }],
    ],
    [
      'a schema',
      () => [
        world.a.admin,
        '/v1/schemas',
        { workspace_id: world.a.workspace, collection: `c${word()}`, store: 'document', schema: {} },
      ],
    ],
    ['a tenant', () => [world.admin, '/v1/tenants', { name: 'T', slug: `i-${word()}` }]],
    [
      'a workspace',
      () => [
        world.admin,
        '/v1/workspaces',
        { tenant_id: world.a.tenant, name: 'W', slug: `i-${word()}`, bucket: null },
      ],
    ],
    ['a client', () => [world.admin, '/v1/oauth-clients', { kind: 'machine', name: 'm', role: 'operator' }]],
    [
      'an account',
      () => [world.admin, '/v1/accounts', { email: `${word()}@example.test`, role: 'operator' }],
    ],
  ]

  test.each(posts)('%s: repeated: stored reply', async (_, post) => {
    const [caller, path, body] = post()
    const headers = withKey(word())
    const first = await caller.post(path, body, headers)
    expectStatus(first, 200, 201, 202)
    expectReplay(await caller.post(path, body, headers), first)
  })

  test('repeated request: several times: one effect', async () => {
    const [body, headers] = [order(), withKey(word())]
    for (let at = 0; at < 3; at++) expectStatus(await world.a.service.post(DOCUMENTS, body, headers), 201)
    expect(await countOf(body.n)).toBe(1)
  })

  test('repeated request: twenty at once: one effect, the others get its reply or 409 with Retry-After', async () => {
    const [body, headers] = [order(), withKey(word())]
    const all = await Promise.all(
      Array.from({ length: 20 }, () => world.a.service.post(DOCUMENTS, body, headers)),
    )
    for (const reply of all) {
      expectStatus(reply, 201, 409)
      if (reply.status === 409) {
        expectProblem(reply, 409, 'idempotency_in_flight')
        expect(Number(reply.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
      }
    }
    expect(new Set(all.filter(({ status }) => status === 201).map((reply) => str(reply, 'id'))).size).toBe(1)
    expect(await countOf(body.n)).toBe(1)
  })
})

describe('another request under the same key', () => {
  test('same key: another body: 422', async () => {
    const headers = withKey(word())
    expectStatus(await world.a.service.post(DOCUMENTS, order(), headers), 201)
    const second = order()
    expectProblem(await world.a.service.post(DOCUMENTS, second, headers), 422, 'idempotency_key_reused')
    expect(await countOf(second.n)).toBe(0)
  })

  test('same key: another path: another request', async () => {
    const [headers, body] = [withKey(word()), order()]
    expectStatus(await world.a.service.post(DOCUMENTS, body, headers), 201)
    const other = await world.a.service.post('/v1/collections/others/documents', body, headers)
    expectStatus(other, 201)
    expect(other.headers.get('idempotent-replayed')).toBeNull()
  })

  test('same key: another tenant: another request', async () => {
    const [headers, body] = [withKey(word()), { text: 'same' }]
    const replyToA = await world.a.service.post(DOCUMENTS, body, headers)
    const replyToB = await world.b.service.post(DOCUMENTS, body, headers)
    expectStatus(replyToB, 201)
    expect(replyToB.headers.get('idempotent-replayed')).toBeNull()
    expect(str(replyToB, 'id')).not.toBe(str(replyToA, 'id'))
  })

  test('same key: another credential: another request', async () => {
    const { a } = world
    const [headers, body] = [withKey(word()), order()]
    const other = new Caller({ apikey: await makeKey(a.admin, a.workspace, 'service') })
    const [one, two] = [
      await a.service.post(DOCUMENTS, body, headers),
      await other.post(DOCUMENTS, body, headers),
    ]
    expect(str(one, 'id')).not.toBe(str(two, 'id'))
  })

  test('same key: API key revoked meanwhile: no stored reply', async () => {
    const { a } = world
    const made = await a.admin.post('/v1/api-keys', { workspace_id: a.workspace, kind: 'service', name: 'r' })
    const caller = new Caller({ apikey: str(made, 'key') })
    const [headers, body] = [withKey(word()), order()]
    expectStatus(await caller.post(DOCUMENTS, body, headers), 201)
    expectStatus(await a.admin.delete(`/v1/api-keys/${str(made, 'id')}`), 200)
    expectProblem(await caller.post(DOCUMENTS, body, headers), 401, 'api_key_revoked')
  })
})

describe('the key itself', () => {
  test('idempotency key: 255 characters: accepted; 256: refused', async () => {
    expectStatus(await world.a.service.post(DOCUMENTS, order(), withKey('k'.repeat(255))), 201)
    expectProblem(await world.a.service.post(DOCUMENTS, order(), withKey('k'.repeat(256))), 400)
  })

  test('idempotency key: empty: 400', async () => {
    expectProblem(await world.a.service.post(DOCUMENTS, order(), withKey('')), 400)
  })

  test('idempotency key: two in one request: 400', async () => {
    const headers = {
      apikey: world.a.serviceKey,
      'idempotency-key': ['one', 'two'],
      'content-type': 'application/json',
    }
    const reply = await sendRaw(base + DOCUMENTS, headers, 'POST')
    expect(reply.status).toBe(400)
  })

  test('idempotency key: request refused before it ran: usable again', async () => {
    const [headers, body] = [withKey(word()), order()]
    expectProblem(await world.a.anon.post(DOCUMENTS, body, headers), 403)
    expectStatus(await world.a.service.post(DOCUMENTS, body, headers), 201)
  })

  test('stored reply: contains a new API key: replayed with its text, stored unreadable', async () => {
    const { a } = world
    const headers = withKey(word())
    const body = { workspace_id: a.workspace, kind: 'service', name: 'kept' }
    const made = await a.admin.post('/v1/api-keys', body, headers)
    expectReplay(await a.admin.post('/v1/api-keys', body, headers), made)
    const key = str(made, 'key')
    const kept = await asSuperuser<{ row: string }>('select i::text as row from tenon.idempotency i')
    expect(kept.length).toBeGreaterThan(0)
    const all = kept.map(({ row }) => row).join('\n')
    expect(all.includes(key)).toBe(false)
    expect(all.includes(Buffer.from(key).toString('hex'))).toBe(false)
    expect(get(await new Caller({ apikey: key }).get('/v1/me'), 'kind')).toBe('api_key')
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
