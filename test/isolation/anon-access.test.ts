/** Access of anon keys to declared collections: exactly what `access` allows, through every operation. */

import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { post, simulateCrash } from '../support/clients/idempotency.ts'
import {
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  unique,
} from '../support/fixtures/tenants.ts'
import { openCollectionsToAnon } from '../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
  // The setting opens undeclared collections, so that only the declaration can refuse.
  await openCollectionsToAnon(workspace)
})

interface DeclaredCollection {
  readonly id: string
  readonly collection: string
  readonly at: string
}

async function declareCollection(anon: object, more: object = {}): Promise<DeclaredCollection> {
  const collection = unique('c')
  const body = {
    ...{ workspace_id: workspace.workspaceId, collection, store: 'relational', access: { anon } },
    ...{ schema: { properties: { key: { type: 'string' }, n: { type: 'integer' } } }, unique: [['key']] },
    ...more,
  }
  const made = await call('POST', '/v1/schemas', { as: workspace.operator, body })
  expect(made.status).toBe(201)
  return { id: made.body.id, collection, at: `/v1/collections/${collection}` }
}

const createDocument = async ({ at }: DeclaredCollection, body: object): Promise<string> =>
  (await call('POST', `${at}/documents`, { as: workspace.service, body })).body.id
const all = async ({ at }: DeclaredCollection): Promise<Record<string, unknown>[]> =>
  (await call('GET', `${at}/documents?page[size]=200`, { as: workspace.service })).body.data

type Send = (target: DeclaredCollection, id: string) => Promise<Reply>
const send =
  (
    method: string,
    path: (target: DeclaredCollection, id: string) => string,
    body?: unknown,
    headers = {},
  ): Send =>
  (target, id) =>
    call(method, path(target, id), {
      as: workspace.anon,
      headers,
      ...(body !== undefined && { body: typeof body === 'function' ? body(target, id) : body }),
    })
const documents = ({ at }: DeclaredCollection) => `${at}/documents`
const one = ({ at }: DeclaredCollection, id: string) => `${at}/documents/${id}`
const inBatch = (op: (id: string) => object, more: object = {}) =>
  send(
    'POST',
    ({ at }) => `${at}/batch`,
    (_place: DeclaredCollection, id: string) => ({ ops: [op(id)], ...more }),
  )
const inBatchRun = (op: (id: string) => object) =>
  send(
    'POST',
    () => '/v1/batch',
    ({ collection }: DeclaredCollection, id: string) => ({ ops: [{ collection, ...op(id) }] }),
  )
const NDJSON = { 'content-type': 'application/x-ndjson' }

/** Every operation that reaches a document, and the rights it needs. */
const OPERATIONS_BY_RIGHTS: readonly (readonly [string, readonly string[], Send])[] = [
  ['get', ['read'], send('GET', one)],
  ['head', ['read'], send('HEAD', one)],
  ['list', ['read'], send('GET', documents)],
  ['count exactly', ['read'], send('GET', (target) => `${documents(target)}?count=exact&page[size]=1`)],
  ['count estimated', ['read'], send('GET', (target) => `${documents(target)}?count=estimated`)],
  ['query', ['read'], send('POST', ({ at }) => `${at}/query`, {})],
  ['export', ['read'], send('GET', ({ at }) => `${at}/export`)],
  [
    'subscribe',
    ['read'],
    send('GET', ({ collection }) => `/v1/events/subscribe?topic=collections.${collection}.*`),
  ],
  [
    'replay',
    ['read'],
    send(
      'GET',
      ({ collection }) => `/v1/events/subscribe?topic=collections.${collection}.created`,
      undefined,
      {
        'last-event-id': '0-0',
      },
    ),
  ],
  ['create', ['create'], send('POST', documents, { n: 2 })],
  ['import', ['create', 'read'], send('POST', ({ at }) => `${at}/import`, '{"n":3}\n', NDJSON)],
  ['put', ['read', 'update'], send('PUT', one, { n: 4 })],
  ['replace', ['read', 'update'], send('PUT', (target, id) => `${one(target, id)}?replace=true`, { n: 5 })],
  ['patch', ['read', 'update'], send('PATCH', one, { n: 6 })],
  ['delete', ['read', 'delete'], send('DELETE', one)],
  ['create in a batch', ['create'], inBatch(() => ({ op: 'create', data: { n: 7 } }))],
  ['create across collections', ['create'], inBatchRun(() => ({ op: 'create', data: { n: 8 } }))],
  ['update in a batch', ['read', 'update'], inBatch((id) => ({ op: 'update', id, data: { n: 9 } }))],
  ['patch in a batch', ['read', 'update'], inBatch((id) => ({ op: 'patch', id, data: { n: 10 } }))],
  [
    'replace across collections',
    ['read', 'update'],
    inBatchRun((id) => ({ op: 'replace', id, data: { n: 11 } })),
  ],
  ['increment', ['read', 'update'], inBatch((id) => ({ op: 'increment', id, field: 'n' }))],
  [
    'upsert',
    ['read', 'create', 'update'],
    inBatch(() => ({ op: 'upsert', on: ['key'], data: { key: 'a' } })),
  ],
  ['delete across collections', ['read', 'delete'], inBatchRun((id) => ({ op: 'delete', id }))],
]

