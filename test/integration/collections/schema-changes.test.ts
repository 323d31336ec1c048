/** Changes of declarations: columns, policies and indexes follow; no document is lost or escapes validation. */

import { Client } from 'pg'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { openCollectionsToAnon } from '../../support/stack/workspace-settings.ts'

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
const columnsOf = async (id: string) => {
  const [row] = await asSuperuser<{ relation: string }>('select relation from tenon.schemas where id = $1', [
    id,
  ])
  const rows = await asSuperuser<{ name: string; type: string }>(
    `select attname as name, format_type(atttypid, null) as type from pg_attribute
     where attrelid = format('tenon_data.%I', $1::text)::regclass and attname ~ '^c[0-9]+$' order by attnum`,
    [row?.relation],
  )
  return Object.fromEntries(rows.map(({ name, type }) => [name, type]))
}
const indexesOf = (id: string) =>
  asSuperuser<{ relname: string; indisvalid: boolean; indisunique: boolean }>(
    `select c.relname, i.indisvalid, i.indisunique from pg_index i join pg_class c on c.oid = i.indexrelid
     where c.relname like $1 || '\\_i%' order by 1`,
    [id],
  )

describe('declaring with indexes', () => {
  test('declaration: indexes and unique constraints on declared scalar fields: effective at once', async () => {
    const { status, body } = await declare({ indexes: [{ fields: ['age', 'title'] }], unique: [['title']] })
    expect(status).toBe(201)
    expect(body.indexes).toEqual([
      { name: 'i1', fields: ['age', 'title'], unique: false, state: 'ready' },
      { name: 'i2', fields: ['title'], unique: true, state: 'ready' },
    ])
    expect(await indexesOf(body.id)).toEqual([
      { relname: `${body.id}_i1`, indisvalid: true, indisunique: false },
      { relname: `${body.id}_i2`, indisvalid: true, indisunique: true },
    ])
    expect((await create(body.collection, { title: 'a' })).status).toBe(201)
    expect((await create(body.collection, { title: 'a' })).status).toBe(409)
    // Null and missing values never conflict.
    for (const none of [{}, {}]) expect((await create(body.collection, none)).status).toBe(201)
  })

  test.each([
    ['misspelt field', { indexes: [{ fields: ['titel'] }] }, 'did you mean "title"'],
    [
      'field without a scalar type',
      { schema: { properties: { a: {} } }, unique: [['a']] },
      'is not declared as',
    ],
    ['no enforcement', { mode: 'warn', unique: [['title']] }, 'need mode enforce'],
    [
      'anon may change what it may not read',
      { access: { anon: { read: false, update: true } } },
      'must be able to read',
    ],
    ['too many indexes', { indexes: Array.from({ length: 17 }, () => ({ fields: ['age'] })) }, 'indexes'],
    ['field named twice', { unique: [['age', 'age']] }, 'unique'],
  ])('declaration: %s: 400 with the reason', async (_what, body, detail) => {
    const reply = await declare(body)
    expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed'])
    expect(reply.body.detail).toContain(detail)
  })

  test('declaration: default violates its property: refused', async () => {
    const wrong = {
      properties: {
        a: { type: 'integer', default: 'x' },
        b: { properties: { c: { enum: [1], default: 2 } } },
      },
    }
    const { status, body } = await declare({ schema: wrong })
    expect([status, body.code]).toEqual([422, 'schema_invalid'])
    expect(body.errors.map(({ pointer }: { pointer: string }) => pointer)).toEqual([
      '/schema/properties/a/default',
      '/schema/properties/b/properties/c/default',
    ])
    const right = { properties: { a: { type: 'integer', default: 1 } }, required: ['a'] }
    for (const store of ['relational', 'document']) {
      const { body: good } = await declare({ schema: right, store })
      expect((await create(good.collection, {})).body).toMatchObject({ a: 1 })
      expect((await create(good.collection, { a: 2 })).body).toMatchObject({ a: 2 })
      expect((await create(good.collection, { a: null })).status).toBe(422)
    }
  })

  test('columns: relational: one for each declared property; document: one for each indexed property', async () => {
    const schema = { properties: { ...properties, tags: { type: 'array' }, any: {} } }
    const relational = await declare({ schema })
    expect(await columnsOf(relational.body.id)).toEqual({
      c1: 'text',
      c2: 'bigint',
      c3: 'jsonb',
      c4: 'jsonb',
    })
    const document = await declare({ schema, store: 'document', indexes: [{ fields: ['age'] }] })
    expect(await columnsOf(document.body.id)).toEqual({ c1: 'bigint' })
    for (const { body } of [relational, document]) {
      const fields = { title: 'a', age: 1, tags: [{ a: null }], any: 'text' }
      const made = await create(body.collection, fields)
      expect(
        (await call('GET', at(body.collection, made.body.id), { as: workspace.service })).body,
      ).toMatchObject(fields)
      const found = await call('GET', `${at(body.collection)}?any=eq.text&tags=json_path_eq.([0].a,1)`, {
        as: workspace.service,
      })
      expect(found.body.data).toEqual([])
    }
  })
})

