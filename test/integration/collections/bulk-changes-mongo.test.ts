/** Bulk changes of documents in MongoDB that are cut off between a change and its record: each document is changed and counted once. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type BulkNode, startBulkNode } from '../../support/fixtures/bulk-changes.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { type MongoServer, mongoUnavailableReason, startMongo } from '../../support/stack/ferretdb.ts'

const missing = await mongoUnavailableReason()
if (missing !== undefined) console.warn(`Bulk changes in MongoDB are not tested: ${missing}.`)

const path = (collection: string, rest: string) => `/v1/collections/${collection}/${rest}`

/** Lets the record of a step fail, as if PostgreSQL were lost after the change of the document. */
async function whileCutOff(work: () => Promise<void>, id: string): Promise<void> {
  const name = unique('cut_off').replace('-', '_')
  await asSuperuser(`create function public.${name}() returns trigger language plpgsql as $$ begin
    raise exception 'lost' using errcode = '58000'; end $$`)
  try {
    await asSuperuser(`create trigger ${name} before update on tenon.bulk_changes for each row
      when (new.id = '${id}' and new.last_id is distinct from old.last_id) execute function public.${name}()`)
    await work()
  } finally {
    await asSuperuser(`drop function public.${name} cascade`)
  }
}

describe.skipIf(missing !== undefined)('MongoDB', () => {
  let workspace: TestWorkspace
  let mongo: MongoServer
  let node: BulkNode
  beforeAll(async () => {
    mongo = await startMongo()
    workspace = await createTestWorkspace()
    node = await startBulkNode(workspace, { MONGODB_URL: mongo.url })
  })
  afterAll(async () => {
    await node?.close()
    await mongo?.stop()
  })

  test.each([
    ['update after which it still matches', 'update', { filter: {}, inc: { n: 1 } }],
    [
      'update after which it does not match',
      'update',
      { filter: { kind: 'a' }, data: { kind: 'b' }, inc: { n: 1 } },
    ],
    ['deletion', 'delete', { filter: { kind: 'a' } }],
  ] as const)('%s, cut off before it is recorded: made once, and counted', async (_what, verb, request) => {
    const { service: as } = workspace
    const collection = unique('bulk')
    for (let n = 0; n < 3; n++) {
      const body = { n: 0, kind: 'a' }
      expect((await call('POST', path(collection, 'documents'), { as, at: node.at, body })).status).toBe(201)
    }
    const id = await node.record({ collection, verb, request })
    for (let n = 0; n < 2; n++)
      await whileCutOff(async () => {
        await expect(node.make(id)).rejects.toMatchObject({ code: 'dependency_unavailable' })
      }, id)
    expect(await node.make(id)).toBe('ended')
    const { body } = await call('GET', path(collection, `bulk-changes/${id}`), { as, at: node.at })
    expect(body).toMatchObject({ status: 'completed', matched: 3, changed: 3, failed: 0 })
    const left = await call('GET', path(collection, 'documents'), { as, at: node.at })
    expect(left.body.data.map(({ n }: { n: number }) => n)).toEqual(verb === 'delete' ? [] : [1, 1, 1])
  })
})
