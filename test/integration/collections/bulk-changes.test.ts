/** Bulk changes: all documents that match a filter, each validated, within the rights of the caller, once. */

import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { COLLECTION_LIMITS } from '../../../src/features/collections/limits.ts'
import {
  closeSubscriptions,
  messages,
  receivedAtLeast,
  subscribeToEvents,
} from '../../support/clients/sse.ts'
import { startBulkNode } from '../../support/fixtures/bulk-changes.ts'
import {
  addTestWorkspace,
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'

afterEach(closeSubscriptions)

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const DONE = { prefer: 'wait=30' }
type Fields = Record<string, unknown>

const path = (collection: string, rest: string) => `/v1/collections/${collection}/${rest}`
const send = (
  collection: string,
  verb: 'update-many' | 'delete-many',
  body: object,
  as: Caller = workspace.service,
) => call('POST', path(collection, verb), { as, body, headers: DONE })

async function documentsOf(collection: string): Promise<Fields[]> {
  const all: Fields[] = []
  for (let after = ''; ; ) {
    const query = `documents?page[size]=100${after && `&page[after]=${after}`}`
    const { body } = await call('GET', path(collection, query), { as: workspace.service })
    all.push(...body.data)
    if (body.page.next === null) return all
    after = body.page.next
  }
}

/** @returns the id of the schema, which names its table */
async function declare(collection: string, body: object): Promise<string> {
  const { status, body: made } = await call('POST', '/v1/schemas', {
    as: workspace.operator,
    body: { workspace_id: workspace.workspaceId, collection, store: 'relational', ...body },
  })
  expect(status).toBe(201)
  return made.id
}

async function fill(
  collection: string,
  documents: readonly Fields[],
  as = workspace.service,
): Promise<string[]> {
  const ids: string[] = []
  for (let from = 0; from < documents.length; from += 500) {
    const ops = documents.slice(from, from + 500).map((data) => ({ op: 'create', data }))
    const { status, body } = await call('POST', path(collection, 'batch'), { as, body: { ops } })
    expect(status).toBe(200)
    ids.push(...body.results.map(({ id }: { id: string }) => id))
  }
  return ids
}

const numbered = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ n, kind: n % 3 === 0 ? 'a' : 'b' }))

describe.each(['declared', 'undeclared'])('%s collection', (kind) => {
  const collectionOf = async () => {
    const collection = unique('bulk')
    if (kind === 'declared')
      await declare(collection, {
        schema: { properties: { n: { type: 'integer' }, kind: { type: 'string' } } },
      })
    return collection
  }

  test('update-many: changes those that match, several batches of them, and no other; what has the value already is not counted', async () => {
    const collection = await collectionOf()
    const ids = await fill(collection, [...numbered(750), { n: 1, kind: 'done' }])
    const filter = { $or: [{ kind: 'a' }, { kind: 'done' }] }
    const { status, body } = await send(collection, 'update-many', {
      filter,
      data: { kind: 'done' },
      unset: ['x'],
    })
    expect([status, body]).toMatchObject([
      202,
      {
        collection,
        verb: 'update',
        status: 'completed',
        matched: 251,
        changed: 250,
        failed: 0,
        failures: [],
        error: null,
      },
    ])
    const after = await documentsOf(collection)
    expect(after).toHaveLength(ids.length)
    for (const { n, kind: now, _version } of after) {
      const was = n === 1 && now === 'done' ? 'done' : (n as number) % 3 === 0 ? 'a' : 'b'
      expect([now, _version]).toEqual(was === 'a' ? ['done', 2] : [was, 1])
    }
  })

  test('delete-many: deletes those that match, and leaves the others', async () => {
    const collection = await collectionOf()
    await fill(collection, numbered(60))
    const { body } = await send(collection, 'delete-many', { filter: { kind: 'b', n: { gte: 30 } } })
    expect(body).toMatchObject({ verb: 'delete', status: 'completed', matched: 20, changed: 20, failed: 0 })
    const left = (await documentsOf(collection)).map(({ n }) => n)
    expect(left).toEqual(numbered(60).flatMap(({ n, kind: one }) => (one === 'b' && n >= 30 ? [] : [n])))
  })

  test('dry run and max_documents: say how many match, and change nothing; an empty filter needs all', async () => {
    const collection = await collectionOf()
    const ids = await fill(collection, numbered(9))
    const filter = { kind: 'a' }
    const previewed = await send(collection, 'delete-many', { filter, dry_run: true })
    expect([previewed.status, previewed.body]).toEqual([
      200,
      { dry_run: true, matched: 3, sample: [ids[0], ids[3], ids[6]] },
    ])
    const refused = await send(collection, 'delete-many', { filter, max_documents: 2 })
    expect([refused.status, refused.body]).toMatchObject([409, { code: 'too_many_matches', matched: 3 }])
    const empty = await send(collection, 'update-many', { filter: {}, data: { n: 1 } })
    expect([empty.status, empty.body]).toMatchObject([400, { code: 'validation_failed' }])
    expect(await documentsOf(collection)).toHaveLength(9)
    const all = await send(collection, 'delete-many', { filter: {}, all: true, max_documents: 9 })
    expect(all.body).toMatchObject({ status: 'completed', changed: 9 })
    expect(await documentsOf(collection)).toEqual([])
  })

  test.each([
    ['no change', { filter: { n: 1 } }],
    ['a field in both', { filter: { n: 1 }, data: { n: 1 }, unset: ['n'] }],
    ['a reserved field', { filter: { n: 1 }, data: { _version: 1 } }],
    ['an unknown operator', { filter: { n: { near: 1 } }, data: { n: 1 } }],
    ['an unknown member', { filter: { n: 1 }, data: { n: 1 }, limit: 3 }],
    ['max_documents 0', { filter: { n: 1 }, data: { n: 1 }, max_documents: 0 }],
  ])('update-many with %s: 400, and no bulk change is recorded', async (_what, body) => {
    const collection = await collectionOf()
    await fill(collection, numbered(2))
    expect((await send(collection, 'update-many', body)).status).toBe(400)
    const { body: listed } = await call('GET', path(collection, 'bulk-changes'), { as: workspace.service })
    expect(listed.data).toEqual([])
  })
})

