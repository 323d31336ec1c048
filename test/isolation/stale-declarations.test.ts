/** A node with a stale declaration cache shows, hides and refuses nothing because of it. */

import type { FastifyInstance } from 'fastify'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { buildApp } from '../../src/api/app.ts'
import { openAuthServices } from '../../src/app/auth-services.ts'
import { openPlatform, type Platform } from '../../src/app/platform.ts'
import { parseConfig } from '../../src/infra/config.ts'
import { openLog } from '../../src/infra/log.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
} from '../support/fixtures/tenants.ts'
import { openCollectionsToAnon } from '../support/stack/workspace-settings.ts'

let platform: Platform
/** The node with the cache; changes are made through the other node. */
let node: FastifyInstance
let workspace: TestWorkspace
beforeAll(async () => {
  const config = parseConfig(inject('tenon').env)
  const opened = openPlatform(config, openLog('silent', 'test'))
  platform = opened.platform
  node = await buildApp(platform, openAuthServices(config, opened.parts))
  workspace = await createTestWorkspace()
  // The setting opens undeclared collections, so that only the declaration can refuse.
  await openCollectionsToAnon(workspace)
})
afterAll(async () => {
  await node.close()
  await platform.close()
})

const at = (collection: string) => `/v1/collections/${collection}`
const SCHEMA = { properties: { n: { type: 'integer' } } }

async function declare(collection: string, anon: object, schema: object = SCHEMA): Promise<string> {
  const body = {
    ...{ workspace_id: workspace.workspaceId, collection, store: 'relational', schema, access: { anon } },
  }
  const made = await call('POST', '/v1/schemas', { as: workspace.operator, body })
  expect(made.status).toBe(201)
  return made.body.id
}

const change = async (id: string, body: object) =>
  expect((await call('PUT', `/v1/schemas/${id}`, { as: workspace.operator, body })).status).toBe(200)
const createDocument = async (collection: string, body: object): Promise<string> =>
  (await call('POST', `${at(collection)}/documents`, { as: workspace.service, body })).body.id

async function ask(
  as: Caller,
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  url: string,
  payload?: object,
) {
  const reply = await node.inject({ method, url, headers: as, ...(payload && { payload }) })
  return { status: reply.statusCode, body: reply.json() }
}

/** Makes the node cache the current declaration. */
const cacheDeclaration = async (collection: string) =>
  expect((await ask(workspace.service, 'GET', `${at(collection)}/documents`)).status).toBe(200)

type Access = (as: Caller, collection: string, id: string) => ReturnType<typeof ask>
const READS: Readonly<Record<string, Access>> = {
  get: (as, collection, id) => ask(as, 'GET', `${at(collection)}/documents/${id}`),
  list: (as, collection) => ask(as, 'GET', `${at(collection)}/documents?n=eq.1`),
  query: (as, collection) => ask(as, 'POST', `${at(collection)}/query`, { count: 'exact' }),
}
const WRITES: Readonly<Record<string, Access>> = {
  put: (as, collection, id) => ask(as, 'PUT', `${at(collection)}/documents/${id}`, { n: 1 }),
  patch: (as, collection, id) => ask(as, 'PATCH', `${at(collection)}/documents/${id}`, { n: 1 }),
  batch: (as, collection, id) =>
    ask(as, 'POST', `${at(collection)}/batch`, {
      ops: [
        { op: 'increment', id, field: 'n', by: 0 },
        { op: 'update', id, data: { n: 1 } },
      ],
    }),
  delete: (as, collection, id) => ask(as, 'DELETE', `${at(collection)}/documents/${id}`),
}

test.each(Object.entries({ ...READS, ...WRITES }))(
  'declared after caching: %s finds the document',
  async (_name, access) => {
    const collection = unique('c')
    await cacheDeclaration(collection)
    await declare(collection, {})
    const id = await createDocument(collection, { n: 1 })
    const { status, body } = await access(workspace.service, collection, id)
    expect([status, JSON.stringify(body)]).toEqual([200, expect.stringContaining(id)])
  },
)

test.each(Object.entries(READS))(
  'declared and closed after caching: %s is refused, not empty',
  async (_name, access) => {
    const collection = unique('c')
    await cacheDeclaration(collection)
    await declare(collection, { read: false })
    const id = await createDocument(collection, { n: 1 })
    const { status, body } = await access(workspace.anon, collection, id)
    expect([status, body.code]).toEqual([403, 'forbidden'])
  },
)

test.each(Object.entries({ ...READS, ...WRITES }))(
  'closed after caching: %s is refused at once',
  async (_name, access) => {
    const collection = unique('c')
    const schema = await declare(collection, { read: true, create: true, update: true, delete: true })
    const id = await createDocument(collection, { n: 1 })
    await cacheDeclaration(collection)
    await change(schema, { access: { anon: { read: false } } })
    const { status, body } = await access(workspace.anon, collection, id)
    expect([status, body.code]).toEqual([403, 'forbidden'])
    expect((await READS['get']?.(workspace.service, collection, id))?.body).toMatchObject({
      n: 1,
      _version: 1,
    })
  },
)

test('value forbidden after caching: refused with schema_violation', async () => {
  const collection = unique('c')
  const schema = await declare(collection, {})
  await cacheDeclaration(collection)
  await change(schema, { schema: { properties: { n: { type: 'integer', maximum: 5 } } } })
  const { status, body } = await ask(workspace.service, 'POST', `${at(collection)}/documents`, { n: 6 })
  expect([status, body.code]).toEqual([422, 'schema_violation'])
})

test('declaration withdrawn after caching: undeclared; an anon key can no longer write', async () => {
  const collection = unique('c')
  const schema = await declare(collection, { create: true })
  await cacheDeclaration(collection)
  expect((await call('DELETE', `/v1/schemas/${schema}`, { as: workspace.operator })).status).toBe(200)
  const documents = `${at(collection)}/documents`
  expect((await ask(workspace.anon, 'POST', documents, { n: 1 })).body.code).toBe('forbidden')
  expect((await ask(workspace.anon, 'GET', documents)).body.data).toEqual([])
  expect((await ask(workspace.service, 'POST', documents, { n: 'x' })).status).toBe(201)
})
