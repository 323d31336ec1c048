/** Declared timestamps, dates, UUIDs and exact numbers: compared by value, returned as written. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { exported, importInto, lines } from '../../support/clients/ndjson.ts'
import { closeSubscriptions } from '../../support/clients/sse.ts'
import { publishedChanges } from '../../support/fixtures/outbox.ts'
import {
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

afterAll(closeSubscriptions)

const properties = {
  n: { type: 'string' },
  at: { type: ['string', 'null'], format: 'date-time' },
  day: { type: 'string', format: 'date' },
  ref: { type: 'string', format: 'uuid' },
}
const at = (collection: string, id = '') => `/v1/collections/${collection}/documents${id && `/${id}`}`

async function declareCollection(body: object = {}): Promise<{ id: string; collection: string }> {
  const defaults = { workspace_id: workspace.workspaceId, collection: unique('c'), store: 'relational' }
  const reply = await call('POST', '/v1/schemas', {
    as: workspace.operator,
    body: { ...defaults, schema: { properties }, ...body },
  })
  expect([reply.status, reply.body]).toMatchObject([201, {}])
  return reply.body
}
async function fill(collection: string, documents: readonly object[]): Promise<void> {
  for (const body of documents)
    expect((await call('POST', at(collection), { as: workspace.service, body })).status).toBe(201)
}
const ask = (collection: string, query: string): Promise<Reply> =>
  call('GET', `${at(collection)}?${query}`, { as: workspace.service })
const names = ({ status, body }: Reply): string =>
  status === 200 ? body.data.map(({ n }: { n: unknown }) => n).join(' ') : body.code

const REF = '01890a5d-ac96-774b-bcce-b302099a8057'
/** `a`, `b` and `c` are one point in time; `d` is earlier but sorts later as text. */
const DOCUMENTS = [
  { n: 'a', at: '2026-01-01T00:00:00Z', day: '2026-01-01', ref: REF },
  { n: 'b', at: '2026-01-01T02:00:00.000+02:00', ref: REF.toUpperCase() },
  { n: 'c', at: '2025-12-31t19:00:00-05:00', day: '2025-12-31' },
  { n: 'd', at: '2026-01-01T01:59:59.999999999+02:00' },
  { n: 'e', at: '2026-01-01T00:00:00.1z' },
  { n: 'f', at: null },
  { n: 'g' },
]

describe.each([
  ['relational', {}],
  ['relational, with indexes', { indexes: [{ fields: ['at'] }, { fields: ['ref'] }, { fields: ['day'] }] }],
  ['document', { store: 'document' }],
  ['relational, not enforced', { mode: 'warn' }],
])('formats, %s', (_name, body) => {
  let collection: string
  beforeAll(async () => {
    collection = (await declareCollection(body)).collection
    await fill(collection, DOCUMENTS)
  })

  test.each([
    ['at=eq.2026-01-01T00:00:00Z', 'a b c'],
    ['at=eq.2025-12-31T23:00:00.0-01:00', 'a b c'],
    ['at=neq.2026-01-01', 'd e'],
    ['at=in.(2026-01-01,2026-01-01T00:00:00.100Z)', 'a b c e'],
    ['at=gt.2026-01-01T00:00:00Z', 'e'],
    ['at=gte.2026-01-01T01:00:00%2B01:00', 'a b c e'],
    ['at=lt.2026-01-01', 'd'],
    ['at=not.lt.2026-01-01', 'a b c e'],
    ['at=isdistinct.2026-01-01', 'd e f g'],
    ['at=is.null', 'f g'],
    ['at=exists.true', 'a b c d e f'],
    ['at=like.2025*', 'c'],
    ['at=not.like.2026*', 'c'],
    [`ref=eq.${REF}`, 'a b'],
    [`ref=eq.${REF.toUpperCase()}`, 'a b'],
    ['day=lt.2026-01-01', 'c'],
    ['order=at', 'd a b c e f g'],
    ['order=at.desc', 'g f e c b a d'],
    ['order=at.desc.nullslast,n.desc', 'e c b a d g f'],
    ['or=(at.lt.2026-01-01,day.eq.2026-01-01)', 'a d'],
  ])('query: %s: finds %s', async (query, found) => {
    expect(names(await ask(collection, query))).toBe(found)
  })

  test.each([
    ['at=gt.yesterday', 'declared as date-time; got "yesterday"', 'at=gte.2026-01-31T12:00:00Z'],
    ['at=gt.2026-01-01T00:00:00+02:00', 'got "2026-01-01T00:00:00 02:00"', '%2B'],
    ['at=eq.2026-02-29', 'got "2026-02-29"', 'at=gte.'],
    ['at=gte.2026', 'got "2026"', 'at=gte.'],
    ['at=in.(2026-01-01,x)', 'got "x"', 'at=gte.'],
    ['ref=eq.x', 'declared as uuid; got "x"', 'type'],
    ['day=gt.2026-01-01T00:00:00Z', 'declared as date; got', 'type'],
  ])('query: %s: 400', async (query, detail, hint) => {
    const { status, body: problem } = await ask(collection, query)
    expect([status, problem.code]).toEqual([400, 'filter_type_mismatch'])
    expect(problem.detail).toContain(detail)
    expect(problem.hint).toContain(hint)
  })

  test.each(['at', 'at.desc', 'at.nullsfirst', 'at.desc.nullslast', 'ref,at'])(
    'pages: order %s, with ties at the page end: nothing lost, nothing repeated',
    async (order) => {
      const whole = names(await ask(collection, `order=${order}`))
      for (const size of [1, 2, 3]) {
        const seen: string[] = []
        for (let after = ''; ; ) {
          const { body: page } = await ask(collection, `order=${order}&page[size]=${size}${after}`)
          seen.push(...page.data.map(({ n }: { n: string }) => n))
          if (page.page.next === null) break
          after = `&page[after]=${page.page.next}`
        }
        expect(seen.join(' ')).toBe(whole)
      }
    },
  )

  test('document: every format: returned as written', async () => {
    const { body: page } = await ask(collection, '')
    const fields = page.data.map(
      ({ id, _created_at, _updated_at, _version, ...rest }: Record<string, unknown>) => rest,
    )
    expect(fields).toEqual(DOCUMENTS)
  })
})