test('update-many with operators: each is applied once to each document; those that cannot take it are listed', async () => {
  const collection = unique('bulk')
  const ids = await fill(collection, [
    ...numbered(300).map((one) => ({ ...one, shop: { visits: 1 }, tags: ['a'] })),
    { n: 300, shop: { visits: 'many' } },
  ])
  const { body } = await send(collection, 'update-many', {
    ...{ filter: { n: { gte: 100 } }, inc: { 'shop.visits': 2 }, push: { tags: 'b' }, now: ['seen_at'] },
  })
  expect(body).toMatchObject({
    matched: 201,
    changed: 200,
    failures: [{ id: ids[300], code: 'state_conflict' }],
  })
  for (const { n, shop, tags, seen_at, _version } of await documentsOf(collection)) {
    if ((n as number) < 100)
      expect([shop, tags, seen_at, _version]).toEqual([{ visits: 1 }, ['a'], undefined, 1])
    else if (n === 300) expect([shop, tags, _version]).toEqual([{ visits: 'many' }, undefined, 1])
    else expect([shop, tags, seen_at, _version]).toEqual([{ visits: 3 }, ['a', 'b'], expect.any(String), 2])
  }
})

test('documents that the schema or a reference protects: are listed with the reason, and the others are changed', async () => {
  const [parents, children] = [unique('parents'), unique('children')]
  await declare(parents, {
    mode: 'enforce',
    schema: { properties: { n: { type: 'integer' }, max: { type: 'integer' } }, required: ['n'] },
  })
  await declare(children, {
    schema: { properties: { parent_id: { type: 'string', format: 'uuid' } } },
    references: [{ field: 'parent_id', collection: parents }],
  })
  const ids = await fill(
    parents,
    Array.from({ length: 40 }, (_, n) => ({ n })),
  )
  await fill(children, [{ parent_id: ids[7] }, { parent_id: ids[31] }])
  const { body } = await send(parents, 'delete-many', { filter: {}, all: true })
  expect(body).toMatchObject({ status: 'completed', matched: 40, changed: 38, failed: 2 })
  expect(body.failures).toMatchObject([
    { id: ids[7], code: 'reference_in_use' },
    { id: ids[31], code: 'reference_in_use' },
  ])
  expect((await documentsOf(parents)).map(({ id }) => id)).toEqual([ids[7], ids[31]])
  const unset = await send(parents, 'update-many', { filter: { n: 7 }, unset: ['n'] })
  expect(unset.body).toMatchObject({
    matched: 1,
    changed: 0,
    failures: [{ id: ids[7], code: 'schema_violation' }],
  })
})

