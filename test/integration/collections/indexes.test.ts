/** Indexes and unique constraints of collections in use. */

import { randomBytes } from 'node:crypto'
import { Client } from 'pg'
import { beforeAll, expect, inject, test } from 'vitest'
import { COLLECTION_LIMITS } from '../../../src/features/collections/limits.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const properties = { title: { type: 'string' }, age: { type: 'integer' } }
const declare = (body: object = {}, of: TestWorkspace = workspace) =>
  call('POST', '/v1/schemas', {
    as: of.operator,
    body: {
      ...{ workspace_id: of.workspaceId, collection: unique('c'), store: 'relational' },
      ...{ schema: { properties }, ...body },
    },
  })
const change = (id: string, body: object, headers: Record<string, string> = {}) =>
  call('PUT', `/v1/schemas/${id}`, { as: workspace.operator, body, headers })
const at = (collection: string, id = '') => `/v1/collections/${collection}/documents${id && `/${id}`}`
const create = (collection: string, body: unknown): Promise<Reply> =>
  call('POST', at(collection), { as: workspace.service, body })
const indexesOf = (id: string) =>
  asSuperuser<{ relname: string; indisvalid: boolean; indisunique: boolean }>(
    `select c.relname, i.indisvalid, i.indisunique from pg_index i join pg_class c on c.oid = i.indexrelid
     where c.relname like $1 || '\\_i%' order by 1`,
    [id],
  )

const createFilled = async (count: number, body: object = {}) => {
  const { body: schema } = await declare({ schema: { properties }, ...body })
  await asSuperuser(
    `insert into tenon_data."${schema.id}" (tenant_id, workspace_id, id, c1, c2)
       select $1, $2, gen_random_uuid(), 't' || n, n from generate_series(1, $3::int) n`,
    [workspace.tenantId, workspace.workspaceId, count],
  )
  return schema
}
const waitForOperation = (operation: string) =>
  eventually(async () => {
    const { body } = await call('GET', operation, { as: workspace.operator })
    return ['succeeded', 'failed'].includes(body.state) ? body : undefined
  }, 60_000)

test('index build: concurrent reads and writes: they continue, then the constraint holds', async () => {
  const schema = await createFilled(200_000)
  const response = await change(schema.id, { indexes: [{ fields: ['age'] }], unique: [['title']] })
  expect(response.status).toBe(202)
  const location = response.headers.get('location') ?? ''
  expect(location).toBe(`/v1/operations/${response.body.id}`)
  const order: string[] = []
  let built = false
  const work = async (n: number) => {
    for (let turn = 0; !built; turn++) {
      const { status } = await create(schema.collection, { title: `new ${n} ${turn}`, age: turn })
      const read = await call('GET', `${at(schema.collection)}?age=eq.7`, { as: workspace.service })
      order.push(`${status} ${read.status}`)
    }
  }
  const workers = [0, 1, 2].map(work)
  const operation = await waitForOperation(location)
  order.push('built')
  built = true
  await Promise.all(workers)
  expect(operation).toMatchObject({
    ...{ state: 'succeeded', type: 'index.build', target: schema.id, error: null },
    steps: [
      { name: 'i1', state: 'succeeded' },
      { name: 'i2', state: 'succeeded' },
    ],
  })
  // All writes continued, and some ended before the indexes existed.
  expect(new Set(order)).toEqual(new Set(['201 200', 'built']))
  expect(order.indexOf('built')).toBeGreaterThan(0)
  const { body } = await call('GET', `/v1/schemas/${schema.id}`, { as: workspace.operator })
  expect(body.indexes.map(({ state }: { state: string }) => state)).toEqual(['ready', 'ready'])
  expect((await indexesOf(schema.id)).map(({ indisvalid }) => indisvalid)).toEqual([true, true])
  expect((await create(schema.collection, { title: 't7' })).body.code).toBe('unique_violation')
  const [row] = await asSuperuser<{ workflow_id: string }>(
    'select workflow_id from tenon.operations where id = $1',
    [response.body.id],
  )
  expect(row?.workflow_id).toMatch(
    new RegExp(`^${workspace.tenantId}:${workspace.workspaceId}:${schema.id}:[0-9a-f-]{36}$`),
  )
})

test('unique index: existing documents violate it: fails with their ids, blocks nothing, can be retried', async () => {
  const schema = await createFilled(10)
  const twins = await Promise.all([1, 2].map(() => create(schema.collection, { title: 'same' })))
  const ids = twins.map(({ body }) => body.id).sort()
  const { body } = await change(schema.id, { unique: [['title']] })
  const operation = await waitForOperation(`/v1/operations/${body.id}`)
  expect(operation).toMatchObject({
    state: 'failed',
    error: { code: 'unique_violation', duplicates: [ids] },
  })
  const failed = await call('GET', `/v1/schemas/${schema.id}`, { as: workspace.operator })
  expect(failed.body.indexes).toMatchObject([{ name: 'i1', state: 'failed' }])
  expect(failed.body.indexes[0].reason).toContain(ids[0])
  expect(await indexesOf(schema.id)).toEqual([])
  expect((await create(schema.collection, { title: 'same' })).status).toBe(201)
  const rest = await call('GET', `${at(schema.collection)}?title=eq.same`, { as: workspace.service })
  for (const { id } of rest.body.data.slice(1))
    await call('DELETE', at(schema.collection, id), { as: workspace.service })
  const again = await change(schema.id, { unique: [['title']] }, { prefer: 'wait=30' })
  expect(again.status).toBe(200)
  expect(again.body.indexes).toEqual([{ name: 'i2', fields: ['title'], unique: true, state: 'ready' }])
  expect((await create(schema.collection, { title: 'same' })).body.code).toBe('unique_violation')
  // Removing a constraint takes effect without a job.
  const without = await change(schema.id, { unique: [] })
  expect([without.status, without.body.indexes]).toEqual([200, []])
  expect(await indexesOf(schema.id)).toEqual([])
  expect((await create(schema.collection, { title: 'same' })).status).toBe(201)
})