describe('values that violate their format in mode off', () => {
  test.each(['relational', 'document'])(
    '%s: stored, returned, and found by untyped filters only',
    async (store) => {
      const { collection } = await declareCollection({ store, mode: 'off' })
      const odd = [
        { n: 'x', at: 'yesterday' },
        { n: 'y', at: 42 },
        { n: 'z', at: '' },
        { n: 'o', at: { a: 1 } },
      ]
      await fill(collection, [...odd, ...DOCUMENTS])
      const found: [string, string][] = [
        ['at=gte.0000-01-01', 'a b c d e'],
        ['at=neq.2026-01-01', 'x y z o d e'],
        ['at=not.gt.2026-01-01', 'x y z o a b c d'],
        ['at=is.null', 'f g'],
        ['at=exists.true', 'x y z o a b c d e f'],
        ['at=like.yes*', 'x'],
        ['order=at&at=exists.true', 'd a b c e x y z o f'],
      ]
      for (const [query, names_] of found)
        expect([query, names(await ask(collection, query))]).toEqual([query, names_])
      const { body } = await ask(collection, 'n=in.(x,y,z,o)')
      expect(body.data).toMatchObject(odd)
    },
  )
})

describe('change of a declaration', () => {
  const plain = { properties: { ...properties, at: { type: ['string', 'null'] } } }
  const put = (id: string, body: object) =>
    call('PUT', `/v1/schemas/${id}`, { as: workspace.operator, body, headers: { prefer: 'wait=20' } })

  test.each(['relational', 'document'])(
    '%s: format added and removed with existing documents: results follow the declaration',
    async (store) => {
      const indexes = [{ fields: ['at'] }]
      const { id, collection } = await declareCollection({ store, schema: plain, indexes })
      await fill(collection, DOCUMENTS)
      const byText = 'c e a d b f g'
      expect(names(await ask(collection, 'order=at'))).toBe(byText)
      expect((await put(id, { schema: { properties } })).status).toBe(200)
      expect(names(await ask(collection, 'order=at'))).toBe('d a b c e f g')
      expect(names(await ask(collection, 'at=eq.2026-01-01'))).toBe('a b c')
      expect((await put(id, { schema: plain })).status).toBe(200)
      expect(names(await ask(collection, 'order=at'))).toBe(byText)
      expect(names(await ask(collection, 'at=eq.2026-01-01'))).toBe('')
      const { body } = await ask(collection, '')
      expect(body.data).toMatchObject(DOCUMENTS)
    },
  )

  test('format added: existing documents violate it: refused', async () => {
    const { id, collection } = await declareCollection({ schema: plain })
    await fill(collection, [{ n: 'x', at: 'yesterday' }])
    const refused = await put(id, { schema: { properties } })
    expect([refused.status, refused.body.code]).toEqual([409, 'schema_incompatible'])
    expect((await put(id, { schema: { properties }, mode: 'warn' })).status).toBe(200)
    expect(names(await ask(collection, 'at=gt.0000-01-01'))).toBe('')
  })

  test('unique constraint added: two spellings of one point in time: refused', async () => {
    const { id, collection } = await declareCollection({ schema: plain, unique: [['at']] })
    await fill(collection, DOCUMENTS.slice(0, 2))
    const { body } = await put(id, { schema: { properties } })
    expect(body).toMatchObject({ type: 'index.build', state: 'failed', error: { code: 'unique_violation' } })
  })

  test('columns: as many as a table allows: the other fields are compared as well', async () => {
    const many = Object.fromEntries(Array.from({ length: 150 }, (_, n) => [`at${n}`, properties.at]))
    const { collection } = await declareCollection({
      schema: { properties: { n: {}, ...many } },
      indexes: [{ fields: ['at149'] }],
    })
    const of = (field: string) =>
      DOCUMENTS.map(({ n, at: value }) => ({
        n: `${field}${n}`,
        ...(value !== undefined && { [field]: value }),
      }))
    for (const field of ['at0', 'at148', 'at149']) {
      await fill(collection, of(field))
      expect(names(await ask(collection, `${field}=gte.2026-01-01&order=${field}`))).toBe(
        ['a', 'b', 'c', 'e'].map((n) => field + n).join(' '),
      )
    }
  })
})

