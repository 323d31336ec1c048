/** Checks declared collections: modes, indexes, unique fields, defaults, schema changes and index builds. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  expectProblem,
  expectStatus,
  get,
  list,
  pause,
  type Reply,
  str,
} from '../../support/clients/rest-client.ts'
import { declare, documents, fill, type Row, tags } from '../../support/fixtures/declared-collections.ts'
import { createTenantPair, expectIsolated, type World, word } from '../../support/fixtures/tenant-pair.ts'

let world: World

const STORES = ['relational', 'document'] as const
const TEXT = { type: 'string' }

beforeAll(async () => {
  world = await createTenantPair()
})

const object = (properties: Row, more: Row = {}) => ({
  type: 'object',
  properties: { tag: TEXT, mark: TEXT, ...properties },
  ...more,
})
const change = (id: string, body: Row): Promise<Reply> =>
  world.a.admin.put(`/v1/schemas/${id}`, body, { prefer: 'wait=30' })
const post = (name: string, row: Row): Promise<Reply> =>
  world.a.service.post(documents(name), { ...row, mark: world.a.mark })

/** Waits for the result of a schema PUT: the schema, or the completed operation. */
async function schemaResult(reply: Reply): Promise<unknown> {
  expectStatus(reply, 200, 202)
  if (reply.status === 200) return 'succeeded'
  const location = str(reply, 'id').startsWith('op_') ? `/v1/operations/${str(reply, 'id')}` : ''
  expect(reply.headers.get('location')).toContain('/v1/operations/op_')
  for (let attempt = 0; attempt < 100; attempt++) {
    const operation = await world.a.admin.get(location)
    expectStatus(operation, 200)
    const state = get(operation, 'state')
    if (state !== 'queued' && state !== 'running') return state
    await pause(200)
  }
  throw new Error('the operation does not end')
}

