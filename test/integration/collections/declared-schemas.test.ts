/** Declared collections: valid schemas, validation of documents, access. */

import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  tokenOf,
  unique,
} from '../../support/fixtures/tenants.ts'
import { startCountedApi } from '../../support/stack/counted-api.ts'
import { openCollectionsToAnon } from '../../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const TODO = {
  type: 'object',
  required: ['title'],
  properties: {
    title: { type: 'string', minLength: 1, maxLength: 20 },
    age: { type: 'integer', minimum: 0 },
    done: { type: 'boolean' },
    state: { $ref: '#/$defs/state' },
    tags: { type: 'array', items: { type: 'string' } },
  },
  additionalProperties: false,
  $defs: { state: { enum: ['open', 'closed'] } },
}

interface Declared {
  collection?: string
  store?: string
  schema?: unknown
  [member: string]: unknown
}

const declare = (body: Declared = {}, of: TestWorkspace = workspace) =>
  call('POST', '/v1/schemas', {
    as: of.operator,
    body: {
      workspace_id: of.workspaceId,
      collection: unique('c'),
      store: 'relational',
      schema: TODO,
      ...body,
    },
  })
const at = (collection: string, id = '') => `/v1/collections/${collection}/documents${id && `/${id}`}`

describe.each(['relational', 'document'])('declaration, %s store', (store) => {
  test('declaration: created, read, listed, deleted: deletion needs an empty collection', async () => {
    const of = await createTestWorkspace()
    const made = await declare({ store }, of)
    expect(made.status).toBe(201)
    expect(made.headers.get('location')).toBe(`/v1/schemas/${made.body.id}`)
    expect(made.body).toMatchObject({
      store,
      schema: TODO,
      mode: 'enforce',
      access: {},
      tenant_id: of.tenantId,
    })
    const as = await tokenOf({ roles: ['tenant_admin'], tenant_id: of.tenantId })
    const { warnings: _, ...declared } = made.body
    expect((await call('GET', `/v1/schemas/${made.body.id}`, { as })).body).toEqual(declared)
    expect((await call('GET', '/v1/schemas', { as })).body.data).toEqual([declared])
    const { body } = await call('POST', at(made.body.collection), { as: of.service, body: { title: 'a' } })
    const full = await call('DELETE', `/v1/schemas/${made.body.id}`, { as })
    expect([full.status, full.body.code]).toEqual([409, 'state_conflict'])
    expect((await call('GET', at(made.body.collection, body.id), { as: of.service })).body.title).toBe('a')
    await call('DELETE', at(made.body.collection, body.id), { as: of.service })
    expect((await call('DELETE', `/v1/schemas/${made.body.id}`, { as })).body).toEqual({
      id: made.body.id,
      deleted: true,
    })
    expect((await call('GET', `/v1/schemas/${made.body.id}`, { as })).status).toBe(404)
    expect(await asSuperuser(`select from pg_class where relname = $1`, [made.body.id])).toEqual([])
  })
})

const create = (collection: string, body: unknown, of: TestWorkspace = workspace): Promise<Reply> =>
  call('POST', at(collection), { as: of.service, body })