test('user: changes the own documents alone, and sees the own bulk changes; an anon key makes none', async () => {
  const collection = unique('notes')
  const own = { _owner: '$user.id' }
  await declare(collection, {
    schema: { properties: { text: { type: 'string' } } },
    access: { user: { read: true, create: true, update: own, delete: own } },
  })
  const [mia, leo] = await Promise.all([userToken(workspace, 'mia'), userToken(workspace, 'leo')])
  const [ofMia = [], ofLeo = []] = [
    await fill(collection, [{ text: 'a' }, { text: 'a' }], mia),
    await fill(collection, [{ text: 'a' }], leo),
  ]
  const { body } = await send(collection, 'update-many', { filter: { text: 'a' }, data: { text: 'b' } }, mia)
  expect(body).toMatchObject({
    status: 'completed',
    matched: 3,
    changed: 2,
    failures: [{ id: ofLeo[0], code: 'forbidden' }],
  })
  const texts = (await documentsOf(collection)).map(({ id, text }) => [id, text])
  expect(texts).toEqual([...ofMia.map((id) => [id, 'b']), ...ofLeo.map((id) => [id, 'a'])])
  const one = path(collection, `bulk-changes/${body.id}`)
  for (const [as, status] of [
    [mia, 200],
    [workspace.service, 200],
    [leo, 404],
    [workspace.anon, 403],
  ] as const)
    expect((await call('GET', one, { as })).status).toBe(status)
  expect((await call('POST', `${one}/cancel`, { as: leo })).status).toBe(404)
  expect((await send(collection, 'delete-many', { filter: { text: 'b' } }, workspace.anon)).status).toBe(403)
})

test('another workspace: finds no bulk change of this one', async () => {
  const [collection, other] = [unique('bulk'), await createTestWorkspace()]
  await fill(collection, numbered(1))
  const { body } = await send(collection, 'update-many', { filter: { n: 0 }, data: { n: 1 } })
  const one = path(collection, `bulk-changes/${body.id}`)
  expect((await call('GET', one, { as: other.service })).status).toBe(404)
  expect((await call('POST', `${one}/cancel`, { as: other.service })).status).toBe(404)
})

test('documents that come after the request are not changed, also if they match; cancelled: nothing more is changed', async () => {
  const collection = unique('bulk')
  await fill(collection, numbered(3_000))
  const begun = await call('POST', path(collection, 'delete-many'), {
    as: workspace.service,
    body: { filter: {}, all: true },
  })
  expect([begun.status, begun.body]).toMatchObject([202, { ended_at: null }])
  const [late] = await fill(collection, [{ n: -1 }])
  const one = path(collection, `bulk-changes/${begun.body.id}`)
  const cancelled = await call('POST', `${one}/cancel`, { as: workspace.service })
  expect(['cancelled', 'completed']).toContain(cancelled.body.status)
  const left = await documentsOf(collection)
  expect(left.at(-1)?.['id']).toBe(late)
  const { body: now } = await call('GET', one, { as: workspace.service })
  expect(now.changed + left.length).toBe(3_001)
  expect((await documentsOf(collection)).length).toBe(left.length)
})

test('documents of some size: are deleted in smaller groups', async () => {
  const collection = unique('bulk')
  const text = 'x'.repeat(200_000)
  for (let from = 0; from < 200; from += 20) {
    const ops = Array.from({ length: 20 }, (_, n) => ({ op: 'create', data: { n: from + n, text } }))
    const { status } = await call('POST', path(collection, 'batch'), { as: workspace.service, body: { ops } })
    expect(status).toBe(200)
  }
  const { body } = await send(collection, 'delete-many', { filter: {}, all: true })
  expect(body).toMatchObject({ status: 'completed', matched: 200, changed: 200, error: null })
})

test('three workers at the same bulk change: each document is changed once', async () => {
  const collection = unique('bulk')
  const node = await startBulkNode(workspace)
  try {
    await fill(collection, numbered(600))
    const { body: begun } = await call('POST', path(collection, 'update-many'), {
      as: workspace.service,
      body: { filter: {}, all: true, data: { kind: 'c' } },
    })
    const work = async () => {
      while ((await node.make(begun.id)) === 'more');
    }
    await Promise.all([work(), work()])
    const one = path(collection, `bulk-changes/${begun.id}`)
    const { body } = await call('GET', one, { as: workspace.service })
    expect(body).toMatchObject({ status: 'completed', matched: 600, changed: 600, failed: 0 })
    const versions = (await documentsOf(collection)).map(({ _version, kind }) => [_version, kind])
    expect(versions).toEqual(Array.from({ length: 600 }, () => [2, 'c']))
  } finally {
    await node.close()
  }
})

