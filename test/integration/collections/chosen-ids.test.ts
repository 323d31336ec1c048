/** Documents under ids of the caller's choice, and those that are found by unique fields or made: in both stores, for each caller. */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { createIn, declaredWithRules } from '../../support/fixtures/access-rules.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { mongoUnavailableReason } from '../../support/stack/ferretdb.ts'
import { startMongoApi } from '../../support/stack/mongo-api.ts'

const missing = await mongoUnavailableReason()
if (missing !== undefined) console.warn(`Chosen ids over MongoDB are not tested: ${missing}.`)
const STORES = missing === undefined ? (['PostgreSQL', 'MongoDB'] as const) : (['PostgreSQL'] as const)

let workspace: TestWorkspace
let mongo: Awaited<ReturnType<typeof startMongoApi>> | undefined
beforeAll(async () => {
  workspace = await createTestWorkspace()
  if (missing === undefined) mongo = await startMongoApi()
})
afterAll(() => mongo?.stop())

const NEW = { 'if-none-match': '*' }
const path = (collection: string, id: string) => `/v1/collections/${collection}/documents/${id}`

describe.each(STORES)('PUT with If-None-Match: *, %s', (store) => {
  const at = () => (store === 'MongoDB' ? (mongo?.running ?? inject('tenon')) : inject('tenon'))
  const put = (
    collection: string,
    id: string,
    body: object,
    headers: Record<string, string> = NEW,
    as?: Caller,
  ) => call('PUT', path(collection, id), { as: as ?? workspace.service, at: at(), body, headers })

  test('missing document: 201 with its address; then 412, and nothing is changed', async () => {
    const [collection, id] = [unique('c'), crypto.randomUUID()]
    const made = await put(collection, id.toUpperCase(), { n: 1 })
    expect([made.status, made.body]).toEqual([201, expect.objectContaining({ id, n: 1, _version: 1 })])
    expect([made.headers.get('location'), made.headers.get('etag')]).toEqual([path(collection, id), '"v1"'])
    const again = await put(collection, id, { n: 2 })
    expect([again.status, again.body.code, again.body.detail]).toEqual([
      ...[412, 'precondition_failed', 'There is a document of this id.'],
    ])
    const read = await call('GET', path(collection, id), { as: workspace.service, at: at() })
    expect(read.body).toEqual(made.body)
    const changed = await put(collection, id, { n: 3 }, {})
    expect([changed.status, changed.body._version, changed.headers.get('location')]).toEqual([200, 2, null])
  })

  test('without the header: a missing document is 404; an id that is no UUID, or a condition on a document: 400', async () => {
    const id = crypto.randomUUID()
    expect((await put('c', id, { n: 1 }, {})).status).toBe(404)
    expect((await put('c', id, { n: 1 }, { 'if-match': '*' })).status).toBe(404)
    for (const [one, headers, body] of [
      ['mine', NEW, {}],
      [id, { ...NEW, 'if-match': '"v1"' }, {}],
      [id, NEW, { _version: 1 }],
    ] as const) {
      const reply = await put('c', one, body, headers)
      expect([reply.status, reply.body.code], JSON.stringify(reply.body)).toEqual([400, 'validation_failed'])
    }
    const unset = await call('PUT', `${path('c', id)}?unset=a`, {
      as: workspace.service,
      at: at(),
      body: {},
      headers: NEW,
    })
    expect(unset.status).toBe(400)
    expect((await call('GET', path('c', id), { as: workspace.service, at: at() })).status).toBe(404)
  })

  test('twenty at once: one creates, all others are refused', async () => {
    const [collection, id] = [unique('c'), crypto.randomUUID()]
    const replies = await Promise.all(Array.from({ length: 20 }, (_, n) => put(collection, id, { n })))
    const made = replies.filter(({ status }) => status === 201)
    expect([made.length, new Set(replies.map(({ status }) => status))]).toEqual([1, new Set([201, 412])])
    const read = await call('GET', path(collection, id), { as: workspace.service, at: at() })
    expect(read.body).toEqual(made[0]?.body)
  })

  test('Idempotency-Key: a repetition gets the reply of the first; another request under the same id is 412', async () => {
    const [collection, id, key] = [unique('c'), crypto.randomUUID(), unique('key')]
    const first = await put(collection, id, { n: 1 }, { ...NEW, 'idempotency-key': key })
    const again = await put(collection, id, { n: 1 }, { ...NEW, 'idempotency-key': key })
    expect([again.status, again.body, again.headers.get('location')]).toEqual([
      201,
      first.body,
      path(collection, id),
    ])
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    const other = await put(collection, id, { n: 1 }, { ...NEW, 'idempotency-key': unique('key') })
    expect(other.status).toBe(412)
    const changed = await put(collection, id, { n: 2 }, { 'idempotency-key': unique('key') })
    expect([changed.status, changed.body._version]).toEqual([200, 2])
  })
})

