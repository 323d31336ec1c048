/** Idempotency-Key: one effect and one reply per request, repeated, concurrent, or by other callers. */

import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { describe, expect, inject, test } from 'vitest'
import { ACCESS_LIMITS } from '../../../src/access/limits.ts'
import { COLLECTION_LIMITS } from '../../../src/features/collections/limits.ts'
import { OPERATIONS } from '../../../src/features/index.ts'
import { count, DOCUMENTS, deploy, post, replayed, rowsOf } from '../../support/clients/idempotency.ts'
import { suspendWorkspace } from '../../support/fixtures/suspension.ts'
import {
  addTestWorkspace,
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  tokenOf,
} from '../../support/fixtures/tenants.ts'

test('idempotent request: repeated: same reply, one effect', async () => {
  const workspace = await createTestWorkspace()
  const first = await post(workspace.service, 'k1', { n: 1, nested: { a: 1, b: 2 } })
  expect([first.status, replayed(first)]).toEqual([201, null])
  // Equal values with members in another order; the key in quotes is the same key.
  const again = await post(workspace.service, '"k1"', '{"nested":{"b":2,"a":1},"n":1.0}')
  expect([again.status, replayed(again), again.body]).toEqual([201, 'true', first.body])
  for (const name of ['etag', 'location', 'content-type', 'cache-control'])
    expect([name, again.headers.get(name)]).toEqual([name, first.headers.get(name)])
  expect(again.headers.get('x-request-id')).not.toBe(first.headers.get('x-request-id'))
  expect(await count(workspace)).toBe(1)
  const other = await post(workspace.service, 'k2', { n: 1, nested: { a: 1, b: 2 } })
  expect(other.body.id).not.toBe(first.body.id)
})

test('idempotent request: another body under the key: refused, no effect', async () => {
  const workspace = await createTestWorkspace()
  await post(workspace.service, 'k', { n: 1 })
  const { status, body } = await post(workspace.service, 'k', { n: 2 })
  expect([status, body.code]).toEqual([422, 'idempotency_key_reused'])
  expect(await count(workspace)).toBe(1)
})

test('idempotency key: other credential, operation or path: another request, nothing is disclosed', async () => {
  const [workspace, otherTenant] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const sibling = await addTestWorkspace(workspace)
  const { body: key } = await call('POST', '/v1/api-keys', {
    as: workspace.operator,
    body: { workspace_id: workspace.workspaceId, kind: 'service', name: 'second' },
  })
  const first = await post(workspace.service, 'shared', { n: 1 })
  for (const as of [otherTenant.service, sibling.service, { apikey: key.key }]) {
    const reply = await post(as, 'shared', { n: 1 })
    expect([reply.status, replayed(reply)]).toEqual([201, null])
    expect(reply.body.id).not.toBe(first.body.id)
    // Nor does a refusal disclose our body to them.
    expect((await post(as, 'shared', { n: 1 })).body.id).toBe(reply.body.id)
  }
  const elsewhere = await post(workspace.service, 'shared', { n: 1 }, '/v1/collections/others/documents')
  expect([elsewhere.status, replayed(elsewhere)]).toEqual([201, null])
  const event = await post(workspace.service, 'shared', { topic: 'a', data: 1 }, '/v1/events/publish')
  expect([event.status, replayed(event)]).toEqual([202, null])
})

test('idempotent request: twenty at once: one effect, the others wait or get a conflict', async () => {
  const workspace = await createTestWorkspace()
  for (let round = 0; round < 5; round++) {
    const replies = await Promise.all(
      Array.from({ length: 20 }, () => post(workspace.service, `race-${round}`, { round })),
    )
    const done = replies.filter(({ status }) => status === 201)
    expect(done.filter((reply) => replayed(reply) === null)).toHaveLength(1)
    expect(new Set(done.map(({ body }) => body.id)).size).toBe(1)
    for (const { body, headers } of replies.filter(({ status }) => status !== 201))
      expect([body.code, headers.get('retry-after')]).toEqual([
        'idempotency_in_flight',
        expect.stringMatching(/^[1-5]$/),
      ])
    expect(await count(workspace)).toBe(round + 1)
  }
})

