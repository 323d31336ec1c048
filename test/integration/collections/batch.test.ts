/** Batches: several changes in one call, atomic or each by itself. */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { COLLECTION_LIMITS } from '../../../src/features/collections/limits.ts'
import { closeSubscriptions } from '../../support/clients/sse.ts'
import { publishedChanges } from '../../support/fixtures/outbox.ts'
import { limit } from '../../support/fixtures/quotas.ts'
import {
  asSuperuser,
  call,
  connectSuperuser,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let declared: string
beforeAll(async () => {
  workspace = await createTestWorkspace()
  declared = await createCollection({ store: 'relational', ...ARTICLES })
})

/** A collection of articles with unique numbers. */
const ARTICLES = {
  schema: {
    properties: { sku: { type: 'string' }, n: { type: 'integer', maximum: 100 } },
    maxProperties: 5,
  },
  unique: [['sku']],
}

async function createCollection(declaration: object): Promise<string> {
  const collection = unique('c')
  const body = { workspace_id: workspace.workspaceId, collection, ...declaration }
  expect((await call('POST', '/v1/schemas', { as: workspace.operator, body })).status).toBe(201)
  return collection
}

const batch = (collection: string, ops: object[], more: object = {}) =>
  call('POST', `/v1/collections/${collection}/batch`, { as: workspace.service, body: { ops, ...more } })
const readAll = async (collection: string) => {
  const { body } = await call('GET', `/v1/collections/${collection}/documents?page[size]=200`, {
    as: workspace.service,
  })
  return body.data as Record<string, unknown>[]
}
const make = async (collection: string, body: object) =>
  (await call('POST', `/v1/collections/${collection}/documents`, { as: workspace.service, body })).body
    .id as string
afterAll(closeSubscriptions)

type Op = (sku: string) => object

test.each<[string, (update: Op) => object[], object[]]>([
  ['changed', () => [], [{ sku: 'b' }, { sku: 'a', n: 7 }]],
  [
    'changed, and given to another',
    () => [{ op: 'create', data: { sku: 'a', n: 1 } }],
    [{ sku: 'b' }, { sku: 'a', n: 7 }],
  ],
  ['changed, and changed back', (update) => [update('a')], [{ sku: 'a', n: 7 }]],
])(
  'batch: upsert of a unique value that an operation before has %s: finds what has it then',
  async (_, between, expected) => {
    const collection = await createCollection({ store: 'relational', ...ARTICLES })
    const id = await make(collection, { sku: 'a' })
    const update: Op = (sku) => ({ op: 'update', id, data: { sku } })
    const upsert = { op: 'upsert', on: ['sku'], data: { sku: 'a', n: 7 } }
    const reply = await batch(collection, [update('b'), ...between(update), upsert])
    expect([reply.status, reply.body]).toMatchObject([200, { committed: true }])
    expect(await readAll(collection)).toMatchObject(expected)
  },
)

describe.each(['undeclared', 'relational', 'document'])('batch, %s collection', (kind) => {
  let collection: string
  beforeAll(async () => {
    const schema = { properties: { title: { type: 'string' }, n: { type: 'integer' } }, maxProperties: 9 }
    collection = kind === 'undeclared' ? unique('c') : await createCollection({ store: kind, schema })
  })

  test('batch: every op, in one transaction: each op sees the result of the ones before it', async () => {
    const [a, b] = [await make(collection, { n: 1, o: { x: 1 } }), await make(collection, { n: 2 })]
    const reply = await batch(collection, [
      { op: 'create', data: { title: 'new' }, ref: 'first' },
      { op: 'update', id: a, data: { title: 'x' }, unset: ['n'], if_version: 1 },
      { op: 'patch', id: a, data: { o: { x: null, y: 2 } } },
      { op: 'increment', id: a, field: 'n', by: 5 },
      { op: 'increment', id: a, field: 'n' },
      { op: 'update', id: a, data: {} },
      { op: 'replace', id: b, data: { n: 9 }, if_version: 1 },
      { op: 'delete', id: b },
    ])
    expect([reply.status, reply.body.committed]).toEqual([200, true])
    const [made, ...others] = reply.body.results
    expect(made).toMatchObject({ status: 201, ref: 'first', version: 1 })
    expect(others).toEqual([
      ...[2, 3, 4, 5, 5].map((version) => ({ status: 200, id: a, version })),
      ...[2, 2].map((version) => ({ status: 200, id: b, version })),
    ])
    const left = Object.fromEntries((await readAll(collection)).map((document) => [document['id'], document]))
    expect(left[a]).toMatchObject({ title: 'x', n: 6, o: { y: 2 }, _version: 5 })
    expect(left[made.id]).toMatchObject({ title: 'new' })
    expect(left[b]).toBeUndefined()
  })

  test('batch: one op fails: nothing is stored, the reply names the op', async () => {
    const id = await make(collection, { n: 1 })
    const before = [await readAll(collection), await publishedChanges(workspace, collection)]
    const missingId = '019aa0a0-0000-7000-8000-000000000000'
    const FAULTS: readonly [object, string][] = [
      [{ op: 'update', id: missingId, data: { n: 1 } }, 'not_found'],
      [{ op: 'delete', id: 'no uuid' }, 'not_found'],
      [{ op: 'replace', id, data: {}, if_version: 7 }, 'precondition_failed'],
      [{ op: 'increment', id, field: 'title', by: 1, if_version: 9 }, 'precondition_failed'],
      [{ op: 'create', data: { _x: 1 } }, 'validation_failed'],
      [{ op: 'update', id, data: { big: 'x'.repeat(COLLECTION_LIMITS.documentBytesMax) } }, 'body_too_large'],
      [{ op: 'upsert', on: ['n'], data: { n: 1 } }, 'upsert_not_unique'],
      [{ op: 'increment', id, field: 'n', by: 1e308 * 10 }, 'validation_failed'],
    ]
    for (const [fault, code] of FAULTS) {
      const reply = await batch(collection, [
        { op: 'create', data: { n: 2 } },
        { op: 'update', id, data: { n: 3 } },
        fault,
        { op: 'delete', id },
      ])
      expect([code, reply.body.code]).toEqual([code, code])
      if (!JSON.stringify(fault).includes('null')) expect(reply.body.op_index).toBe(2)
      expect([await readAll(collection), await publishedChanges(workspace, collection)]).toEqual(before)
    }
  })

  test('batch: atomic is false, some ops fail: the other ops are applied in order', async () => {
    const id = await make(collection, { n: 1 })
    const { body } = await batch(
      collection,
      [
        { op: 'increment', id, field: 'n', by: 1 },
        { op: 'update', id, data: { n: 9 }, if_version: 1, ref: 'stale' },
        { op: 'delete', id },
        { op: 'delete', id },
      ],
      { atomic: false },
    )
    expect(body.committed).toBe(false)
    expect(body.results).toMatchObject([
      { status: 200, version: 2 },
      { status: 412, ref: 'stale', id, error: { code: 'precondition_failed' } },
      { status: 200, version: 2 },
      { status: 404, error: { code: 'not_found' } },
    ])
  })

  test('batch: concurrent increments of one field: all are counted', async () => {
    const id = await make(collection, { n: 0 })
    const replies = await Promise.all(
      Array.from({ length: 30 }, () => batch(collection, [{ op: 'increment', id, field: 'n', by: 2 }])),
    )
    expect(replies.map(({ status }) => status)).toEqual(Array(30).fill(200))
    const { body } = await call('GET', `/v1/collections/${collection}/documents/${id}`, {
      as: workspace.service,
    })
    expect([body.n, body._version]).toEqual([60, 31])
  })

  test('batch: concurrent batches with the same documents in opposite order: all succeed', async () => {
    const ids = [await make(collection, { n: 0 }), await make(collection, { n: 0 })]
    const update = (id: string | undefined) => ({ op: 'update', id, data: { seen: true } })
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        batch(collection, n % 2 ? [update(ids[0]), update(ids[1])] : [update(ids[1]), update(ids[0])]),
      ),
    )
    expect(replies.map(({ status }) => status)).toEqual(Array(20).fill(200))
  })

  test('batch: 500 ops: accepted; 501 ops: refused', async () => {
    const create = (n: number) => Array.from({ length: n }, (_, i) => ({ op: 'create', data: { n: i } }))
    const { body } = await batch(collection, create(COLLECTION_LIMITS.batchOperationsMax))
    expect(new Set(body.results.map(({ id }: { id: string }) => id)).size).toBe(
      COLLECTION_LIMITS.batchOperationsMax,
    )
    expect((await batch(collection, create(COLLECTION_LIMITS.batchOperationsMax + 1))).body.code).toBe(
      'validation_failed',
    )
    expect((await batch(collection, [])).body.code).toBe('validation_failed')
  })
})