describe('unique constraint by value', () => {
  test.each(['relational', 'document'])(
    'unique constraint, %s: other spelling of the same value: 409',
    async (store) => {
      const { collection } = await declareCollection({ store, unique: [['at', 'ref']] })
      const create = (body: object) => call('POST', at(collection), { as: workspace.service, body })
      const made = await create({ n: 'a', at: '2026-01-01T00:00:00Z', ref: REF })
      expect(made.status).toBe(201)
      const same = { at: '2026-01-01T01:00:00+01:00', ref: REF.toUpperCase() }
      const refused = await create(same)
      expect([refused.status, refused.body.code]).toEqual([409, 'unique_violation'])
      // An upsert finds the document; in one batch the second op finds the document that the first creates.
      const other = { at: '2027-01-01T00:00:00Z', ref: REF }
      const ops = [
        { op: 'upsert', on: ['at', 'ref'], data: { ...same, n: 'b' } },
        { op: 'upsert', on: ['at', 'ref'], data: { ...other, n: 'c' } },
        { op: 'upsert', on: ['at', 'ref'], data: { ...other, at: '2026-12-31T23:00:00-01:00', n: 'd' } },
      ]
      const batch = await call('POST', `/v1/collections/${collection}/batch`, {
        as: workspace.service,
        body: { ops },
      })
      expect(batch.status).toBe(200)
      const { body } = await ask(collection, 'order=at')
      expect(body.data).toMatchObject([
        { id: made.body.id, ...same, n: 'b' },
        { at: '2026-12-31T23:00:00-01:00', n: 'd' },
      ])
      const wrong = { op: 'upsert', on: ['at', 'ref'], data: { at: 'yesterday', ref: REF } }
      const judged = await call('POST', `/v1/collections/${collection}/batch`, {
        as: workspace.service,
        body: { ops: [wrong] },
      })
      expect(judged.body.code).toBe('schema_violation')
    },
  )
})

test('change events, exports, selections: formatted values: as written, without internal columns', async () => {
  const { collection } = await declareCollection({ indexes: [{ fields: ['at'] }] })
  const [first] = DOCUMENTS.slice(1)
  const text = lines(first ?? {})
  expect((await importInto(collection, text, { as: workspace.service })).body).toMatchObject({ created: 1 })
  const [kept] = await exported(collection, { as: workspace.service })
  const { id, _version, _created_at, _updated_at, ...fields } = kept as Record<string, unknown>
  expect(fields).toEqual(first)
  const changed = await call('PUT', at(collection, String(id)), {
    as: workspace.service,
    body: { at: '2026-06-01T00:00:00.000Z' },
  })
  expect(changed.body).toEqual({
    ...kept,
    at: '2026-06-01T00:00:00.000Z',
    _version: 2,
    _updated_at: expect.anything(),
  })
  expect(names(await ask(collection, 'at=eq.2026-06-01'))).toBe('b')
  expect((await ask(collection, 'select=at')).body.data).toEqual([{ id, at: '2026-06-01T00:00:00.000Z' }])
  const events = await publishedChanges(workspace, collection)
  expect(events.map(({ data }) => data.document)).toEqual([
    first,
    { ...first, at: '2026-06-01T00:00:00.000Z' },
  ])
})

