/** Idempotency-Key: one effect and one reply for a request, however often, at once, and by whomever it is sent. */

import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { describe, expect, inject, test } from 'vitest'
import { LIMITS } from '../../../src/core/limits.ts'
import { OPERATIONS } from '../../../src/features/index.ts'
import { count, DOCUMENTS, deploy, post, replayed, rowsOf } from '../../support/clients/idempotency.ts'
import {
  aRoom,
  asSuperuser,
  aWorkspace,
  type Caller,
  call,
  eventually,
  tokenOf,
} from '../../support/fixtures/tenants.ts'

test('the same request again is answered with the reply of the first, and done once', async () => {
  const room = await aRoom()
  const first = await post(room.service, 'k1', { n: 1, nested: { a: 1, b: 2 } })
  expect([first.status, replayed(first)]).toEqual([201, null])
  // Equal values, whatever order their members stand in; the key in quotes is the same key.
  const again = await post(room.service, '"k1"', '{"nested":{"b":2,"a":1},"n":1.0}')
  expect([again.status, replayed(again), again.body]).toEqual([201, 'true', first.body])
  for (const name of ['etag', 'location', 'content-type', 'cache-control'])
    expect([name, again.headers.get(name)]).toEqual([name, first.headers.get(name)])
  expect(again.headers.get('x-request-id')).not.toBe(first.headers.get('x-request-id'))
  expect(await count(room)).toBe(1)
  const other = await post(room.service, 'k2', { n: 1, nested: { a: 1, b: 2 } })
  expect(other.body.id).not.toBe(first.body.id)
})

test('another body under the key is refused, and does nothing', async () => {
  const room = await aRoom()
  await post(room.service, 'k', { n: 1 })
  const { status, body } = await post(room.service, 'k', { n: 2 })
  expect([status, body.code]).toEqual([422, 'idempotency_key_reused'])
  expect(await count(room)).toBe(1)
})

test('a key is of one credential, operation and path; of none other is anything seen', async () => {
  const [room, stranger] = await Promise.all([aRoom(), aRoom()])
  const sibling = await aWorkspace(room)
  const { body: key } = await call('POST', '/v1/api-keys', {
    as: room.operator,
    body: { workspace_id: room.workspaceId, kind: 'service', name: 'second' },
  })
  const first = await post(room.service, 'shared', { n: 1 })
  for (const as of [stranger.service, sibling.service, { apikey: key.key }]) {
    const reply = await post(as, 'shared', { n: 1 })
    expect([reply.status, replayed(reply)]).toEqual([201, null])
    expect(reply.body.id).not.toBe(first.body.id)
    // Nor is a body of ours betrayed by a refusal of theirs.
    expect((await post(as, 'shared', { n: 1 })).body.id).toBe(reply.body.id)
  }
  const elsewhere = await post(room.service, 'shared', { n: 1 }, '/v1/collections/others/documents')
  expect([elsewhere.status, replayed(elsewhere)]).toEqual([201, null])
  const event = await post(room.service, 'shared', { topic: 'a', data: 1 }, '/v1/events/publish')
  expect([event.status, replayed(event)]).toEqual([202, null])
})

test('twenty at once: one effect, one that says so, the others wait or are told the same', async () => {
  const room = await aRoom()
  for (let round = 0; round < 5; round++) {
    const replies = await Promise.all(
      Array.from({ length: 20 }, () => post(room.service, `race-${round}`, { round })),
    )
    const done = replies.filter(({ status }) => status === 201)
    expect(done.filter((reply) => replayed(reply) === null)).toHaveLength(1)
    expect(new Set(done.map(({ body }) => body.id)).size).toBe(1)
    for (const { body, headers } of replies.filter(({ status }) => status !== 201))
      expect([body.code, headers.get('retry-after')]).toEqual(['idempotency_in_flight', '1'])
    expect(await count(room)).toBe(round + 1)
  }
})

