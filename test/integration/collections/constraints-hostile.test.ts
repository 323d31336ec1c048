/** Constraints of declarations under documents, batches and tables that make them hard to compare. */

import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { inScanLine } from '../../../src/features/collections/scans.ts'
import {
  call as callAt,
  createTestWorkspace,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { type MongoServer, mongoUnavailableReason, startMongo } from '../../support/stack/ferretdb.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

const missing = await mongoUnavailableReason()
if (missing !== undefined) console.warn(`Checks in MongoDB are not tested: ${missing}.`)

let workspace: TestWorkspace
let mongo: MongoServer | undefined
let node: Node
beforeAll(async () => {
  workspace = await createTestWorkspace()
  mongo = missing === undefined ? await startMongo() : undefined
  node = await startInProcessNode(mongo === undefined ? {} : { MONGODB_URL: mongo.url })
})
afterAll(async () => {
  await node?.close()
  await mongo?.stop()
})

const STORES = {
  'relational in PostgreSQL': 'relational',
  'document in PostgreSQL': 'document',
  ...(missing === undefined && { 'document in MongoDB': 'document' }),
}
const callOf =
  (name: string): typeof callAt =>
  (method, path, options) => {
    const at = name === 'document in MongoDB' ? node.at : inject('tenon')
    return callAt(method, path, { as: workspace.service, at, ...options })
  }
const call = callOf('relational in PostgreSQL')
const at = (collection: string, id = '') => `/v1/collections/${collection}/documents${id && `/${id}`}`

async function declared(body: object, send = call): Promise<{ id: string; collection: string }> {
  const named = { workspace_id: workspace.workspaceId, collection: unique('c'), store: 'relational' }
  const reply = await send('POST', '/v1/schemas', { as: workspace.operator, body: { ...named, ...body } })
  expect([reply.status, reply.body]).toMatchObject([201, {}])
  return reply.body
}

/** Takes too many steps to compare with a long text that it does not match. */
const COSTLY = {
  schema: { properties: { text: { type: 'string' } } },
  checks: [{ name: 'dashed', check: { text: { like: '%___-___%' } } }],
}
const [FITS, BREAKS] = [{ text: 'abc-def' }, { text: 'a'.repeat(250_000) }]

test.each(Object.entries(STORES))(
  '%s: check that takes too long to compare: refused',
  async (name, store) => {
    const send = callOf(name)
    const { collection } = await declared({ ...COSTLY, store }, send)
    const made = await send('POST', at(collection), { body: FITS })
    expect(made.status).toBe(201)
    const replies = [
      await send('POST', at(collection), { body: BREAKS }),
      await send('PATCH', at(collection, made.body.id), { body: BREAKS }),
      await send('PUT', `${at(collection, made.body.id)}?replace=true`, { body: BREAKS }),
    ]
    expect(replies.map(({ status }) => status)).toEqual([422, 422, 422])
    const list = await send('GET', at(collection))
    expect(list.body.data.map(({ text }: { text: string }) => text)).toEqual([FITS.text])
  },
)

test('several documents in one batch, of which the table refuses one: its index is told', async () => {
  const { collection } = await declared(COSTLY)
  const ops = [FITS, BREAKS, FITS].map((data) => ({ op: 'create', data }))
  const refused = await call('POST', `/v1/collections/${collection}/batch`, { body: { ops } })
  expect([refused.status, refused.body]).toMatchObject([422, { code: 'schema_violation', op_index: 1 }])
})

test('overlapping range while the tenant has its share of scans: refused at once, without the id of the other document', async () => {
  const integer = { type: 'integer' }
  const { collection } = await declared({
    schema: { properties: { from: integer, to: integer } },
    exclude: [{ fields: [], range: ['from', 'to'] }],
  })
  const create = () => call('POST', at(collection), { at: node.at, body: { from: 1, to: 5 } })
  const { id } = (await create()).body
  expect((await create()).body).toMatchObject({ code: 'exclusion_violation', conflicting_id: id })
  const held = Promise.withResolvers<void>()
  const scans = [1, 2].map(() => inScanLine(workspace.tenantId, () => held.promise))
  const refused = await create()
  held.resolve()
  await Promise.all(scans)
  expect(refused.body.code).toBe('exclusion_violation')
  expect(refused.body).not.toHaveProperty('conflicting_id')
})