describe('documents of a declared collection', () => {
  test('document: several violations: refused with all of them, nothing is stored', async () => {
    for (const store of ['relational', 'document']) {
      const { body: schema } = await declare({ store })
      const { status, body } = await create(schema.collection, {
        age: -1,
        done: 'x',
        tags: ['a', 1],
        x: 1,
        y: 2,
      })
      expect([status, body.code]).toEqual([422, 'schema_violation'])
      const diagnostics = body.errors.map(({ pointer, keyword }: Reply['body']) => `${pointer} ${keyword}`)
      expect(diagnostics.sort()).toEqual(
        ['/age minimum', '/done type', '/tags/1 type', '/title required', '/x additionalProperties'].concat(
          '/y additionalProperties',
        ),
      )
      expect((await call('GET', at(schema.collection), { as: workspace.service })).body.data).toEqual([])
      const good = await create(schema.collection, { title: 'a', age: 1, state: 'open' })
      const put = (fields: unknown) =>
        call('PUT', at(schema.collection, good.body.id), { as: workspace.service, body: fields })
      expect((await put({ state: 'lost' })).body.errors).toMatchObject([
        { pointer: '/state', keyword: 'enum' },
      ])
      expect((await put({ title: 'b' })).body).toMatchObject({
        title: 'b',
        age: 1,
        state: 'open',
        _version: 2,
      })
      expect((await put({ title: null })).body.code).toBe('schema_violation')
    }
  })

  test('document: violates the schema: mode warn stores it with warnings, mode off without', async () => {
    for (const store of ['relational', 'document']) {
      const warn = await declare({ store, mode: 'warn' })
      const made = await create(warn.body.collection, { age: 'old' })
      expect(made.status).toBe(201)
      expect(made.body._warnings.map(({ pointer }: Reply['body']) => pointer).sort()).toEqual([
        '/age',
        '/title',
      ])
      const path = at(warn.body.collection, made.body.id)
      expect((await call('GET', path, { as: workspace.service })).body).not.toHaveProperty('_warnings')
      const put = await call('PUT', path, { as: workspace.service, body: { title: 'a', age: 3 } })
      expect(put.body).not.toHaveProperty('_warnings')
      const off = await declare({ store, mode: 'off' })
      const any = await create(off.body.collection, { age: 'old', other: 1 })
      expect([any.status, any.body.age, any.body._warnings]).toEqual([201, 'old', undefined])
    }
  })

  test('flow: writes an invalid document: faults with schema_violation', async () => {
    const { body } = await declare({ schema: TODO })
    const source = `document: { dsl: '1.0.3', namespace: test, name: ${unique('f')}, version: '1.0.0' }
do:
- good: { call: collection.create, with: { name: ${body.collection}, document: { title: a } } }
- bad: { call: collection.create, with: { name: ${body.collection}, document: { age: 1 } } }`
    const as = workspace.operator
    const flow = await call('POST', `${workspace.flows}/definitions`, { as, body: { source } })
    await call('POST', `${workspace.flows}/definitions/${flow.body.id}/versions`, { as, body: {} })
    const run = await call('POST', `${workspace.flows}/definitions/${flow.body.id}/executions`, {
      as,
      body: { input: {} },
      headers: { prefer: 'wait=20' },
    })
    expect(run.body.status).toBe('faulted')
    expect(run.body.error.code).toBe('schema_violation')
    expect((await call('GET', at(body.collection), { as: workspace.service })).body.data).toMatchObject([
      { title: 'a' },
    ])
  })
})

test('document: a forbidden member, or many undeclared ones: refused, 20 violations at most', async () => {
  const no = await declare({ schema: { properties: { a: false, b: { items: false } } } })
  const { body } = await create(no.body.collection, { a: 1, b: [1] })
  expect(body.errors.map(({ pointer }: Reply['body']) => pointer).sort()).toEqual(['/a', '/b/0'])
  const closed = await declare({ schema: { additionalProperties: false } })
  const many = await create(
    closed.body.collection,
    Object.fromEntries(Array.from({ length: 90 }, (_, n) => [n, n])),
  )
  expect([many.status, many.body.errors.length]).toEqual([422, 20])
})

