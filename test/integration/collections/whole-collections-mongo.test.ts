/** Whole collections and fields where documents are in MongoDB: refused while there are documents, never done by half. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type BulkNode, startBulkNode } from '../../support/fixtures/bulk-changes.ts'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'
import { type MongoServer, mongoUnavailableReason, startMongo } from '../../support/stack/ferretdb.ts'

const missing = await mongoUnavailableReason()
if (missing !== undefined) console.warn(`Whole collections in MongoDB are not tested: ${missing}.`)

describe.skipIf(missing !== undefined)('MongoDB', () => {
  let ws: TestWorkspace
  let mongo: MongoServer
  let node: BulkNode
  beforeAll(async () => {
    mongo = await startMongo()
    ws = await createTestWorkspace()
    node = await startBulkNode(ws, { MONGODB_URL: mongo.url })
  })
  afterAll(async () => {
    await node?.close()
    await mongo?.stop()
  })

  const admin = (method: string, path: string, body?: object) =>
    call(method, path, { as: ws.operator, at: node.at, ...(body && { body }) })
  const create = (name: string) =>
    call('POST', `/v1/collections/${name}/documents`, { as: ws.service, at: node.at, body: { n: 1 } })
  const query = (name: string) => `confirm=${name}&workspace_id=${ws.workspaceId}`
  const changes = (name: string, to: string) => [
    () => admin('DELETE', `/v1/collections/${name}?${query(name)}`),
    () => admin('POST', `/v1/collections/${name}/truncate?${query(name)}`),
    () => admin('POST', `/v1/collections/${name}/rename`, { workspace_id: ws.workspaceId, to }),
  ]

  test.each([
    ['declared', true],
    ['undeclared', false],
  ] as const)(
    '%s collection with documents: refused; without: dropped, or not found',
    async (_what, isDeclared) => {
      const name = unique('c')
      const declaration = { workspace_id: ws.workspaceId, collection: name, store: 'document', schema: {} }
      if (isDeclared) expect((await admin('POST', '/v1/schemas', declaration)).status).toBe(201)
      const made = await create(name)
      expect(made.status).toBe(201)
      for (const change of changes(name, unique('to'))) {
        const { status, body } = await change()
        expect([status, body.code]).toEqual([400, 'not_supported'])
      }
      const path = `/v1/collections/${name}/documents/${made.body.id}`
      expect((await call('DELETE', path, { as: ws.service, at: node.at })).status).toBe(200)
      const [drop] = changes(name, '')
      expect((await drop?.())?.status).toBe(isDeclared ? 200 : 404)
    },
  )

  test('schema for documents: proposed; fields are neither renamed nor given values', async () => {
    const name = unique('c')
    const declaration = { workspace_id: ws.workspaceId, collection: name, store: 'document' }
    const schema = { properties: { n: { type: 'integer' } } }
    const declared = await admin('POST', '/v1/schemas', { ...declaration, schema })
    await create(name)
    const proposed = await admin('POST', '/v1/schemas/infer', {
      workspace_id: ws.workspaceId,
      collection: name,
    })
    expect(proposed.body.schema).toEqual({ type: 'object', ...schema, required: ['n'] })
    const path = `/v1/schemas/${declared.body.id}`
    const renamed = { schema: { properties: { m: { type: 'integer' } } }, renamed_from: { m: 'n' } }
    for (const body of [renamed, { backfill: { n: 0 } }])
      expect((await admin('PUT', path, body)).body.code).toBe('not_supported')
  })
})