describe('what is kept', () => {
  test('refusals of the request are; what had no right, and what was not there, is forgotten', async () => {
    const room = await aRoom()
    const schema = { type: 'object', properties: { n: { type: 'integer' } } }
    const body = { workspace_id: room.workspaceId, collection: 'strict', store: 'document', schema }
    await call('POST', '/v1/schemas', { as: room.operator, body })
    const path = '/v1/collections/strict/documents'
    const first = await post(room.service, 'k', { n: 'x' }, path)
    const again = await post(room.service, 'k', { n: 'x' }, path)
    expect([first.status, replayed(first), again.status, replayed(again)]).toEqual([422, null, 422, 'true'])
    expect(again.body).toEqual(first.body)
    expect(again.headers.get('content-type')).toContain('application/problem+json')
    expect(await rowsOf(room)).toHaveLength(1)

    const invoke = '/v1/functions/nothing/invoke'
    for (const as of [room.service, room.anon]) {
      const missing = [await post(as, 'k', {}, invoke), await post(as, 'k', {}, invoke)]
      expect(missing.map((reply) => [reply.status, replayed(reply)])).toEqual([
        [404, null],
        [404, null],
      ])
    }
    expect(await rowsOf(room)).toHaveLength(1)
  })

  test('what is refused before it runs leaves the key free', async () => {
    const room = await aRoom()
    expect((await post(room.service, 'k', { _version: 1 })).status).toBe(400)
    expect((await post(room.service, 'k', { n: 1 })).status).toBe(201)
    expect((await post(room.service, 'free', { topic: 7 }, '/v1/events/publish')).status).toBe(400)
    const right = await post(room.service, 'free', { topic: 'a', data: 7 }, '/v1/events/publish')
    expect([right.status, replayed(right)]).toEqual([202, null])
    const depth = `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
    expect((await post(room.service, 'deep', depth)).body.code).toBe('validation_failed')
  })

  test('an anon key has keys of its own, where it may write; elsewhere it leaves nothing', async () => {
    const room = await aRoom()
    expect((await post(room.anon, 'k', { n: 1 })).body.code).toBe('forbidden')
    expect(await rowsOf(room)).toEqual([])
    await deploy(room, 'open', 'export default () => crypto.randomUUID()', { anon: true })
    const path = '/v1/functions/open/invoke'
    const first = await post(room.anon, 'k', { n: 1 }, path)
    const again = await post(room.anon, 'k', { n: 1 }, path)
    expect([first.status, again.status, replayed(again), again.body]).toEqual([200, 200, 'true', first.body])
    expect(replayed(await post(room.service, 'k', { n: 1 }, path))).toBeNull()
    expect((await rowsOf(room)).map(({ role }) => role).sort()).toEqual(['tenon_anon', 'tenon_service'])
  })

  test('a quota that is used up is asked again', async () => {
    const room = await aRoom()
    const limit = (documents: number) =>
      call('PUT', '/v1/quotas', {
        as: room.operator,
        body: { workspace_id: room.workspaceId, limits: { documents } },
      })
    await limit(0)
    expect((await post(room.service, 'k', { n: 1 })).status).toBe(429)
    expect((await post(room.service, 'k', { n: 1 })).status).toBe(429)
    expect((await post(room.service, 'k', { n: 2 })).body.code).toBe('idempotency_key_reused')
    await limit(10)
    const made = await post(room.service, 'k', { n: 1 })
    expect([made.status, replayed(made), await count(room)]).toEqual([201, null, 1])
  })

  test('replies are sealed: the text of a new key stands nowhere', async () => {
    const room = await aRoom()
    const admin = await tokenOf({ roles: ['tenant_admin'], tenant_id: room.tenantId })
    const body = { workspace_id: room.workspaceId, kind: 'service', name: 'x' }
    const ask = () => post(admin, 'k', body, '/v1/api-keys')
    const [first, again] = [await ask(), await ask()]
    expect([again.body.key, replayed(again)]).toEqual([first.body.key, 'true'])
    const rows = await asSuperuser<{ reply: Buffer }>(
      'select reply from tenon.idempotency where tenant_id = $1',
      [room.tenantId],
    )
    expect(rows).toHaveLength(1)
    for (const { reply } of rows) expect(reply.toString('latin1')).not.toContain(first.body.key)
    const key = { apikey: first.body.key }
    expect((await post(key, 'k', { n: 1 })).status).toBe(201)
  })

  test('a document of the largest size is; beyond, the reply is lost and the effect is not doubled', async () => {
    const room = await aRoom()
    const long = 'x'.repeat(LIMITS.documentBytesMax - 100)
    const [first, again] = [await post(room.service, 'k', { long }), await post(room.service, 'k', { long })]
    expect([first.status, replayed(again), again.body]).toEqual([201, 'true', first.body])
    await deploy(room, 'big', `export default () => 'x'.repeat(${LIMITS.idempotencyReplyBytesMax})`)
    const invoke = () => post(room.service, 'k', {}, '/v1/functions/big/invoke')
    expect((await invoke()).status).toBe(200)
    const { status, body } = await invoke()
    expect([status, body.code, body.answered]).toEqual([409, 'idempotency_reply_lost', 200])
  })
})

test('a caller that went away finds the reply of its run', async () => {
  const room = await aRoom()
  const source =
    'export default async () => { await new Promise((d) => setTimeout(d, 1500)); return crypto.randomUUID() }'
  await deploy(room, 'slow', source)
  const path = '/v1/functions/slow/invoke'
  const gone = fetch(`${inject('tenon').url}${path}`, {
    method: 'POST',
    headers: { ...room.service, 'idempotency-key': 'k' },
    signal: AbortSignal.timeout(700),
  })
  await expect(gone).rejects.toThrow()
  const reply = await eventually(async () => {
    const now = await call('POST', path, { as: room.service, headers: { 'idempotency-key': 'k' } })
    return now.status === 409 ? undefined : now
  })
  expect([reply.status, replayed(reply)]).toEqual([200, 'true'])
  expect(reply.headers.get('x-run-id')).toMatch(/^run_/)
})

test('a function that failed has run: its failure is the reply', async () => {
  const room = await aRoom()
  await deploy(room, 'bad', 'export default () => { throw new Error(crypto.randomUUID()) }')
  const invoke = () => post(room.service, 'k', {}, '/v1/functions/bad/invoke')
  const [first, again] = [await invoke(), await invoke()]
  expect([first.status, first.body.code, replayed(again)]).toEqual([502, 'function_error', 'true'])
  expect(again.body).toEqual(first.body)
})

test('after a day the key is free, and another request may take it', async () => {
  const room = await aRoom()
  const first = await post(room.service, 'k', { n: 1 })
  const [row] = await asSuperuser<{ hours: number }>(
    'select extract(epoch from expires_at - now()) / 3600 as hours from tenon.idempotency where workspace_id = $1',
    [room.workspaceId],
  )
  expect(Math.abs(Number(row?.hours) - LIMITS.idempotencyHours)).toBeLessThan(0.1)
  await asSuperuser('update tenon.idempotency set expires_at = now() where workspace_id = $1', [
    room.workspaceId,
  ])
  const second = await post(room.service, 'k', { n: 2 })
  expect([second.status, replayed(second), second.body.id === first.body.id]).toEqual([201, null, false])
})

test.each([
  ['empty', ''],
  ['empty quotes', '""'],
  ['256 characters', 'x'.repeat(256)],
  ['a letter beyond ASCII', 'sch\u00fcssel'],
])('a key that is %s is no key', async (_name, key) => {
  const room = await aRoom()
  const { status, body } = await post(room.service, key, { n: 1 })
  expect([status, body.code]).toEqual([400, 'header_invalid'])
  expect(await count(room)).toBe(0)
  expect((await post(room.service, 'x'.repeat(255), { n: 1 })).status).toBe(201)
})

test('two keys in one request are none', async () => {
  const room = await aRoom()
  const { status, body } = await raw('/v1/collections/orders/documents', room.service, ['a', 'a'])
  expect([status, body]).toEqual([400, expect.stringContaining('header_invalid')])
})

/** fetch makes one header of two. */
async function raw(path: string, as: Caller, keys: string[]): Promise<{ status: number; body: string }> {
  const headers = { ...as, 'content-type': 'application/json', 'idempotency-key': keys }
  const sent = httpRequest(`${inject('tenon').url}${path}`, { method: 'POST', headers }).end('{}')
  const [reply] = (await once(sent, 'response')) as [IncomingMessage]
  return { status: reply.statusCode ?? 0, body: await text(reply) }
}

test('reads, and methods that may be sent again, take no key and pay nothing for it', async () => {
  const room = await aRoom()
  const { body } = await post(room.service, 'k', { n: 1 })
  const as = room.service
  const headers = { 'idempotency-key': 'k' }
  const path = `${DOCUMENTS}/${body.id}`
  expect((await call('GET', path, { as, headers })).status).toBe(200)
  expect(
    (await call('POST', '/v1/collections/orders/query', { as, headers, body: {} })).body.data,
  ).toHaveLength(1)
  expect((await call('PUT', path, { as, headers, body: { n: 2 } })).body.n).toBe(2)
  expect((await call('PUT', path, { as, headers, body: { n: 3 } })).body.n).toBe(3)
  expect((await call('DELETE', path, { as, headers })).status).toBe(200)
  expect(await rowsOf(room)).toHaveLength(1)
})

test('every operation that takes a key says so, and no other', async () => {
  const { body } = await call('GET', '/openapi.json')
  const taking = OPERATIONS.filter(({ http, reads }) => http.method === 'POST' && !reads).map(
    ({ name }) => name,
  )
  type Described = { operationId: string; parameters: { name: string }[] }
  const described = Object.values(body.paths as Record<string, Record<string, Described>>).flatMap((path) =>
    Object.values(path),
  )
  const saying = described.filter(({ parameters }) =>
    parameters.some(({ name }) => name === 'idempotency-key'),
  )
  expect(saying.map(({ operationId }) => operationId).sort()).toEqual(taking.sort())
})