test('request repeated with its Idempotency-Key: one bulk change', async () => {
  const collection = unique('bulk')
  await fill(collection, numbered(3))
  const key = { 'idempotency-key': unique('key'), ...DONE }
  const again = () =>
    call('POST', path(collection, 'update-many'), {
      as: workspace.service,
      body: { filter: {}, all: true, data: { n: 5 } },
      headers: key,
    })
  const [first, second] = [await again(), await again()]
  expect(second.body.id).toBe(first.body.id)
  const { body } = await call('GET', path(collection, 'bulk-changes'), { as: workspace.service })
  expect(body.data).toHaveLength(1)
})

test('suspended workspace: an attempt at a bulk change is no failure, however long it lasts', async () => {
  const of = await createTestWorkspace()
  const collection = unique('bulk')
  await fill(collection, numbered(5), of.service)
  const node = await startBulkNode(of)
  try {
    const id = await node.record({ collection, request: { filter: {}, data: { n: 9 } } })
    const state = (to: string) =>
      call('POST', `/v1/workspaces/${of.workspaceId}/${to}`, { as: of.operator, body: {} })
    expect((await state('suspend')).status).toBeLessThan(300)
    await eventually(async () => {
      const { body } = await call('GET', `/v1/workspaces/${of.workspaceId}`, { as: of.operator })
      return body.state === 'suspended' || undefined
    })
    expect(await node.make(id)).toBe('suspended')
    expect((await state('resume')).status).toBeLessThan(300)
    await eventually(async () => ((await node.make(id)) === 'ended' ? true : undefined))
    const { body } = await call('GET', path(collection, `bulk-changes/${id}`), { as: of.service })
    expect(body).toMatchObject({ status: 'completed', changed: 5 })
  } finally {
    await node.close()
  }
})

test('suspended workspace: the bulk change waits, and goes on when it is resumed', async () => {
  const of = await createTestWorkspace()
  const collection = unique('bulk')
  await fill(collection, numbered(20), of.service)
  const state = (to: string) =>
    call('POST', `/v1/workspaces/${of.workspaceId}/${to}`, { as: of.operator, body: {} })
  const begun = await call('POST', path(collection, 'update-many'), {
    as: of.service,
    body: { filter: {}, all: true, data: { n: 99 } },
  })
  expect([begun.status, begun.body]).toMatchObject([202, {}])
  expect((await state('suspend')).status).toBeLessThan(300)
  expect((await state('resume')).status).toBeLessThan(300)
  const ended = await eventually(async () => {
    const one = path(collection, `bulk-changes/${begun.body.id}`)
    const { body } = await call('GET', one, { as: of.service })
    return body.ended_at ? body : undefined
  }, 120_000)
  expect(ended).toMatchObject({ status: 'completed', matched: 20, changed: 20 })
})

/** Lets PostgreSQL fail as if it took too long (57014), as the body of a function decides, while work goes on. */
async function whileSlow(body: string, attach: string, work: () => Promise<void>): Promise<void> {
  const name = unique('slow').replace('-', '_')
  const fail = "raise exception 'slow' using errcode = '57014'"
  await asSuperuser(body.replaceAll('$name', name).replace('$fail', fail))
  try {
    await asSuperuser(attach.replaceAll('$name', name))
    await work()
  } finally {
    await asSuperuser(`drop function public.${name} cascade`)
  }
}

test('documents that take too long together: are changed in smaller groups', async () => {
  const collection = unique('bulk')
  const id = await declare(collection, { schema: { properties: { n: { type: 'integer' } } } })
  await fill(collection, numbered(60))
  const body = `create function public.$name() returns trigger language plpgsql as $$ begin
    perform set_config('test.changed', (coalesce(nullif(current_setting('test.changed', true), ''), '0')::int + 1)::text, true);
    if current_setting('test.changed')::int > 20 then $fail; end if;
    return new; end $$`
  const attach = `create trigger slow before update on tenon_data."${id}" for each row execute function public.$name()`
  await whileSlow(body, attach, async () => {
    const { body: made } = await send(collection, 'update-many', { filter: {}, all: true, data: { n: -1 } })
    expect(made).toMatchObject({ status: 'completed', matched: 60, changed: 60, failed: 0 })
  })
})