test('batch: ops with missing or superfluous members: every fault is reported at once', async () => {
  const { body } = await batch('x', [
    { op: 'create', id: 'a' },
    { op: 'delete', id: 'a', by: 1 },
    { op: 'increment', id: 'a' },
  ])
  expect(body.errors.map(({ pointer }: { pointer: string }) => pointer)).toEqual([
    '/ops/0/data',
    '/ops/0/id',
    '/ops/1/by',
    '/ops/2/field',
  ])
})

test.each(['relational', 'document'])(
  'batch, %s collection: concurrent upserts of one value: one creates, the others update',
  async (store) => {
    const articles = store === 'relational' ? declared : await createCollection({ store, ...ARTICLES })
    const upsert = (sku: string, data: object) => ({ op: 'upsert', on: ['sku'], data: { sku, ...data } })
    const both = await batch(articles, [upsert('a', { n: 1 }), upsert('a', { n: 2 }), upsert('b', {})])
    expect(both.body.results).toMatchObject([{ status: 201 }, { status: 200, version: 2 }, { status: 201 }])
    const racers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => batch(articles, [upsert('race', { n })])),
    )
    const results = racers.map(({ body }) => body.results?.[0])
    expect(results.filter(({ status }) => status === 201)).toHaveLength(1)
    expect(new Set(results.map(({ id }) => id)).size).toBe(1)
    const conflict = await batch(articles, [
      { op: 'create', data: { sku: 'c' } },
      { op: 'create', data: { sku: 'a' } },
    ])
    expect([conflict.status, conflict.body.code, conflict.body.op_index]).toEqual([
      409,
      'unique_violation',
      1,
    ])
    expect(conflict.body.errors).toMatchObject([{ pointer: '/sku' }])
    const without = await batch(articles, [{ op: 'upsert', on: ['sku'], data: { n: 1 } }])
    expect(without.body.code).toBe('validation_failed')
    const tooMuch = await batch(articles, [{ op: 'increment', id: results[0].id, field: 'n', by: 200 }])
    expect([tooMuch.status, tooMuch.body.code]).toEqual([422, 'schema_violation'])
  },
)