describe.each(STORES)('declaration, store %s', (store) => {
  const name = (purpose: string) => `${purpose}_${store}`

  test('declaration: created: 201 with id, Location and index states; readable', async () => {
    const made = await declare(world.a, name('made'), {
      store,
      schema: object({ n: { type: 'integer' }, email: TEXT }),
      indexes: [{ fields: ['n', 'tag'] }],
      unique: [['email']],
    })
    expect(made.body).toMatchObject({ id: expect.stringMatching(/^sch_/), collection: name('made'), store })
    expect(made.headers.get('location')).toBe(`/v1/schemas/${str(made, 'id')}`)
    const indexes = list(made, 'indexes')
    expect(indexes).toContainEqual(expect.objectContaining({ fields: ['n', 'tag'], unique: false }))
    expect(indexes).toContainEqual(expect.objectContaining({ fields: ['email'], unique: true }))
    const read = await world.a.admin.get(`/v1/schemas/${str(made, 'id')}`)
    // The warnings of the declaration are told once.
    const { warnings: _, ...declared } = made.body as Readonly<Record<string, unknown>>
    expect(read.body).toEqual(declared)
    const page = await world.a.admin.get(`/v1/schemas?workspace_id=${world.a.workspace}&page[size]=200`)
    expect(list(page).map((row) => get(row, 'id'))).toContain(str(made, 'id'))
  })

  test('document: violates the schema in mode enforce: refused with every error and its pointer', async () => {
    const nested = { type: 'object', properties: { zip: { type: 'string', pattern: '^[0-9]{5}$' } } }
    await declare(world.a, name('enforce'), {
      store,
      schema: object(
        { n: { type: 'integer', minimum: 1 }, state: { enum: ['on', 'off'] }, home: nested },
        { required: ['tag'], additionalProperties: false },
      ),
    })
    const row = { n: 0, state: 'half', home: { zip: 'x' }, other: 1 }
    const reply = await post(name('enforce'), row)
    expectProblem(reply, 422)
    const pointers = list(reply, 'errors').map((error) => get(error, 'pointer'))
    for (const wanted of [/\/n$/, /\/state$/, /\/home\/zip$/, /\/other$/, /\/tag$/]) {
      expect(
        pointers.some((pointer) => wanted.test(String(pointer))),
        reply.text,
      ).toBe(true)
    }
    const good = await post(name('enforce'), { tag: 'ok', n: 1, state: 'on', home: { zip: '01234' } })
    expectStatus(good, 201)
    const path = `${documents(name('enforce'))}/${str(good, 'id')}`
    const merge = { 'content-type': 'application/merge-patch+json' }
    const patched = { json: { home: { zip: '1' } }, headers: merge }
    expectProblem(await world.a.service.send('PATCH', path, patched), 422)
    expectProblem(await world.a.service.put(`${path}?unset=tag`, {}), 422)
    expectProblem(await world.a.service.put(`${path}?replace=true`, { n: 5 }), 422)
    expect((await world.a.service.get(path)).body).toMatchObject({ tag: 'ok', n: 1, _version: 1 })
  })

  test('defaults: fields missing on create: filled; otherwise: unchanged', async () => {
    await declare(world.a, name('defaults'), {
      store,
      schema: object(
        {
          state: { type: 'string', default: 'new' },
          n: { type: 'integer', default: 3 },
          flag: { type: ['boolean', 'null'], default: true },
        },
        { required: ['state'] },
      ),
    })
    const made = await post(name('defaults'), { tag: 'd', n: 9, flag: null })
    expectStatus(made, 201)
    expect(made.body).toMatchObject({ state: 'new', n: 9, flag: null })
    expect(tags(await world.a.service.get(`${documents(name('defaults'))}?state=eq.new`))).toEqual(['d'])
  })

  test('unique field: value taken: 409 that names it; null and missing: may repeat; updates: checked', async () => {
    await declare(world.a, name('unique'), {
      store,
      schema: object({ email: { type: ['string', 'null'] }, a: { type: 'integer' }, b: { type: 'integer' } }),
      unique: [['email'], ['a', 'b']],
    })
    const [first] = await fill(world.a, name('unique'), [
      { tag: 'x', email: 'x@y', a: 1, b: 1 },
      { tag: 'n', email: null },
      { tag: 'n2', email: null, a: 1, b: 2 },
      { tag: 'm', a: 1 },
      { tag: 'm2', a: 1 },
    ])
    const conflict = await post(name('unique'), { tag: 'z', email: 'x@y' })
    expectProblem(conflict, 409, 'unique_violation')
    expect(conflict.text).toContain('email')
    expectProblem(await post(name('unique'), { tag: 'z', a: 1, b: 2 }), 409, 'unique_violation')
    const path = `${documents(name('unique'))}/${first}`
    expectProblem(await world.a.service.put(path, { b: 2 }), 409, 'unique_violation')
    expectStatus(await world.a.service.put(path, { email: 'x@y' }), 200)
    expectStatus(await world.a.service.delete(path), 200)
    expectStatus(await post(name('unique'), { tag: 'z', email: 'x@y' }), 201)
  })

  test('schema change: compatible: made in place, existing documents follow', async () => {
    const made = await declare(world.a, name('grow'), { store, schema: object({ n: { type: 'integer' } }) })
    await fill(world.a, name('grow'), [
      { tag: 'one', n: 1, later: 'a' },
      { tag: 'two', n: 2 },
    ])
    const schema = object({ n: { type: ['integer', 'null'] }, later: TEXT, more: { type: 'boolean' } })
    expect(await schemaResult(await change(str(made, 'id'), { schema }))).toBe('succeeded')
    const read = await world.a.admin.get(`/v1/schemas/${str(made, 'id')}`)
    expect(get(read, 'schema/properties/later')).toEqual(TEXT)
    const docs = documents(name('grow'))
    expect(tags(await world.a.service.get(`${docs}?later=eq.a`))).toEqual(['one'])
    expect(tags(await world.a.service.get(`${docs}?later=is.null`))).toEqual(['two'])
    expectStatus(await post(name('grow'), { tag: 'three', n: null, more: true }), 201)
    expect(tags(await world.a.service.get(`${docs}?more=eq.true`))).toEqual(['three'])
  })

  test('schema change: incompatible: refused with the offending documents, nothing changes', async () => {
    const made = await declare(world.a, name('narrow'), {
      store,
      schema: object({ n: { type: 'integer' }, s: TEXT }),
    })
    const ids = await fill(world.a, name('narrow'), [
      { tag: 'fits', n: 5, s: 'x' },
      { tag: 'low', n: 1, s: 'y' },
      { tag: 'bare', n: 6 },
    ])
    const before = (await world.a.admin.get(`/v1/schemas/${str(made, 'id')}`)).body
    const narrowed = object({ n: { type: 'integer', minimum: 5 }, s: TEXT }, { required: ['s'] })
    const reply = await change(str(made, 'id'), { schema: narrowed })
    expectProblem(reply, 409)
    expect(reply.text).not.toContain(ids[0])
    expect(reply.text).toContain(ids[1])
    expect(reply.text).toContain(ids[2])
    expect((await world.a.admin.get(`/v1/schemas/${str(made, 'id')}`)).body).toEqual(before)
    expectStatus(await post(name('narrow'), { tag: 'still', n: 0 }), 201)
  })

  test('schema change: another type, a document does not fit: refused', async () => {
    const made = await declare(world.a, name('retype'), { store, schema: object({ n: TEXT }) })
    const [id] = await fill(world.a, name('retype'), [{ tag: 'word', n: 'many' }])
    const reply = await change(str(made, 'id'), { schema: object({ n: { type: 'integer' } }) })
    expectProblem(reply, 409)
    expect(reply.text).toContain(id)
  })

  test('mode enforce: set while documents do not fit: refused until all do', async () => {
    const body = { store, mode: 'off', schema: object({ n: { type: 'integer' } }) }
    const made = await declare(world.a, name('strict'), body)
    const [id] = await fill(world.a, name('strict'), [{ tag: 'odd', n: 'many' }])
    const reply = await change(str(made, 'id'), { mode: 'enforce' })
    expectProblem(reply, 409)
    expect(reply.text).toContain(id)
    expectStatus(await world.a.service.put(`${documents(name('strict'))}/${id}`, { n: 5 }), 200)
    expect(await schemaResult(await change(str(made, 'id'), { mode: 'enforce' }))).toBe('succeeded')
    expectProblem(await post(name('strict'), { tag: 'odd', n: 'many' }), 422)
    expect(tags(await world.a.service.get(`${documents(name('strict'))}?n=gt.4`))).toEqual(['odd'])
  })

  test('unique field: concurrent creates with one value: one is stored', async () => {
    await declare(world.a, name('race'), { store, schema: object({ email: TEXT }), unique: [['email']] })
    const replies = await Promise.all(Array.from({ length: 6 }, () => post(name('race'), { email: 'e' })))
    expect(replies.map(({ status }) => status).toSorted()).toEqual([201, 409, 409, 409, 409, 409])
    expect(list(await world.a.service.get(documents(name('race'))))).toHaveLength(1)
  })

  test('field names: reserved words of databases: accepted', async () => {
    const long = 'p'.repeat(70)
    const fields = [
      'tenant_id',
      'workspace_id',
      'extra',
      'data',
      'version',
      'created_at',
      'select',
      'ctid',
      'xmin',
    ]
    const odd = ['we"ird', 'a.b', 'Upper', 'upper', 'größe', 'constructor', `${long}1`, `${long}2`]
    const row = Object.fromEntries([...fields, ...odd].map((field, at) => [field, `v${at}`]))
    const schema = object(Object.fromEntries(Object.keys(row).map((field) => [field, TEXT])))
    await declare(world.a, name('names'), { store, schema })
    const [id] = await fill(world.a, name('names'), [{ tag: 'odd', ...row }])
    expect((await world.a.service.get(`${documents(name('names'))}/${id}`)).body).toMatchObject(row)
    for (const [field, value] of Object.entries(row)) {
      const quoted = encodeURIComponent(JSON.stringify(field))
      const query = `${quoted}=eq.${value}&order=${quoted}.desc&select=tag,${quoted}`
      const found = list(await world.a.service.get(`${documents(name('names'))}?${query}`))
      expect(found, field).toEqual([{ id, tag: 'odd', [field]: value }])
    }
  })

  test('declaration: deleted with an empty collection: the collection is undeclared', async () => {
    const made = await declare(world.a, name('gone'), { store, schema: object({ n: { type: 'integer' } }) })
    const path = `/v1/schemas/${str(made, 'id')}`
    expectStatus(await world.a.admin.delete(path), 200)
    expectProblem(await world.a.admin.get(path), 404)
    expectProblem(await world.a.admin.delete(path), 404)
    expectStatus(await post(name('gone'), { tag: 'x', n: 'free' }), 201)
  })

  test.each([
    ['unknown type', { schema: { type: 'nonsense' } }],
    ['root type array', { schema: { type: 'array' } }],
    ['index on an undeclared field', { indexes: [{ fields: ['nope'] }] }],
    ['unique constraint on an undeclared field', { unique: [['nope']] }],
    ['index on a list', { schema: object({ a: { type: 'array' } }), indexes: [{ fields: ['a'] }] }],
    ['reserved name', { schema: object({ _version: TEXT }) }],
    ['field id with another type', { schema: object({ id: { type: 'integer' } }) }],
    ['external $ref', { schema: object({ n: { $ref: 'https://example.org/x.json' } }) }],
    ['unknown mode', { mode: 'maybe' }],
    ['unknown store', { store: 'paper' }],
    ['unknown member', { colour: 1 }],
    ['access for an unknown role', { access: { everyone: { read: true } } }],
    ['invalid collection name', { collection: '9 lives' }],
    ['default that does not fit', { schema: object({ n: { type: 'integer', default: 'x' } }) }],
  ])('declaration: %s: refused', async (_, more) => {
    const body = {
      workspace_id: world.a.workspace,
      collection: `r${word()}`,
      store,
      schema: object({}),
      ...more,
    }
    const reply = await world.a.admin.post('/v1/schemas', body)
    expectProblem(reply, reply.status === 422 ? 422 : 400)
  })
})

describe('who may declare', () => {
  test('declaration: by a data key: refused with the credential needed', async () => {
    const { a } = world
    const body = { workspace_id: a.workspace, collection: 'mine', store: 'document', schema: object({}) }
    for (const caller of [a.service, a.anon]) {
      expectProblem(await caller.post('/v1/schemas', body), 403, 'privilege_domain_mismatch')
      expectProblem(await caller.get('/v1/schemas'), 403, 'privilege_domain_mismatch')
    }
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