describe('stored replies', () => {
  test('stored reply: refusal of the request: kept; 403 or 404: not kept', async () => {
    const workspace = await createTestWorkspace()
    const schema = { type: 'object', properties: { n: { type: 'integer' } } }
    const body = { workspace_id: workspace.workspaceId, collection: 'strict', store: 'document', schema }
    await call('POST', '/v1/schemas', { as: workspace.operator, body })
    const path = '/v1/collections/strict/documents'
    const first = await post(workspace.service, 'k', { n: 'x' }, path)
    const again = await post(workspace.service, 'k', { n: 'x' }, path)
    expect([first.status, replayed(first), again.status, replayed(again)]).toEqual([422, null, 422, 'true'])
    expect(again.body).toEqual(first.body)
    expect(again.headers.get('content-type')).toContain('application/problem+json')
    expect(await rowsOf(workspace)).toHaveLength(1)

    const invoke = '/v1/functions/nothing/invoke'
    for (const as of [workspace.service, workspace.anon]) {
      const missing = [await post(as, 'k', {}, invoke), await post(as, 'k', {}, invoke)]
      expect(missing.map((reply) => [reply.status, replayed(reply)])).toEqual([
        [404, null],
        [404, null],
      ])
    }
    expect(await rowsOf(workspace)).toHaveLength(1)
  })

  test('stored reply: refused before it runs: key stays free', async () => {
    const workspace = await createTestWorkspace()
    expect((await post(workspace.service, 'k', { _version: 1 })).status).toBe(400)
    expect((await post(workspace.service, 'k', { n: 1 })).status).toBe(201)
    expect((await post(workspace.service, 'free', { topic: 7 }, '/v1/events/publish')).status).toBe(400)
    const right = await post(workspace.service, 'free', { topic: 'a', data: 7 }, '/v1/events/publish')
    expect([right.status, replayed(right)]).toEqual([202, null])
    const depth = `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
    expect((await post(workspace.service, 'deep', depth)).body.code).toBe('validation_failed')
  })

  test('anon key: where it may write: keys of its own; elsewhere: nothing is stored', async () => {
    const workspace = await createTestWorkspace()
    expect((await post(workspace.anon, 'k', { n: 1 })).body.code).toBe('forbidden')
    expect(await rowsOf(workspace)).toEqual([])
    await deploy(workspace, 'open', 'export default () => crypto.randomUUID()', { anon: true })
    const path = '/v1/functions/open/invoke'
    const first = await post(workspace.anon, 'k', { n: 1 }, path)
    const again = await post(workspace.anon, 'k', { n: 1 }, path)
    expect([first.status, again.status, replayed(again), again.body]).toEqual([200, 200, 'true', first.body])
    expect(replayed(await post(workspace.service, 'k', { n: 1 }, path))).toBeNull()
    expect((await rowsOf(workspace)).map(({ role }) => role).sort()).toEqual(['tenon_anon', 'tenon_service'])
  })

  test('stored reply: quota used up: not kept, checked again', async () => {
    const workspace = await createTestWorkspace()
    const limit = (documents: number) =>
      call('PUT', '/v1/quotas', {
        as: workspace.operator,
        body: { workspace_id: workspace.workspaceId, limits: { documents } },
      })
    await limit(0)
    expect((await post(workspace.service, 'k', { n: 1 })).status).toBe(429)
    expect((await post(workspace.service, 'k', { n: 1 })).status).toBe(429)
    expect((await post(workspace.service, 'k', { n: 2 })).body.code).toBe('idempotency_key_reused')
    await limit(10)
    const made = await post(workspace.service, 'k', { n: 1 })
    expect([made.status, replayed(made), await count(workspace)]).toEqual([201, null, 1])
  })

  test('stored reply: contains a new API key: encrypted, the text is stored nowhere', async () => {
    const workspace = await createTestWorkspace()
    const admin = await tokenOf({ roles: ['tenant_admin'], tenant_id: workspace.tenantId })
    const body = { workspace_id: workspace.workspaceId, kind: 'service', name: 'x' }
    const ask = () => post(admin, 'k', body, '/v1/api-keys')
    const [first, again] = [await ask(), await ask()]
    expect([again.body.key, replayed(again)]).toEqual([first.body.key, 'true'])
    const rows = await asSuperuser<{ reply: Buffer }>(
      'select reply from tenon.idempotency where tenant_id = $1',
      [workspace.tenantId],
    )
    expect(rows).toHaveLength(1)
    for (const { reply } of rows) expect(reply.toString('latin1')).not.toContain(first.body.key)
    const key = { apikey: first.body.key }
    expect((await post(key, 'k', { n: 1 })).status).toBe(201)
  })

  test('stored reply: document of the maximum size: kept; larger: reply lost, effect not repeated', async () => {
    const workspace = await createTestWorkspace()
    const long = 'x'.repeat(COLLECTION_LIMITS.documentBytesMax - 100)
    const [first, again] = [
      await post(workspace.service, 'k', { long }),
      await post(workspace.service, 'k', { long }),
    ]
    expect([first.status, replayed(again), again.body]).toEqual([201, 'true', first.body])
    await deploy(
      workspace,
      'big',
      `export default () => 'x'.repeat(${ACCESS_LIMITS.idempotencyReplyBytesMax})`,
    )
    const invoke = () => post(workspace.service, 'k', {}, '/v1/functions/big/invoke')
    expect((await invoke()).status).toBe(200)
    const { status, body } = await invoke()
    expect([status, body.code, body.answered]).toEqual([409, 'idempotency_reply_lost', 200])
  })
})

test('stored reply: caller disconnected: gets the reply of its execution later', async () => {
  const workspace = await createTestWorkspace()
  const source =
    'export default async () => { await new Promise((d) => setTimeout(d, 1500)); return crypto.randomUUID() }'
  await deploy(workspace, 'slow', source)
  const path = '/v1/functions/slow/invoke'
  const aborted = fetch(`${inject('tenon').url}${path}`, {
    method: 'POST',
    headers: { ...workspace.service, 'idempotency-key': 'k' },
    signal: AbortSignal.timeout(700),
  })
  await expect(aborted).rejects.toThrow()
  const reply = await eventually(async () => {
    const now = await call('POST', path, { as: workspace.service, headers: { 'idempotency-key': 'k' } })
    return now.status === 409 ? undefined : now
  })
  expect([reply.status, reply.headers.get('x-run-id')]).toEqual([200, expect.stringMatching(/^run_/)])
  // The first repetition waits for the same execution, or comes after its end.
  const again = await call('POST', path, { as: workspace.service, headers: { 'idempotency-key': 'k' } })
  expect([again.body, again.headers.get('x-run-id'), replayed(again)]).toEqual([
    ...[reply.body, reply.headers.get('x-run-id'), 'true'],
  ])
})

test('stored reply: function failed: the failure is the reply', async () => {
  const workspace = await createTestWorkspace()
  await deploy(workspace, 'bad', 'export default () => { throw new Error(crypto.randomUUID()) }')
  const invoke = () => post(workspace.service, 'k', {}, '/v1/functions/bad/invoke')
  const [first, again] = [await invoke(), await invoke()]
  expect([first.status, first.body.code, replayed(again)]).toEqual([502, 'function_error', 'true'])
  expect(again.body).toEqual(first.body)
})

test('idempotency key: after a day: free for another request', async () => {
  const workspace = await createTestWorkspace()
  const first = await post(workspace.service, 'k', { n: 1 })
  const [row] = await asSuperuser<{ hours: number }>(
    'select extract(epoch from expires_at - now()) / 3600 as hours from tenon.idempotency where workspace_id = $1',
    [workspace.workspaceId],
  )
  expect(Math.abs(Number(row?.hours) - ACCESS_LIMITS.idempotencyHours)).toBeLessThan(0.1)
  await asSuperuser('update tenon.idempotency set expires_at = now() where workspace_id = $1', [
    workspace.workspaceId,
  ])
  const second = await post(workspace.service, 'k', { n: 2 })
  expect([second.status, replayed(second), second.body.id === first.body.id]).toEqual([201, null, false])
})

test.each([
  ['empty', ''],
  ['empty quotes', '""'],
  ['256 characters', 'x'.repeat(256)],
  ['non-ASCII character', 'sch\u00fcssel'],
])('idempotency key: %s: 400 header_invalid', async (_name, key) => {
  const workspace = await createTestWorkspace()
  const { status, body } = await post(workspace.service, key, { n: 1 })
  expect([status, body.code]).toEqual([400, 'header_invalid'])
  expect(await count(workspace)).toBe(0)
  expect((await post(workspace.service, 'x'.repeat(255), { n: 1 })).status).toBe(201)
})

test('idempotency key: two in one request: refused', async () => {
  const workspace = await createTestWorkspace()
  const { status, body } = await raw('/v1/collections/orders/documents', workspace.service, ['a', 'a'])
  expect([status, body]).toEqual([400, expect.stringContaining('header_invalid')])
})

/** fetch joins two headers into one. */
async function raw(path: string, as: Caller, keys: string[]): Promise<{ status: number; body: string }> {
  const headers = { ...as, 'content-type': 'application/json', 'idempotency-key': keys }
  const sent = httpRequest(`${inject('tenon').url}${path}`, { method: 'POST', headers }).end('{}')
  const [reply] = (await once(sent, 'response')) as [IncomingMessage]
  return { status: reply.statusCode ?? 0, body: await text(reply) }
}

test('idempotency key: reads and other repeatable methods: ignored, no cost', async () => {
  const workspace = await createTestWorkspace()
  const { body } = await post(workspace.service, 'k', { n: 1 })
  const as = workspace.service
  const headers = { 'idempotency-key': 'k' }
  const path = `${DOCUMENTS}/${body.id}`
  expect((await call('GET', path, { as, headers })).status).toBe(200)
  expect(
    (await call('POST', '/v1/collections/orders/query', { as, headers, body: {} })).body.data,
  ).toHaveLength(1)
  expect((await call('DELETE', path, { as, headers })).status).toBe(200)
  expect(await rowsOf(workspace)).toHaveLength(1)
})

test('refusal whose reason is looked up after the effect was not made: with a key: the same problem as without one', async () => {
  const workspace = await createTestWorkspace()
  const { workspaceId: workspace_id, tenantId: tenant_id, operator: as } = workspace
  const made = async (path: string, body: object) => (await call('POST', path, { as, body })).body
  const key = await made('/v1/api-keys', { workspace_id, kind: 'anon', name: 'x' })
  const email = `${randomUUID()}@example.test`
  const account = await made('/v1/accounts', { tenant_id, workspace_id, role: 'service', email })
  await call('PATCH', `/v1/accounts/${account.id}`, { as, body: { disabled: true } })
  expect((await suspendWorkspace(workspace, as)).status).toBe(200)
  const asks: readonly (readonly [string, object])[] = [
    ['/v1/api-keys', { workspace_id, kind: 'anon', name: 'x' }],
    [`/v1/api-keys/${key.id}/rotate`, {}],
    ['/v1/users', { workspace_id, email: 'a@example.test' }],
    [`/v1/accounts/${account.id}/invite`, {}],
    ['/v1/schemas', { workspace_id, collection: 'c', store: 'relational', schema: {} }],
    ['/v1/functions', { workspace_id, name: 'f', source: 'export default () => 1' }],
  ]
  for (const [path, body] of asks) {
    const plain = await call('POST', path, { as, body })
    const keyed = await post(as, randomUUID(), body, path)
    const refusal = ({ status, body: { code, detail } }: typeof plain) => ({ path, status, code, detail })
    expect(refusal(keyed)).toEqual(refusal(plain))
    expect([403, 409]).toContain(plain.status)
  }
})

/** Their bodies are streams, or tus has an answer of its own: the offset. */
const WITHOUT_KEY = [
  ...['workspace.import', 'tenant.import'],
  ...['object.upload_form', 'upload.create', 'upload.append'],
]

test('Idempotency-Key: every POST and PATCH with an effect, and each PUT that may create: takes it, as OpenAPI says; function.fetch passes it on', async () => {
  const { body } = await call('GET', '/openapi.json')
  const taking = OPERATIONS.filter(
    ({ http, reads }) =>
      (http.method === 'POST' || http.method === 'PATCH' || http.takesKey === true) &&
      http.takes !== 'request' &&
      !reads,
  )
    .map(({ name }) => name)
    .filter((name) => !WITHOUT_KEY.includes(name))
  type Described = { operationId: string; parameters: { name: string }[] }
  const described = Object.values(body.paths as Record<string, Record<string, Described>>).flatMap((path) =>
    Object.values(path),
  )
  const documented = described.filter(({ parameters }) =>
    parameters.some(({ name }) => name === 'idempotency-key'),
  )
  expect(documented.map(({ operationId }) => operationId).sort()).toEqual(taking.sort())
})