describe.each(['relational', 'document'])('exact numbers, %s', (store) => {
  const numbers = {
    n: { type: 'string' },
    price: { type: 'string', format: 'decimal' },
    seq: { type: 'string', format: 'int64' },
  }
  const make = (body: object = {}) =>
    declareCollection({ store, mode: 'enforce', schema: { properties: numbers }, ...body })
  const PRICED = [
    { n: 'a', price: '9.99', seq: '9007199254740993' },
    { n: 'b', price: '10', seq: '9007199254740992' },
    { n: 'c', price: '9.990', seq: '-9223372036854775808' },
    { n: 'd', price: '-0.1', seq: '9223372036854775807' },
    { n: 'e', price: '0.1234567890123456789' },
  ]
  let collection: string
  beforeAll(async () => {
    collection = (await make({ indexes: [{ fields: ['price'] }] })).collection
    await fill(collection, PRICED)
  })

  test.each([
    ['price=gte.9.99', 'a b c'],
    ['price=eq.9.990', 'a c'],
    ['price=lt.0', 'd'],
    ['price=eq.9.990000000000000000000001', ''],
    ['price=gt.9.990000000000000000000001', 'b'],
    ['price=lt.0.1234567890123456790', 'd e'],
    ['price=in.(10.0,"-0.10")', 'b d'],
    ['seq=gt."9007199254740992"', 'a d'],
    ['order=price', 'd e a c b'],
    ['order=seq.desc.nullslast', 'd a b c e'],
    ['price=like.9.99*', 'a c'],
  ])('query: %s: finds %s', async (query, found) => {
    expect(names(await ask(collection, query))).toBe(found)
  })

  test.each<[object, string]>([
    [{ price: { gte: '9.99' } }, 'a b c'],
    [{ price: { gte: 9.99 } }, 'a b c'],
    [{ price: 10 }, 'b'],
    [{ seq: '9007199254740993' }, 'a'],
  ])('query in JSON: %j: finds %s', async (filter, found) => {
    const body = { filter }
    const reply = await call('POST', `/v1/collections/${collection}/query`, { as: workspace.service, body })
    expect(names(reply)).toBe(found)
  })

  test('query: what is no number, or may have been rounded: 400', async () => {
    for (const query of ['price=gte.abc', 'price=gte.01', 'seq=gte.1.5', 'seq=eq."9223372036854775808"'])
      expect(names(await ask(collection, query)), query).toBe('filter_type_mismatch')
    const body = { filter: { price: { gte: 0.1234567890123456 } } }
    const reply = await call('POST', `/v1/collections/${collection}/query`, { as: workspace.service, body })
    expect(reply.body).toMatchObject({ code: 'filter_type_mismatch', hint: expect.stringContaining('text') })
  })

  test.each(['1e3', '01', '+1', '1.', '.5', ' 1', '', '٣', '1'.repeat(101), 'NaN'])(
    'document: price %j: schema_violation',
    async (price) => {
      const { status, body } = await call('POST', at(collection), { as: workspace.service, body: { price } })
      expect([status, body.code]).toEqual([422, 'schema_violation'])
    },
  )

  test('documents: returned as written; a JSON number is refused', async () => {
    const { body } = await ask(collection, 'select=n,price,seq')
    expect(body.data).toMatchObject(PRICED)
    const refused = await call('POST', at(collection), { as: workspace.service, body: { price: 9.99 } })
    expect(refused.body.code).toBe('schema_violation')
  })

  test('unique: other spelling of the same number: 409', async () => {
    const { collection: own } = await make({ unique: [['price']] })
    const create = (price: string) => call('POST', at(own), { as: workspace.service, body: { price } })
    expect((await create('1.5')).status).toBe(201)
    expect((await create('1.50')).body.code).toBe('unique_violation')
    expect((await create('15')).status).toBe(201)
  })
})