describe('declaring', () => {
  test('declaration: the collection is declared already: 409', async () => {
    const { body } = await declare()
    const again = await declare({ collection: body.collection, store: 'document' })
    expect([again.status, again.body.code]).toEqual([409, 'conflict'])
  })

  test('declaration: made by another node: this node loses no document', async () => {
    const collection = unique('c')
    // This node caches that the collection is undeclared …
    expect((await call('GET', at(collection), { as: workspace.service })).body.data).toEqual([])
    // … and another node declares it.
    const node = await startCountedApi()
    onTestFinished(() => node.close())
    const headers = workspace.operator
    const schema = { properties: { n: { type: 'integer' } } }
    const payload = { workspace_id: workspace.workspaceId, collection, store: 'relational', schema }
    const declared = await node.app.inject({ method: 'POST', url: '/v1/schemas', headers, payload })
    expect(declared.statusCode).toBe(201)
    const { id } = declared.json()
    expect((await create(collection, { n: 1 })).status).toBe(201)
    expect((await create(collection, { n: 'x' })).body.code).toBe('schema_violation')
    const [row] = await asSuperuser<{ c1: string }>(`select c1 from tenon_data."${id}"`)
    expect(row?.c1).toBe('1')
    expect(await asSuperuser('select from tenon.documents where collection = $1', [collection])).toEqual([])
    // In reverse: the table is dropped, and this node has to forget the declaration.
    const [{ body }] = [await call('GET', at(collection), { as: workspace.service })]
    await call('DELETE', at(collection, body.data[0].id), { as: workspace.service })
    const dropped = await node.app.inject({ method: 'DELETE', url: `/v1/schemas/${id}`, headers })
    expect(dropped.statusCode).toBe(200)
    expect((await create(collection, { n: 2 })).status).toBe(201)
  })

  test('declaration: concurrent with writes: every document is found afterwards', async () => {
    for (let round = 0; round < 5; round++) {
      const collection = unique('race')
      const writes = Array.from({ length: 12 }, () => () => create(collection, { title: 'a' }))
      const work = writes.toSpliced(round * 2, 0, () => declare({ collection }))
      const replies = await Promise.all(work.map((start) => start()))
      const made = replies.filter((reply) => reply.status === 201 && reply.body._version === 1)
      expect(made).toHaveLength(12)
      const { body } = await call('GET', `${at(collection)}?page[size]=200`, { as: workspace.service })
      expect(body.data.map(({ id }: { id: string }) => id).sort()).toEqual(
        made.map((reply) => reply.body.id).sort(),
      )
    }
  })

  test('anon key: declaration with read: false: 403 for every way to read, where undeclared ones are open', async () => {
    await openCollectionsToAnon(workspace)
    await create('undeclared', { title: 'a' })
    expect((await call('GET', at('undeclared'), { as: workspace.anon })).body.data).toHaveLength(1)
    for (const store of ['relational', 'document']) {
      const { body } = await declare({ store, access: { anon: { read: false } } })
      expect(body.access).toEqual({ anon: { read: false } })
      const made = await create(body.collection, { title: 'a' })
      for (const path of [at(body.collection), at(body.collection, made.body.id)]) {
        const reply = await call('GET', path, { as: workspace.anon })
        expect([reply.status, reply.body.code]).toEqual([403, 'forbidden'])
      }
      const query = await call('POST', `/v1/collections/${body.collection}/query`, {
        as: workspace.anon,
        body: {},
      })
      expect(query.status).toBe(403)
      expect((await call('GET', at(body.collection), { as: workspace.service })).body.data).toHaveLength(1)
    }
  })

  test('declaration: same name in two tenants: two collections', async () => {
    const [a, b] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
    const sibling = await addTestWorkspace(a)
    for (const of of [a, b, sibling]) {
      await declare({ collection: 'shared' }, of)
      await create('shared', { title: of.workspaceId.slice(-12) }, of)
    }
    for (const of of [a, b, sibling]) {
      const { body } = await call('GET', at('shared'), { as: of.service })
      expect(body.data.map(({ title }: { title: string }) => title)).toEqual([of.workspaceId.slice(-12)])
    }
  })

  test('declaration: workspace admin: allowed in the own workspace only', async () => {
    const other = await createTestWorkspace()
    const as = await tokenOf({
      roles: ['workspace_admin'],
      tenant_id: workspace.tenantId,
      workspace_id: workspace.workspaceId,
    })
    const body = { collection: unique('c'), store: 'document', schema: {} }
    const post = (workspace_id: string) =>
      call('POST', '/v1/schemas', { as, body: { ...body, workspace_id } })
    expect((await post(other.workspaceId)).status).toBe(404)
    expect((await post((await addTestWorkspace(workspace)).workspaceId)).status).toBe(404)
    expect((await post(workspace.workspaceId)).status).toBe(201)
  })
})