/** As if the process had died between the change in MongoDB and the note that it was made. */
const cutOff = () =>
  asSuperuser(
    `update tenon.idempotency set status = null, reply = null, done = false, held_until = now() - interval '1 second'
     where workspace_id = $1`,
    [workspace.workspaceId],
  )

describe.skipIf(missing !== undefined)(
  'PUT with If-None-Match: * and an Idempotency-Key, cut off in MongoDB',
  () => {
    const at = () => mongo?.running ?? inject('tenon')
    const put = (id: string, key: string) => {
      const headers = { ...NEW, 'idempotency-key': key }
      return call('PUT', path('cut', id), { as: workspace.service, at: at(), body: { n: 1 }, headers })
    }

    test('its own document: 201 with it', async () => {
      const [id, key] = [crypto.randomUUID(), unique('key')]
      const first = await put(id, key)
      await cutOff()
      const again = await put(id, key)
      expect([again.status, again.body]).toEqual([201, first.body])
    })

    test('a document of another request: 412', async () => {
      const [id, key] = [crypto.randomUUID(), unique('key')]
      await put(id, key)
      await call('DELETE', path('cut', id), { as: workspace.service, at: at() })
      const other = await put(id, unique('key'))
      await cutOff()
      expect((await put(id, key)).status).toBe(412)
      const read = await call('GET', path('cut', id), { as: workspace.service, at: at() })
      expect(read.body).toEqual(other.body)
    })
  },
)

describe('rules', () => {
  const mine = { _owner: '$user.id' }

  test('create rule: decides as for POST; the creator owns the document', async () => {
    const { collection } = await declaredWithRules(workspace, {
      user: { read: mine, create: { status: 'open' }, update: mine },
    })
    const mia = await userToken(workspace, 'mia')
    const put = (id: string, body: object, as = mia) =>
      call('PUT', path(collection, id), { as, body, headers: NEW })
    const id = crypto.randomUUID()
    expect((await put(id, { status: 'closed' })).status).toBe(403)
    const made = await put(id, { status: 'open' })
    expect([made.status, made.body._owner]).toEqual([201, 'mia'])
    // A hidden document has its id as it has its unique values: nothing else of it is told, and nothing changed.
    const ben = await userToken(workspace, 'ben')
    const refused = await put(id, { status: 'open' }, ben)
    expect([refused.status, refused.body.code]).toEqual([412, 'precondition_failed'])
    expect(refused.headers.get('etag')).toBeNull()
    const read = await call('GET', path(collection, id), { as: mia })
    expect(read.body).toEqual(made.body)
  })

  test('create without the right to read: what was written, once', async () => {
    const { collection } = await declaredWithRules(workspace, { user: { create: true } })
    const mia = await userToken(workspace, 'mia')
    const id = crypto.randomUUID()
    const put = () => call('PUT', path(collection, id), { as: mia, body: { title: 'a' }, headers: NEW })
    const made = await put()
    expect([made.status, made.body]).toEqual([201, expect.objectContaining({ id, title: 'a' })])
    expect((await put()).status).toBe(412)
  })

  test('no right to create: 403, whether or not the document exists', async () => {
    const { collection, at } = await declaredWithRules(workspace, { user: { read: true, update: true } })
    const mia = await userToken(workspace, 'mia')
    const { id } = (await createIn(at, workspace.service, { title: 'a' })).body
    for (const one of [id, crypto.randomUUID()])
      expect((await call('PUT', path(collection, one), { as: mia, body: {}, headers: NEW })).status).toBe(403)
    expect((await call('PUT', path(collection, id), { as: mia, body: { title: 'b' } })).status).toBe(200)
  })

  test('another workspace: the same id is free', async () => {
    const other = await createTestWorkspace()
    const id = crypto.randomUUID()
    const put = (as: Caller) => call('PUT', path('shared', id), { as, body: {}, headers: NEW })
    expect([(await put(workspace.service)).status, (await put(other.service)).status]).toEqual([201, 201])
  })
})