test('batch: ops on declared and undeclared collections: one transaction', async () => {
  const other = unique('c')
  const run = (ops: object[]) => call('POST', '/v1/batch', { as: workspace.service, body: { ops } })
  const make = { collection: other, op: 'create', data: { a: 1 } }
  const refused = await run([make, { collection: declared, op: 'create', data: { n: 101 } }])
  expect([refused.status, refused.body.op_index, await readAll(other)]).toEqual([422, 1, []])
  const conflict = await run([make, { collection: declared, op: 'create', data: { sku: 'b' } }])
  expect([conflict.status, conflict.body.op_index, await readAll(other)]).toEqual([409, 1, []])
  const done = await run([make, { collection: declared, op: 'create', data: { sku: 'z' } }])
  expect([done.status, (await readAll(other)).length]).toEqual([200, 1])
})

test('batch: 150 documents of 250 kB: committed, with a result for each', async () => {
  const collection = unique('c')
  const ids: string[] = []
  for (let n = 0; n < 150; n++) ids.push(await make(collection, { text: 'x'.repeat(250_000) }))
  const { status, body } = await batch(
    collection,
    ids.map((id) => ({ op: 'update', id, data: { seen: true } })),
  )
  expect([status, body.results?.length]).toEqual([200, 150])
})

describe('batch of an op that changes nothing and has if_version, then a create', () => {
  const SAME = { k: 'a', n: 1 }
  const OPS = {
    'update of nothing': { op: 'update', data: {} },
    'same update': { op: 'update', data: SAME },
    'same patch': { op: 'patch', data: { n: 1, absent: null } },
    'same replace': { op: 'replace', data: SAME },
    'increment by 0': { op: 'increment', field: 'n', by: 0 },
  } as const
  const access = { user: { read: { n: { gte: 0 } }, create: true, update: { n: { gte: 0 } } } }
  const RELATIONAL = {
    ...{ store: 'relational', access },
    schema: { properties: { k: { type: 'string' }, n: { type: 'integer' } }, maxProperties: 5 },
  }
  const PLACES = [
    ['service key, undeclared', undefined, 'service'],
    ['service key, schema', RELATIONAL, 'service'],
    ['user with rules', RELATIONAL, 'user'],
  ] as const

  // Tables count their documents only for a quota that is set.
  beforeAll(() => limit(workspace, { documents: 100_000 }))

  test.each(PLACES)(
    '%s: until the commit no other writer changes the document',
    async (_, declared, role) => {
      const collection = declared === undefined ? unique('c') : await createCollection(declared)
      const [row] = await asSuperuser<{ relation: string }>(
        'select relation from tenon.schemas where collection = $1',
        [collection],
      )
      const table = row === undefined ? 'tenon.documents' : `tenon_data."${row.relation}"`
      const as = role === 'user' ? await userToken(workspace, 'mia') : workspace.service
      const blocker = await connectSuperuser(inject('tenon'))
      const lock = `tenon.quota_lock('${workspace.tenantId}', '${workspace.workspaceId}', 'documents')`
      try {
        for (const [name, op] of Object.entries(OPS)) {
          const id = await make(collection, SAME)
          await blocker.query(`select pg_advisory_lock(${lock})`)
          const ops = [
            { ...op, id, if_version: 1 },
            { op: 'create', data: { k: 'b' } },
          ]
          const reply = call('POST', `/v1/collections/${collection}/batch`, { as, body: { ops } })
          // The first op is done, and the create waits for the quota.
          await eventually(async () => {
            const waiting = await asSuperuser(
              `select from pg_locks where not granted and (classid::bigint << 32 | objid::bigint) = ${lock}`,
            )
            return waiting.length > 0 || undefined
          })
          const change = asSuperuser(`select from ${table} where id = $1 for no key update nowait`, [id])
          const other = await change.catch(({ code }) => code)
          await blocker.query(`select pg_advisory_unlock(${lock})`)
          const { body } = await reply
          expect([name, other, body.results?.[0]]).toEqual([name, '55P03', { status: 200, id, version: 1 }])
        }
      } finally {
        await blocker.end()
      }
    },
  )
})