test('index build: left behind by a crash: cleaned up; the declaration is locked during a build', async () => {
  const schema = await createFilled(10)
  await change(schema.id, { indexes: [{ fields: ['age'] }] }, { prefer: 'wait=30' })
  // As a lost worker leaves it: recorded, not started, with half an index.
  await asSuperuser(
    `update tenon.schemas set indexes = jsonb_set(indexes, '{0,state}', '"building"') where id = $1`,
    [schema.id],
  )
  await asSuperuser(
    `update pg_index set indisvalid = false where indexrelid = format('tenon_data.%I', $1::text || '_i1')::regclass`,
    [schema.id],
  )
  await asSuperuser(
    `update tenon.operations set state = 'queued', workflow_id = $2
       where target = $1`,
    [
      schema.id,
      `${workspace.tenantId}:${workspace.workspaceId}:${schema.id}:01900000-0000-7000-8000-000000000000`,
    ],
  )
  const refused = await change(schema.id, { schema: {} })
  expect([refused.status, refused.body.code]).toEqual([409, 'state_conflict'])
  await eventually(async () => {
    const [index] = await indexesOf(schema.id)
    return index?.indisvalid ? true : undefined
  })
  const [operation] = await asSuperuser<{ id: string }>('select id from tenon.operations where target = $1', [
    schema.id,
  ])
  expect(await waitForOperation(`/v1/operations/${operation?.id}`)).toMatchObject({ state: 'succeeded' })
  expect((await change(schema.id, { mode: 'enforce' })).status).toBe(200)
})

test('indexed text: too long for an index: the write is refused', async () => {
  const { body } = await declare({ indexes: [{ fields: ['title'] }] })
  const long = randomBytes(6_000).toString('base64')
  const reply = await create(body.collection, { title: long })
  expect([reply.status, reply.body.code]).toEqual([400, 'value_invalid'])
})

test('index builds: many at once: few connections, workspaces can still be created', async () => {
  const schemas = await Promise.all(
    Array.from({ length: COLLECTION_LIMITS.indexBuildsMax + 3 }, () => createFilled(1)),
  )
  const builders = async () =>
    (await asSuperuser("select from pg_stat_activity where application_name = 'tenon-builder'")).length
  // Builds of one schema wait for each other: here, for one that never ends.
  const holder = new Client({ connectionString: inject('tenon').databaseUrl })
  await holder.connect()
  const response: Reply[] = []
  try {
    for (const { id } of schemas)
      await holder.query('select pg_advisory_lock(hashtextextended($1, 16))', [id])
    for (const { id } of schemas) response.push(await change(id, { indexes: [{ fields: ['age'] }] }))
    await eventually(async () => ((await builders()) >= COLLECTION_LIMITS.indexBuildsMax ? true : undefined))
    await addTestWorkspace(workspace)
    expect(await builders()).toBe(COLLECTION_LIMITS.indexBuildsMax)
  } finally {
    await holder.end()
  }
  for (const { body } of response)
    expect(await waitForOperation(`/v1/operations/${body.id}`)).toMatchObject({ state: 'succeeded' })
})

test('pages: typed fields with ties and missing values: the whole list in every order', async () => {
  const types = { a: 'integer', b: 'string', c: 'number', d: 'boolean' }
  const nullable = Object.entries(types).map(([name, type]) => [name, { type: [type, 'null'] }])
  const schema = { properties: Object.fromEntries(nullable) }
  const { body } = await declare({ schema, indexes: [{ fields: ['a', 'b'] }] })
  const pick = <T>(values: readonly T[], n: number) => values[n % values.length] as T
  await Promise.all(
    Array.from({ length: 40 }, (_, n) =>
      create(body.collection, {
        a: pick([1, 2, null], n),
        ...(n % 5 !== 0 && { b: pick(['x', 'y', 'é'], n * 3 + (n % 7)) }),
        c: pick([0.5, -1, null, 2], n),
        d: pick([true, false, null], n >> 1),
      }),
    ),
  )
  const list = async (order: string, size: number) => {
    const ids: string[] = []
    for (let next: string | null = ''; next !== null; ) {
      const after: string = next === '' ? '' : `&page[after]=${next}`
      const reply = await call('GET', `${at(body.collection)}?order=${order}&page[size]=${size}${after}`, {
        as: workspace.service,
      })
      expect(reply.status).toBe(200)
      ids.push(...reply.body.data.map(({ id }: { id: string }) => id))
      next = reply.body.page.next
    }
    return ids
  }
  for (const order of [
    ...['a', 'a.desc', 'a.nullsfirst', 'a.desc.nullslast', 'd', 'c.desc,id', 'a,id.desc', 'b.desc,c,d.desc'],
    ...['a,b', 'a.desc,b', 'a,b.desc', 'a.nullsfirst,b.desc.nullslast,c', 'b.desc,_version,a', 'extra,a'],
  ]) {
    const whole = await list(order, 200)
    expect(new Set(whole).size).toBe(40)
    for (const size of [1, 3, 7]) expect([order, size, await list(order, size)]).toEqual([order, size, whole])
  }
})