test('query for the documents that takes too long: ends the bulk change, which names the index to declare', async () => {
  const collection = unique('bulk')
  const id = await declare(collection, { schema: { properties: { kind: { type: 'string' } } } })
  await fill(collection, numbered(3))
  const body = 'create function public.$name() returns boolean language plpgsql as $$ begin $fail; end $$'
  const attach = `create policy slow on tenon_data."${id}" as restrictive for select to tenon_service using (public.$name())`
  await whileSlow(body, attach, async () => {
    const { body: made } = await send(collection, 'delete-many', { filter: { kind: 'a' } })
    expect(made).toMatchObject({
      ...{ status: 'failed', matched: 0, changed: 0 },
      error: { code: 'query_timeout', detail: expect.stringContaining('an index on kind') },
    })
  })
})

test('documents that come to match after they were counted: the bulk change ends before it exceeds max_documents', async () => {
  const collection = unique('bulk')
  await fill(collection, numbered(150))
  const node = await startBulkNode(workspace)
  try {
    const request = { filter: {}, data: { kind: 'c' } }
    const [enough, few] = [
      await node.record({ collection, request, max_documents: 150 }),
      await node.record({ collection, request: { ...request, data: { kind: 'd' } }, max_documents: 120 }),
    ]
    expect(await node.make(enough)).toBe('ended')
    await expect(node.make(few)).rejects.toMatchObject({ code: 'too_many_matches' })
    const { body } = await call('GET', path(collection, `bulk-changes/${few}`), { as: workspace.service })
    expect(body).toMatchObject({ matched: 100, changed: 100 })
  } finally {
    await node.close()
  }
})

test('filter with as many tests and levels as there may be: is made', async () => {
  const collection = unique('bulk')
  await fill(collection, numbered(60))
  const tests = Array.from({ length: COLLECTION_LIMITS.filtersMax }, (_, n) => ({ n }))
  const nested = Array.from({ length: COLLECTION_LIMITS.filterDepthMax - 1 }).reduce<object>(
    (filter) => ({ $and: [filter] }),
    { $or: tests },
  )
  const { body } = await send(collection, 'update-many', { filter: nested, data: { kind: 'c' } })
  expect(body).toMatchObject({ status: 'completed', matched: tests.length, changed: tests.length })
})

test('bulk changes that complete and are cancelled: one event each, after those of the documents, for keys of the workspace alone', async () => {
  const workspace = await createTestWorkspace()
  const sibling = await addTestWorkspace(workspace)
  const topics = 'topic=platform.bulk_change.*,collections.chores.*'
  const [own, other] = await Promise.all([
    subscribeToEvents(workspace.service, topics),
    subscribeToEvents(sibling.service, topics),
  ])
  const user = await userToken(workspace, 'uma')
  const refused = await call('GET', `/v1/events/subscribe?${topics}`, { as: user })
  expect([refused.status, refused.body.code]).toEqual([403, 'forbidden'])
  const as = workspace.service
  const ops = [1, 2, 3].map((n) => ({ op: 'create', data: { n } }))
  await call('POST', path('chores', 'batch'), { as, body: { ops } })
  const body = { filter: { n: { gt: 1 } } }
  const { body: deleted } = await call('POST', path('chores', 'delete-many'), { as, body, headers: DONE })
  const node = await startBulkNode(workspace)
  const id = await node.record({ collection: 'chores', request: { filter: {} } })
  await call('POST', path('chores', `bulk-changes/${id}/cancel`), { as })
  await call('POST', path('chores', `bulk-changes/${id}/cancel`), { as })
  const received = await receivedAtLeast(own, 7)
  await node.close()
  expect(received.map(({ data }) => data.type.split('.').slice(-2).join('.'))).toEqual([
    ...['chores.created', 'chores.created', 'chores.created', 'chores.deleted', 'chores.deleted'],
    ...['bulk_change.completed', 'bulk_change.cancelled'],
  ])
  expect(received[5]?.data.data).toEqual({
    ...{ bulk_change: deleted.id, collection: 'chores', verb: 'delete', status: 'completed' },
    ...{ matched: 2, changed: 2, failed: 0 },
    created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:]+\.\d{3}Z$/),
    ended_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:]+\.\d{3}Z$/),
  })
  expect(received[6]?.data.data).toMatchObject({ bulk_change: id, status: 'cancelled', changed: 0 })
  expect(messages(other)).toEqual([])
})