describe.each(['relational', 'document'])('change of a declaration, %s store', (store) => {
  test('writers: several changes missed: writes succeed', async () => {
    const { body } = await declare({ store, schema: {} })
    let isChanging = true
    const writer = async () => {
      while (isChanging) expect(await create(body.collection, { title: 'a' })).toMatchObject({ status: 201 })
    }
    const writers = Promise.all(Array.from({ length: 6 }, writer))
    const changeRepeatedly = async (name: string) => {
      for (let n = 0; n < 8; n++)
        expect((await change(body.id, { schema: { properties: { [`${name}${n}`]: {} } } })).status).toBe(200)
    }
    const changers = Promise.all(['a', 'b', 'c'].map(changeRepeatedly)).finally(() => {
      isChanging = false
    })
    await Promise.all([writers, changers])
  })

  test('properties: added and removed: values follow', async () => {
    const { body } = await declare({ store, mode: 'off' })
    const fields = { title: 'a', age: 1, more: 2.5, note: 'x', odd: null, deep: { a: [1, null] } }
    const made = await create(body.collection, fields)
    const read = async () => {
      const { id, _created_at, _updated_at, _version, ...rest } = (
        await call('GET', at(body.collection, made.body.id), { as: workspace.service })
      ).body
      return { rest, _version, _updated_at }
    }
    const before = await read()
    for (const schema of [
      {
        properties: {
          ...properties,
          more: { type: 'number' },
          note: { type: 'integer' },
          odd: { type: 'string' },
          deep: {},
        },
      },
      { properties: { title: { type: 'boolean' }, more: { type: 'integer' }, deep: { type: 'string' } } },
      { properties: { age: {}, more: {}, note: { type: 'string' } } },
      {},
    ]) {
      const changed = await change(body.id, { schema })
      expect([changed.status, changed.body.schema]).toEqual([200, schema])
      expect(await read()).toEqual(before)
    }
    expect(before.rest).toEqual(fields)
  })

  test('schema change: documents certainly fit: not scanned; documents violate it: refused with their ids', async () => {
    const { body } = await declare({ store, schema: { properties, required: ['title'] } })
    const good = await create(body.collection, { title: 'a', age: 1 })
    const bad = await create(body.collection, { title: 'abcdef' })
    const shorter = {
      properties: { ...properties, title: { type: 'string', maxLength: 3 } },
      required: ['title'],
    }
    const refused = await change(body.id, { schema: shorter })
    expect([refused.status, refused.body.code]).toEqual([409, 'schema_incompatible'])
    expect(refused.body).toMatchObject({ examined: 2, offending: [{ id: bad.body.id, pointer: '/title' }] })
    const { body: same } = await call('GET', `/v1/schemas/${body.id}`, { as: workspace.operator })
    const { warnings: _, ...declared } = body
    expect(same).toEqual(declared)
    expect((await change(body.id, { schema: shorter, mode: 'warn' })).status).toBe(200)
    expect((await change(body.id, { mode: 'enforce' })).body.code).toBe('schema_incompatible')
    await call('PUT', at(body.collection, bad.body.id), { as: workspace.service, body: { title: 'abc' } })
    expect((await change(body.id, { mode: 'enforce' })).status).toBe(200)
    expect((await create(body.collection, { title: 'abcdef' })).body.code).toBe('schema_violation')
    // A property removed from a closed schema is a violation in documents that have a value.
    const closed = {
      properties: { title: { type: 'string' } },
      required: ['title'],
      additionalProperties: false,
    }
    const deleted = await change(body.id, { schema: closed })
    expect(deleted.body.offending).toMatchObject([{ id: good.body.id, pointer: '/age' }])
  })

  test('schema change: other store, collection or workspace: refused; If-Match: revision is compared', async () => {
    const { body } = await declare({ store })
    const { collection, workspace_id } = body
    const moved = store === 'document' ? 'relational' : 'document'
    for (const [name, value] of Object.entries({ store: moved, collection: 'other', workspace_id: 'ws_x' })) {
      const { status, body: problem } = await change(body.id, { [name]: value })
      expect([status, problem.errors[0].name]).toEqual([400, name])
    }
    expect((await change(body.id, { store, collection, workspace_id })).body.revision).toBe(0)
    expect((await change(body.id, { schema: {}, revision: 0 })).body.revision).toBe(1)
    const late = await change(body.id, { schema: { properties }, revision: 0 })
    expect([late.status, late.body.code]).toEqual([409, 'conflict'])
    expect(await asSuperuser('select from pg_class where relname = $1', [body.id])).toEqual([])
  })

  test('schema change: access of anon keys: effective', async () => {
    await openCollectionsToAnon(workspace)
    const { body } = await declare({ store, access: { anon: { read: false } } })
    await create(body.collection, { title: 'a' })
    const get = async () => (await call('GET', at(body.collection), { as: workspace.anon })).status
    expect(await get()).toBe(403)
    expect((await change(body.id, { access: {} })).body.access).toEqual({})
    expect(await get()).toBe(200)
    await change(body.id, { access: { anon: { read: false } } })
    expect(await get()).toBe(403)
  })

  test('schema change: document written between scan and change: validated too', async () => {
    const { body } = await declare({ store, schema: { properties: { n: { type: 'integer' } } } })
    await create(body.collection, { n: 1 })
    const { tenantId, workspaceId } = workspace
    const client = new Client({ connectionString: inject('tenon').env['DATABASE_APP_URL'] })
    await client.connect()
    try {
      await client.query('begin')
      await client.query(
        "select set_config('role', 'tenon_service', true), set_config('tenon.tenant', $1, true), set_config('tenon.workspace', $2, true)",
        [tenantId, workspaceId],
      )
      const field = store === 'relational' ? 'c1' : 'extra'
      const value = store === 'relational' ? 50 : { n: 50 }
      const { rows } = await client.query(
        `insert into tenon_data."${body.id}" (id, ${field}) values (gen_random_uuid(), $1) returning id`,
        [value],
      )
      const changing = change(body.id, { schema: { properties: { n: { type: 'integer', maximum: 10 } } } })
      // The scan covers what is committed; now the change waits for the writer.
      await eventually(async () => {
        const waiting = await asSuperuser(
          `select from pg_locks where not granted and relation = format('tenon_data.%I', $1::text)::regclass`,
          [body.id],
        )
        return waiting.length > 0 ? true : undefined
      })
      await client.query('commit')
      const reply = await changing
      expect([reply.status, reply.body.offending]).toMatchObject([409, [{ id: rows[0].id, pointer: '/n' }]])
    } finally {
      await client.end()
    }
  })

  test('schema change: concurrent writes: every document fits the final schema, none is lost', async () => {
    const { body } = await declare({ store, schema: { properties: { n: { type: 'integer' } } } })
    await Promise.all(Array.from({ length: 100 }, () => create(body.collection, { n: 1 })))
    let stop = false
    const made: string[] = []
    const writer = async (worker: number) => {
      for (let n = 0; !stop; n++) {
        const { status, body: reply } = await create(body.collection, { n: (n + worker) % 2 === 0 ? 5 : 50 })
        if (status === 201) made.push(reply.id)
        else expect(reply.code).toBe('schema_violation')
      }
    }
    const writers = [0, 1, 2].map(writer)
    await eventually(async () => (made.length > 20 ? true : undefined))
    const deleted = new Set<string>()
    /** Deletes documents that violate the schema, so that a later attempt can succeed. */
    const narrow = async () => {
      const reply = await change(body.id, { schema: { properties: { n: { type: 'integer', maximum: 10 } } } })
      for (const { id } of reply.body.offending ?? []) {
        await call('DELETE', at(body.collection, id), { as: workspace.service })
        deleted.add(id)
      }
      return reply.status
    }
    const attempts = [await narrow(), await narrow(), await narrow()]
    stop = true
    await Promise.all(writers)
    expect(attempts[0]).toBe(409)
    await eventually(async () => ((await narrow()) === 200 ? true : undefined))
    const over = await call('POST', `/v1/collections/${body.collection}/query`, {
      as: workspace.service,
      body: { filter: { n: { gt: 10 } } },
    })
    expect(over.body.data).toEqual([])
    const [count] = await asSuperuser<{ n: string }>(
      `select count(*) as n from tenon_data."${await relationOf(body.id)}" where id = any($1::uuid[])`,
      [made],
    )
    expect(Number(count?.n)).toBe(made.filter((id) => !deleted.has(id)).length)
  })
})

const relationOf = async (id: string) =>
  (await asSuperuser<{ relation: string }>('select relation from tenon.schemas where id = $1', [id]))[0]
    ?.relation
