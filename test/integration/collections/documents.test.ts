/** Single documents in every store: created, read, set, merged, replaced, deleted; conditions, repeated requests, change events. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  type Caller,
  expectProblem,
  expectStatus,
  get,
  list,
  type Reply,
  Stream,
  str,
} from '../../support/clients/rest-client.ts'
import {
  declareKind,
  documents,
  fill,
  KINDS,
  nullable,
  type Row,
  tags,
} from '../../support/fixtures/declared-collections.ts'
import { createTenantPair, expectIsolated, type World, word } from '../../support/fixtures/tenant-pair.ts'

let world: World

const PROPERTIES = {
  tag: { type: 'string' },
  n: nullable('number'),
  s: nullable('string'),
  o: nullable('object'),
  a: { type: 'array' },
}
const NOWHERE = '01890a5d-ac96-774b-bcce-b302099a8057'

beforeAll(async () => {
  world = await createTenantPair()
  for (const kind of KINDS) await declareKind(world.a, kind, kind, PROPERTIES)
})

const MERGE = { 'content-type': 'application/merge-patch+json' }

describe.each(KINDS)('document, %s collection', (kind) => {
  const START = { tag: 'start', n: 1, s: 'x', o: { a: 1, b: { c: 2, d: 3 } }, a: [1, 2] }
  const make = async (row: Row = START) => String((await fill(world.a, kind, [row]))[0])
  const at = (id: string) => `${documents(kind)}/${id}`
  const read = async (id: string) => (await world.a.service.get(at(id))).body
  const send = (method: string, id: string, json: unknown, headers = {}): Promise<Reply> =>
    world.a.service.send(method, at(id), { json, headers })

  test('document: created: 201 with id, times, version, Location and ETag', async () => {
    const reply = await world.a.service.post(documents(kind), { ...START, mark: world.a.mark })
    expectStatus(reply, 201)
    expect(reply.body).toMatchObject({
      ...START,
      id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7/),
      _created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      _updated_at: expect.any(String),
      _version: 1,
    })
    expect(reply.headers.get('location')).toContain(at(str(reply, 'id')))
    expect(reply.headers.get('etag')).toBe('"v1"')
  })

  test('document: deleted: the reply names it; again, and read: 404', async () => {
    const id = await make()
    const deleted = await world.a.service.delete(at(id))
    expect([deleted.status, deleted.body]).toEqual([200, { id, deleted: true }])
    for (const method of ['GET', 'DELETE'])
      expectProblem(await world.a.service.send(method, at(id)), 404, 'not_found')
  })

  test('document: read by id: ETag; HEAD: same headers', async () => {
    const id = await make()
    const reply = await world.a.service.get(at(id))
    expectStatus(reply, 200)
    expect(reply.body).toMatchObject({ ...START, id, _version: 1 })
    expect(reply.headers.get('etag')).toBe('"v1"')
    const head = await world.a.service.send('HEAD', at(id))
    expectStatus(head, 200)
    expect([head.text, head.headers.get('etag')]).toEqual(['', '"v1"'])
  })

  test('conditional read: If-None-Match with the current tag: 304 without a body; with an old one: 200', async () => {
    const id = await make()
    const same = await world.a.service.get(at(id), { 'if-none-match': '"v1"' })
    expectStatus(same, 304)
    expect([same.text, same.headers.get('etag')]).toEqual(['', '"v1"'])
    expectStatus(await send('PUT', id, { n: 2 }), 200)
    expectStatus(await world.a.service.get(at(id), { 'if-none-match': '"v1"' }), 200)
    expectStatus(await world.a.service.get(at(id), { 'if-none-match': '"v1", "v2"' }), 304)
    expectStatus(await world.a.service.get(at(id), { 'if-none-match': '*' }), 304)
  })

  test('PUT: named fields, null too: set as a whole; other fields: kept', async () => {
    const id = await make()
    const reply = await send('PUT', id, { o: { b: 1 }, s: null })
    expectStatus(reply, 200)
    expect(reply.headers.get('etag')).toBe('"v2"')
    expect(reply.body).toMatchObject({ tag: 'start', n: 1, s: null, a: [1, 2], _version: 2 })
    expect(get(reply, 'o')).toEqual({ b: 1 })
    expect(await read(id)).toEqual(reply.body)
    expect(get(reply, '_created_at')).not.toBe(get(reply, '_updated_at'))
  })

  test('PUT: with the id of the path: accepted; with another id: refused', async () => {
    const id = await make()
    expectStatus(await send('PUT', id, { id, n: 2 }), 200)
    expectProblem(await send('PUT', id, { id: NOWHERE, n: 3 }), 400)
    expect(await read(id)).toMatchObject({ id, n: 2, _version: 2 })
  })

  test('PUT: empty object: no change, same version', async () => {
    const id = await make()
    const reply = await send('PUT', id, {})
    expectStatus(reply, 200)
    expect(reply.headers.get('etag')).toBe('"v1"')
    expect(await read(id)).toMatchObject({ ...START, _version: 1 })
  })

  test('PUT: ?replace=true: only the named fields remain', async () => {
    const id = await make()
    const reply = await world.a.service.put(`${at(id)}?replace=true`, { tag: 'new', mark: world.a.mark })
    expectStatus(reply, 200)
    expect(reply.body).toMatchObject({ id, tag: 'new', _version: 2 })
    for (const deleted of ['n', 's', 'o', 'a']) expect(reply.body).not.toHaveProperty(deleted)
    expect(await read(id)).toEqual(reply.body)
  })

  test('PUT: ?unset=a,b: removes the fields', async () => {
    const id = await make()
    const reply = await world.a.service.put(`${at(id)}?unset=n,o`, { s: 'y' })
    expectStatus(reply, 200)
    expect(reply.body).toMatchObject({ tag: 'start', s: 'y', a: [1, 2], _version: 2 })
    for (const deleted of ['n', 'o']) expect(await read(id)).not.toHaveProperty(deleted)
    expect(tags(await world.a.service.get(`${documents(kind)}?id=eq.${id}&n=exists.false`))).toEqual([
      'start',
    ])
    expectProblem(await world.a.service.put(`${at(id)}?unset=_version`, {}), 400)
  })

  test('PATCH: nested objects: merged, null deletes, lists are replaced', async () => {
    const id = await make()
    const reply = await send('PATCH', id, { o: { a: null, b: { c: 9 }, e: [1] }, s: null, a: [3] }, MERGE)
    expectStatus(reply, 200)
    expect(get(reply, 'o')).toEqual({ b: { c: 9, d: 3 }, e: [1] })
    expect(reply.body).toMatchObject({ tag: 'start', n: 1, a: [3], _version: 2 })
    expect(reply.body).not.toHaveProperty('s')
    expect(await read(id)).toEqual(reply.body)
  })

  test('PATCH: object over another value: replaces it, without its nulls', async () => {
    const id = await make({ tag: 'flat', o: { a: 1 } })
    const reply = await send('PATCH', id, { o: { a: { deep: 1, gone: null } } }, MERGE)
    expect(get(reply, 'o')).toEqual({ a: { deep: 1 } })
  })

  test.each(['[]', '1', 'null', '"x"', '{"_created_at":"2020-01-01T00:00:00.000Z"}', '{"$set":{"n":1}}'])(
    'PUT and PATCH: body %s: 400, nothing changes',
    async (raw) => {
      const id = await make()
      const headers = { 'content-type': 'application/json' }
      for (const method of ['PUT', 'PATCH']) {
        expectProblem(await world.a.service.send(method, at(id), { raw, headers }), 400)
      }
      expect(await read(id)).toMatchObject({ ...START, _version: 1 })
    },
  )

  test('If-Match: two concurrent writers: one succeeds, the other gets the current version', async () => {
    const id = await make()
    const sent = [2, 3].map((n) => send('PUT', id, { n }, { 'if-match': '"v1"' }))
    const replies = await Promise.all(sent)
    expect(replies.map(({ status }) => status).toSorted()).toEqual([200, 412])
    const lost = replies.find(({ status }) => status === 412)
    expect(lost?.headers.get('etag')).toBe('"v2"')
    expect(await read(id)).toMatchObject({ _version: 2 })
  })

  test.each(['PUT', 'PATCH', 'DELETE'])(
    '%s: If-Match with another version or a weak tag: 412',
    async (method) => {
      const id = await make()
      for (const tag of ['"v2"', 'W/"v1"', '"1"', '"v1x"']) {
        const sent = method === 'DELETE' ? {} : { json: { n: 2 } }
        const reply = await world.a.service.send(method, at(id), { ...sent, headers: { 'if-match': tag } })
        expectProblem(reply, 412)
      }
      expect(await read(id)).toMatchObject({ n: 1, _version: 1 })
      const sent = method === 'DELETE' ? {} : { json: { n: 2 } }
      const headers = { 'if-match': '"v9", "v1"' }
      expectStatus(await world.a.service.send(method, at(id), { ...sent, headers }), 200)
    },
  )

  test('If-None-Match: *: document exists: never overwritten', async () => {
    const id = await make()
    expectProblem(await send('PUT', id, { n: 2 }, { 'if-none-match': '*' }), 412)
    expect(await read(id)).toMatchObject({ n: 1 })
  })

  test('any method: missing document: 404, not created', async () => {
    for (const id of [NOWHERE, 'nope', '..%2f..%2fx', "'; drop table x; --"].map(encodeURIComponent)) {
      for (const method of ['GET', 'PUT', 'PATCH', 'DELETE']) {
        const sent = method === 'PUT' || method === 'PATCH' ? { json: { n: 1 } } : {}
        expectProblem(await world.a.service.send(method, at(id), sent), 404)
      }
    }
    expect(list(await world.a.service.get(`${documents(kind)}?id=eq.${NOWHERE}`))).toEqual([])
  })

  test('DELETE: JSON content type without a body: accepted', async () => {
    const id = await make()
    const headers = { 'content-type': 'application/json' }
    const deleted = await world.a.service.send('DELETE', at(id), { headers })
    expectStatus(deleted, 200)
    expect(deleted.body).toEqual({ id, deleted: true })
    expectProblem(await world.a.service.get(at(id)), 404)
  })

  test('Idempotency-Key: repeated: stored reply; with another body: 422', async () => {
    const key = { 'idempotency-key': word() }
    const post = (n: number, headers = key) =>
      world.a.service.post(documents(kind), { tag: 'once', n }, headers)
    const first = await post(1)
    const again = await post(1)
    expectStatus(first, 201)
    expectStatus(again, 201)
    expect(again.body).toEqual(first.body)
    expect(first.headers.get('idempotent-replayed')).toBeNull()
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    for (const name of ['etag', 'location']) expect(again.headers.get(name)).toBe(first.headers.get(name))
    expectProblem(await post(2), 422, 'idempotency_key_reused')
    expectStatus(await post(2, { 'idempotency-key': word() }), 201)
    expect(list(await world.a.service.get(`${documents(kind)}?tag=eq.once`))).toHaveLength(2)
  })

  test('Idempotency-Key: two concurrent POSTs: one document', async () => {
    const tag = word()
    const sent = () => world.a.service.post(documents(kind), { tag }, { 'idempotency-key': tag })
    const replies = await Promise.all(Array.from({ length: 6 }, sent))
    for (const reply of replies) {
      if (reply.status === 201) continue
      expectProblem(reply, 409)
      expect(Number(reply.headers.get('retry-after'))).toBeGreaterThan(0)
    }
    expect(list(await world.a.service.get(`${documents(kind)}?tag=eq.${tag}`))).toHaveLength(1)
    expectStatus(await sent(), 201)
  })
})

describe('idempotency keys', () => {
  const post = (caller: Caller, key: string, path = documents('undeclared')) =>
    caller.post(path, { tag: 'scoped' }, { 'idempotency-key': key })

  test('idempotency key: other tenant, path or credential: another request', async () => {
    const key = word()
    const first = await post(world.a.service, key)
    const others = [
      await post(world.b.service, key),
      await post(world.a.service, key, documents('elsewhere')),
    ]
    for (const reply of others) {
      expectStatus(reply, 201)
      expect(get(reply, 'id')).not.toBe(get(first, 'id'))
      expect(reply.headers.get('idempotent-replayed')).toBeNull()
    }
  })

  test('idempotency key: 255 characters: accepted; 256: 400', async () => {
    const long = word().padEnd(255, 'x')
    expectStatus(await post(world.a.service, long), 201)
    expectProblem(await post(world.a.service, `${long}x`), 400)
  })
})

describe.each(KINDS)('change events, %s collection', (kind) => {
  test('change events: created, updated, deleted: in order, in the same workspace only', async () => {
    const topic = `collections.${kind}`
    const received = await Stream.open(`/v1/events/subscribe?topic=${topic}.*`, world.a.service)
    const foreign = await Stream.open(`/v1/events/subscribe?topic=${topic}.*`, world.b.service)
    try {
      await received.next(({ event }) => event === 'ready')
      await foreign.next(({ event }) => event === 'ready')
      const [id] = await fill(world.a, kind, [{ tag: 'heard', n: 1 }])
      const path = `${documents(kind)}/${id}`
      expectStatus(await world.a.service.put(path, { n: 2 }), 200)
      expectStatus(await world.a.service.delete(path), 200)
      await received.next(({ data }) => get(data, 'topic') === `${topic}.deleted` && isOf(data, String(id)))
      const events = received.messages().filter(({ data }) => isOf(data, String(id)))
      const verbs = events.map(({ data }) => get(data, 'topic'))
      expect(verbs).toEqual(['created', 'updated', 'deleted'].map((verb) => `${topic}.${verb}`))
      for (const { data, id: position } of events) {
        expect(data).toMatchObject({ specversion: '1.0', id: expect.stringMatching(/^evt_/) })
        expect(JSON.stringify(data)).toContain(world.a.workspace)
        expect(position).toMatch(/\S/)
      }
      expect(foreign.messages()).toEqual([])
    } finally {
      received.close()
      foreign.close()
    }
  })

  test('change events: subscriber reconnects: missed ones once, in order', async () => {
    const path = `/v1/events/subscribe?topic=collections.${kind}.created`
    const first = await Stream.open(path, world.a.service)
    await first.next(({ event }) => event === 'ready')
    const [seen] = await fill(world.a, kind, [{ tag: 'seen' }])
    const last = await first.next(({ data }) => isOf(data, String(seen)))
    first.close()
    const missed = await fill(world.a, kind, [{ tag: 'missed' }, { tag: 'missed' }, { tag: 'missed' }])
    const again = await Stream.open(path, world.a.service, { 'last-event-id': last.id ?? '' })
    try {
      await again.next(({ data }) => isOf(data, missed[2] ?? ''))
      const texts = again.messages().map(({ data }) => JSON.stringify(data))
      expect(texts).toHaveLength(3)
      for (const [at, id] of missed.entries()) expect(texts[at]).toContain(id)
    } finally {
      again.close()
    }
  })

  test('change event: more than 8 KB: complete; refused change: none', async () => {
    const topic = `collections.${kind}.created`
    const received = await Stream.open(`/v1/events/subscribe?topic=${topic}`, world.a.service)
    try {
      await received.next(({ event }) => event === 'ready')
      expectProblem(await world.a.service.post(documents(kind), { tag: 'bad', _x: 1 }), 400)
      const s = word().repeat(2000)
      const [id] = await fill(world.a, kind, [{ tag: 'large', s }])
      const { data } = await received.next((frame) => isOf(frame.data, String(id)))
      expect(JSON.stringify(data)).toContain(s)
      expect(received.messages().filter((frame) => JSON.stringify(frame.data).includes('"bad"'))).toEqual([])
    } finally {
      received.close()
    }
  })
})

function isOf(event: unknown, id: string): boolean {
  return JSON.stringify(event).includes(id)
}

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