const RIGHTS = ['read', 'create', 'update', 'delete'] as const
const GRANTS: readonly (readonly string[])[] = [
  [],
  ['read'],
  ['create'],
  ['read', 'create'],
  ['read', 'update'],
  ['read', 'delete'],
  ['read', 'create', 'update'],
  [...RIGHTS],
]

const problemOf = ({ status, body }: Reply) => [status, body.code, body.detail, body.hint, body.errors]

test.each(GRANTS.map((rights) => [rights.join(', ') || 'none', rights] as const))(
  'anon key with rights %s: each operation is allowed or refused accordingly',
  async (_name, rights) => {
    const target = await declareCollection(
      Object.fromEntries(RIGHTS.map((right) => [right, rights.includes(right)])),
    )
    for (const [name, needed, sendAs] of OPERATIONS_BY_RIGHTS) {
      const id = await createDocument(target, { key: name, n: 1 })
      const before = await all(target)
      const reply = await sendAs(target, id)
      if (needed.every((right) => rights.includes(right))) {
        expect([name, reply.status]).toEqual([name, name.startsWith('create') && !/ /.test(name) ? 201 : 200])
        continue
      }
      expect([name, reply.status]).toEqual([name, 403])
      if (name !== 'head') expect([name, reply.body.code]).toEqual([name, 'forbidden'])
      // The refusal is the same whether or not the document exists.
      expect([name, problemOf(await sendAs(target, randomUUID()))]).toEqual([name, problemOf(reply)])
      expect(await all(target)).toEqual(before)
    }
  },
)

describe('anon key with create but not read', () => {
  test('batch of creates: stores all, returns what was sent', async () => {
    const target = await declareCollection({ read: false, create: true }, { unique: [] })
    const ops = [1, 2, 3].map((n) => ({ op: 'create', ref: `${n}`, data: { n } }))
    const reply = await call('POST', `${target.at}/batch`, { as: workspace.anon, body: { ops } })
    expect([reply.status, reply.body.committed]).toEqual([200, true])
    const stored = await all(target)
    expect(stored.map(({ n }) => n)).toEqual([1, 2, 3])
    expect(reply.body.results.map(({ id }: { id: string }) => id)).toEqual(stored.map(({ id }) => id))
  })

  test('batch with one refused create: stores none', async () => {
    const target = await declareCollection({ read: false, create: true })
    await createDocument(target, { key: 'taken' })
    const ops = ['a', 'taken', 'b'].map((key) => ({ op: 'create', data: { key } }))
    const reply = await call('POST', `${target.at}/batch`, { as: workspace.anon, body: { ops } })
    expect([reply.status, reply.body.code, reply.body.op_index]).toEqual([409, 'unique_violation', 1])
    expect(JSON.stringify(reply.body)).not.toMatch(/sch_|tenon_data|_i1/)
    expect(await all(target)).toHaveLength(1)
  })

  test('request repeated after a crash: gets the reply of the first, nothing is created twice', async () => {
    for (const more of [{}, { unique: [] }]) {
      const target = await declareCollection({ read: false, create: true }, more)
      const several = { ops: [1, 2, 3].map((n) => ({ op: 'create', data: { n } })) }
      const path = `${target.at}/batch`
      const made = await post(workspace.anon, 'several', several, path)
      expect(made.status).toBe(200)
      const single = await post(workspace.anon, 'single', { n: 4 }, `${target.at}/documents`)
      await simulateCrash(workspace)
      const again = await post(workspace.anon, 'several', several, path)
      expect([again.status, again.body]).toEqual([200, made.body])
      const once = await post(workspace.anon, 'single', { n: 4 }, `${target.at}/documents`)
      expect([once.status, once.body.id]).toEqual([201, single.body.id])
      expect(await all(target)).toHaveLength(4)
    }
  })

  test('quota exhausted: refused without showing usage or limit', async () => {
    const { operator: as, workspaceId, anon, service } = await createTestWorkspace()
    const declared = {
      ...{ workspace_id: workspaceId, collection: 'box', store: 'relational', schema: {} },
      access: { anon: { read: false, create: true } },
    }
    expect((await call('POST', '/v1/schemas', { as, body: declared })).status).toBe(201)
    const body = { workspace_id: workspaceId, limits: { documents: 0 } }
    expect((await call('PUT', '/v1/quotas', { as, body })).status).toBe(200)
    const create = (by: typeof anon) =>
      call('POST', '/v1/collections/box/documents', { as: by, body: { n: 1 } })
    const { status, body: problemOf } = await create(anon)
    expect([status, problemOf.code, problemOf.quota, problemOf.used, problemOf.limit]).toEqual([
      429,
      'quota_exceeded',
      'documents',
      undefined,
      undefined,
    ])
    expect(problemOf.detail).toBe('The quota documents is used up.')
    expect((await create(service)).body).toMatchObject({ code: 'quota_exceeded', used: 0, limit: 0 })
  })
})
