/** Whole collections where documents are in MongoDB: declared, emptied and dropped with their documents; what cannot be done there is refused. */

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
  const drop = (name: string) => admin('DELETE', `/v1/collections/${name}?${query(name)}`)
  const truncate = (name: string) => admin('POST', `/v1/collections/${name}/truncate?${query(name)}`)
  const rename = (name: string, to: string) =>
    admin('POST', `/v1/collections/${name}/rename`, { workspace_id: ws.workspaceId, to })
  const declare = (collection: string, more: object = {}) =>
    admin('POST', '/v1/schemas', {
      ...{ workspace_id: ws.workspaceId, collection, store: 'document', schema: {}, ...more },
    })
  const shown = async (name: string) =>
    (await call('GET', `/v1/collections/${name}/documents`, { as: ws.service, at: node.at })).body.data

  test.each([
    ['declared', true],
    ['undeclared', false],
  ] as const)(
    '%s collection with documents: emptied and dropped, and others stay; not renamed',
    async (_what, isDeclared) => {
      const [name, other] = [unique('c'), unique('c')]
      if (isDeclared) expect((await declare(name)).status).toBe(201)
      for (const one of [name, name, other]) expect((await create(one)).status).toBe(201)
      const renamed = await rename(name, unique('to'))
      expect([renamed.status, renamed.body.code]).toEqual([400, 'not_supported'])
      expect((await truncate(name)).body).toEqual({ name, truncated: true })
      expect(await shown(name)).toEqual([])
      expect((await create(name)).status).toBe(201)
      expect((await drop(name)).body).toEqual({ name, dropped: true })
      expect(await shown(name)).toEqual([])
      expect(await shown(other)).toHaveLength(1)
      for (const again of [drop, truncate]) expect((await again(name)).status).toBe(404)
    },
  )

  test('collection without documents: renamed if it is declared, else not found', async () => {
    const [name, to] = [unique('c'), unique('to')]
    expect((await rename(name, to)).status).toBe(404)
    expect((await declare(name)).status).toBe(201)
    expect((await rename(name, to)).body).toEqual({ name: to, renamed_from: name })
  })

  test('collection with documents: declared where they are; ids, versions and times stay', async () => {
    const [name, email] = [unique('c'), 'Ann@example.com']
    const made = await call('POST', `/v1/collections/${name}/documents`, {
      ...{ as: ws.service, at: node.at, body: { n: 1, email, at: '2026-01-01T01:00:00+01:00' } },
    })
    await call('PATCH', `/v1/collections/${name}/documents/${made.body.id}`, {
      ...{ as: ws.service, at: node.at, body: { n: 2 } },
    })
    const before = await shown(name)
    const relational = await declare(name, { store: 'relational' })
    expect([relational.status, relational.body.code]).toEqual([409, 'state_conflict'])
    const refused = await declare(name, { schema: { properties: { n: { type: 'string' } } } })
    expect([refused.status, refused.body.code]).toEqual([409, 'schema_incompatible'])
    expect(refused.body.offending).toMatchObject([{ id: made.body.id, pointer: '/n' }])
    const at = { type: 'string', format: 'date-time' }
    const schema = { properties: { n: { type: 'integer' }, at }, required: ['n'] }
    const planned = await admin('POST', '/v1/schemas/plan', {
      workspace_id: ws.workspaceId,
      schemas: [{ collection: name, store: 'document', schema }],
    })
    expect(planned.body.changes.map(({ effect }: { effect: string }) => effect)).toEqual([
      'instant',
      'validate',
    ])
    expect((await declare(name, { schema })).status).toBe(201)
    expect(await shown(name)).toEqual(before)
    expect(before).toMatchObject([{ _version: 2 }])
    const found = await call('GET', `/v1/collections/${name}/documents?at=eq.2026-01-01`, {
      ...{ as: ws.service, at: node.at },
    })
    expect(found.body.data).toEqual(before)
    const invalid = await call('POST', `/v1/collections/${name}/documents`, {
      ...{ as: ws.service, at: node.at, body: { n: 'x' } },
    })
    expect(invalid.body.code).toBe('schema_violation')
  })

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