describe('POST with upsert', () => {
  let people: string
  beforeAll(async () => {
    people = unique('people')
    const body = {
      ...{ workspace_id: workspace.workspaceId, collection: people, store: 'relational' },
      schema: {
        type: 'object',
        properties: { email: { type: 'string' }, team: { type: 'string' }, n: { type: 'integer' } },
      },
      unique: [['email'], ['team', 'n']],
    }
    expect((await call('POST', '/v1/schemas', { as: workspace.operator, body })).status).toBe(201)
  })
  const post = (query: string, body: object, headers = {}) =>
    call('POST', `/v1/collections/${people}/documents?${query}`, { as: workspace.service, body, headers })

  test('no such document: 201 with its address; else 200, and other fields stay', async () => {
    const email = `${unique('ada')}@example.com`
    const made = await post('upsert=email', { email, team: 'red' })
    expect([made.status, made.headers.get('location')]).toEqual([201, path(people, made.body.id)])
    const found = await post('upsert=email', { email, seen: true })
    expect([found.status, found.headers.get('location'), found.headers.get('etag')]).toEqual([
      200,
      null,
      '"v2"',
    ])
    expect(found.body).toMatchObject({ id: made.body.id, email, team: 'red', seen: true, _version: 2 })
    const both = await post('upsert=n,team', { team: unique('t'), n: 1 })
    expect(both.status).toBe(201)
  })

  test.each([
    ['upsert=team', { team: 'a' }, 'upsert_not_unique'],
    ['upsert=email', { team: 'a' }, 'validation_failed'],
    ['upsert=a.b', { a: { b: 1 } }, 'validation_failed'],
    ['upsert=id', {}, 'validation_failed'],
    ['upsert=', {}, 'validation_failed'],
  ])('%s of %j: 400 %s', async (query, body, code) => {
    const reply = await post(query, body)
    expect([reply.status, reply.body.code]).toEqual([400, code])
  })

  test('Idempotency-Key: a repetition gets the first reply, with its status', async () => {
    const email = `${unique('ada')}@example.com`
    const headers = { 'idempotency-key': unique('key') }
    const first = await post('upsert=email', { email }, headers)
    const again = await post('upsert=email', { email }, headers)
    expect([again.status, again.body, again.headers.get('idempotent-replayed')]).toEqual([
      201,
      first.body,
      'true',
    ])
  })

  test('rules: needs the rights to read, create and update', async () => {
    const rights = { read: true, create: true, update: { _owner: '$user.id' } }
    const { collection } = await declaredWithRules(workspace, { user: rights }, { unique: [['title']] })
    const [mia, ben] = [await userToken(workspace, 'mia'), await userToken(workspace, 'ben')]
    const upsert = (as: Caller) =>
      call('POST', `/v1/collections/${collection}/documents?upsert=title`, {
        as,
        body: { title: 'a', level: 1 },
      })
    expect([(await upsert(mia)).status, (await upsert(mia)).status, (await upsert(ben)).status]).toEqual([
      201, 200, 403,
    ])
    const without = await declaredWithRules(
      workspace,
      { user: { read: true, create: true } },
      { unique: [['title']] },
    )
    const refused = await call('POST', `${without.at}/documents?upsert=title`, {
      as: mia,
      body: { title: 'a' },
    })
    expect(refused.status).toBe(403)
  })
})
