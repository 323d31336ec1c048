/** Bounds of one request in MongoDB: up to them it is answered, and beyond them refused with the way there. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { WorkspaceRef } from '../../../src/core/tenant.ts'
import { applyToAggregate } from '../../../src/features/collections/aggregates/typed-aggregate.ts'
import { readUrlAggregate } from '../../../src/features/collections/aggregates/url.ts'
import { mongoStore } from '../../../src/features/collections/mongo/store.ts'
import { ALL, BY_ID } from '../../../src/features/collections/query/filter.ts'
import { ALL_RIGHTS } from '../../../src/features/collections/rules/permissions.ts'
import type { Collection, Create } from '../../../src/features/collections/store.ts'
import { MongoDocuments } from '../../../src/infra/mongo/mongo.ts'
import { unique } from '../../support/fixtures/tenants.ts'
import { type MongoServer, mongoUnavailableReason, startMongo } from '../../support/stack/ferretdb.ts'

const missing = await mongoUnavailableReason()
if (missing !== undefined) console.warn(`Bounds of MongoDB are not tested: ${missing}.`)

const PARENT = '019abcde-0000-7000-8000-000000000001'
/** Nothing here reads PostgreSQL. */
const SCOPE = undefined as never

describe.skipIf(missing !== undefined)('MongoDB', () => {
  let mongo: MongoServer
  let documents: MongoDocuments
  beforeAll(async () => {
    mongo = await startMongo()
    documents = new MongoDocuments(mongo.url)
  })
  afterAll(async () => {
    await documents?.close()
    await mongo?.stop()
  })

  /** A collection of five documents that refer to one. */
  async function filled(max: number): Promise<Collection> {
    const ref = { tenantId: unique('t'), workspaceId: unique('w') } as WorkspaceRef
    const store = mongoStore(documents.handle(ref, { role: 'service' }), max)
    const readers = { anon: false, user: false }
    const collection: Collection = { name: unique('c'), store, permissions: ALL_RIGHTS, readers }
    const creates = Array.from({ length: 5 }, (_, n): Create => {
      const fields = { n, parent_id: PARENT }
      const id = PARENT.replace(/..$/, `a${n}`)
      return {
        verb: 'create',
        collection,
        id,
        content: { fields, text: JSON.stringify(fields) },
        warnings: [],
      }
    })
    await store.add(SCOPE, collection, creates)
    return collection
  }

  const by = { path: ['parent_id'], as: 'uuid', values: [PARENT] } as const
  const reads = {
    'documents that refer': (one: Collection) =>
      one.store
        .listEach(SCOPE, one, { filter: ALL, order: BY_ID, limit: 2, most: 100, by })
        .then((found) => found.length),
    'their number': (one: Collection) =>
      one.store.countEach(SCOPE, one, { filter: ALL, by }).then((counts) => counts.get(PARENT)),
    aggregate: async (one: Collection) => {
      const written = { select: 'n:count()', filters: [], having: undefined, order: undefined }
      const aggregate = applyToAggregate(readUrlAggregate(written), undefined)
      return (await one.store.aggregate(SCOPE, one, { aggregate, limit: 1 }))[0]?.values
    },
  } as const

  test.each([
    ['documents that refer', 2],
    ['their number', 5],
    ['aggregate', [['n', 5]]],
  ] as const)(
    '%s: of as many as may be read: answered; of one more: query_too_costly',
    async (read, answer) => {
      expect(await reads[read](await filled(5))).toEqual(answer)
      await expect(reads[read](await filled(4))).rejects.toMatchObject({
        code: 'query_too_costly',
        adminHint: expect.stringContaining('"relational"'),
      })
    },
  )

  test('ids for a filter through a reference: of one more than asked for: undefined', async () => {
    const { store, ...one } = await filled(5)
    const ids = (path: 'id' | 'parent_id', limit: number) =>
      store.listIds(SCOPE, { ...one, store }, { filter: ALL, path: [path], limit })
    expect(await ids('parent_id', 5)).toEqual([PARENT])
    expect(await ids('id', 5)).toHaveLength(5)
    expect([await ids('id', 4), await ids('parent_id', 4)]).toEqual([undefined, undefined])
  })
})
