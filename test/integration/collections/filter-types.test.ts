/** Checks the types of filter values: by declaration, by the value, and by JSON in structured queries. */

import { beforeAll, describe, expect, test } from 'vitest'
import { expectProblem, get, type Reply } from '../../support/clients/rest-client.ts'
import { declare, documents, fill, type Row, tags } from '../../support/fixtures/declared-collections.ts'
import { createTenantPair, expectIsolated, type World } from '../../support/fixtures/tenant-pair.ts'

let world: World

const UNTYPED_ROWS = [
  { tag: 'number', v: 42 },
  { tag: 'text', v: '42' },
  { tag: 'seven', v: 7 },
  { tag: 'padded', v: '01234' },
  { tag: 'true', v: true },
  { tag: 'true text', v: 'true' },
  { tag: 'abc', v: 'abc' },
  { tag: 'fraction', v: 42.5 },
  { tag: 'list', v: [42] },
  { tag: 'object', v: { n: 42 } },
  { tag: 'null', v: null },
  { tag: 'none' },
]

const FIELD_NAME_ROWS: readonly Row[] = [
  { tag: 'dotted', 'a.b': 1 },
  { tag: 'nested', a: { b: 1 } },
  { tag: 'select', select: 'x', order: 'y', or: 'z', and: 'w', not: 'v', limit: 'u', count: 't' },
  { tag: 'eq', eq: 1, o: { eq: 2, not: 3 } },
  { tag: 'size', 'page[size]': 5, apikey: 'shown' },
  { tag: 'spaced', 'two words': 1, 'with"quote': 1, 'back\\slash': 1 },
  { tag: 'proto', constructor: 1, toString: 2, hasOwnProperty: 3 },
  { tag: 'big', w: '9007199254740993', z: '1e3' },
  { tag: 'unicode', größe: 1, 'naïve key': 2 },
]

const STRICT = {
  tag: { type: 'string' },
  n: { type: 'integer' },
  f: { type: 'number' },
  s: { type: 'string' },
  b: { type: 'boolean' },
  at: { type: 'string', format: 'date-time' },
  ref: { type: 'string', format: 'uuid' },
  mark: { type: 'string' },
}
const REF = '01890a5d-ac96-774b-bcce-b302099a8057'
const TYPED = [
  { tag: 'one', n: 42, f: 1.5, s: '42', b: true, at: '2026-01-01T00:00:00Z', ref: REF },
  { tag: 'two', n: 7, f: 1e3, s: 'true', b: false, at: '2026-02-01T00:00:00+02:00' },
  { tag: 'max', n: 9007199254740991, s: '01234' },
]

beforeAll(async () => {
  world = await createTenantPair()
  await fill(world.a, 'loose', UNTYPED_ROWS)
  await fill(world.a, 'names', FIELD_NAME_ROWS)
  for (const store of ['relational', 'document']) {
    const schema = { type: 'object', properties: STRICT, additionalProperties: false }
    await declare(world.a, store, { store, schema })
    await fill(world.a, store, TYPED)
  }
  await fill(world.b, 'loose', [{ tag: 'theirs', v: 42 }])
})

describe('undeclared collection', () => {
  const ask = (query: string): Promise<Reply> => world.a.service.get(`${documents('loose')}?${query}`)
  const query = (filter: unknown): Promise<Reply> =>
    world.a.service.post('/v1/collections/loose/query', { filter })

  test.each([
    ['v=eq.42', ['number', 'text']],
    ['v=eq."42"', ['text']],
    ['v=eq.42.0', ['number']],
    ['v=eq.4.2e1', ['number']],
    ['v=eq.01234', ['padded']],
    ['v=eq.1234', []],
    ['v=eq.true', ['true', 'true text']],
    ['v=eq."true"', ['true text']],
    ['v=eq.abc', ['abc']],
    ['v=in.(42,abc)', ['number', 'text', 'abc']],
    ['v=in.("42",true)', ['text', 'true', 'true text']],
    // Comparisons never cross types: numbers with numbers, texts with texts.
    ['v=gt.7', ['number', 'fraction']],
    ['v=gte.42&v=lt.43', ['number', 'fraction']],
    ['v=lt.42', ['seven']],
    ['v=gt.a', ['true text', 'abc']],
    ['v=gte."42"', ['text', 'true text', 'abc']],
    ['v=lt."42"', ['padded']],
    ['v=like.4%25', ['text']],
    ['v=ilike.TRUE', ['true text']],
    ['v=is.true', ['true']],
    ['v=is.null', ['null', 'none']],
    ['v=exists.false', ['none']],
    ['v.n=eq.42', ['object']],
    ['v.0=eq.42', ['list']],
    ['v->>n=eq.42', ['object']],
  ])('untyped filter: %s: finds values of the matching type', async (filter, expected) => {
    expect(tags(await ask(filter))).toEqual(expected)
  })

  test('neq: null and missing values: skipped, nothing else', async () => {
    const all = UNTYPED_ROWS.map(({ tag }) => tag)
    const excluded = ['abc', 'null', 'none']
    expect(tags(await ask('v=neq.abc'))).toEqual(all.filter((tag) => !excluded.includes(tag)))
    expect(tags(await ask('v=isdistinct.abc'))).toEqual(all.filter((tag) => tag !== 'abc'))
  })

  test.each([
    [{ v: 42 }, ['number']],
    [{ v: '42' }, ['text']],
    [{ v: true }, ['true']],
    [{ v: 'true' }, ['true text']],
    [{ v: [42] }, ['list']],
    [{ v: null }, ['null', 'none']],
    [{ v: { gt: 7 } }, ['number', 'fraction']],
    [{ v: { $gt: 7 } }, ['number', 'fraction']],
    [{ v: { gt: '42' } }, ['true text', 'abc']],
    [{ v: { in: [42, 'abc'] } }, ['number', 'abc']],
    [{ v: { in: [] } }, []],
    [{ v: { like: 'a%' } }, ['abc']],
    [{ $or: [{ v: 42 }, { v: 'abc' }] }, ['number', 'abc']],
    [{ $and: [{ v: { gte: 7 } }, { v: { lt: 42 } }] }, ['seven']],
    [{ 'v.n': 42 }, ['object']],
    [{ tag: 'number', v: 7 }, []],
    [{}, UNTYPED_ROWS.map(({ tag }) => tag)],
  ])('structured filter: %j: typed by its JSON', async (filter, expected) => {
    expect(tags(await query(filter))).toEqual(expected)
  })

  test.each([
    { v: { $where: 'sleep(1000)' } },
    { v: { gt: 1, no: 2 } },
    { $where: '1' },
    { v: { in: 42 } },
    { $or: {} },
    { v: { like: 3 } },
    'v',
    [],
  ])('structured filter: %j: 400', async (filter) => {
    expectProblem(await query(filter), 400)
  })
})

describe('field names', () => {
  const ask = (query: string): Promise<Reply> => world.a.service.get(`${documents('names')}?${query}`)

  test.each([
    ['a.b=eq.1', ['nested']],
    ['"a.b"=eq.1', ['dotted']],
    ['"a"."b"=eq.1', ['nested']],
    ['"select"=eq.x', ['select']],
    ['"order"=eq.y', ['select']],
    ['"or"=eq.z', ['select']],
    ['"and"=eq.w', ['select']],
    ['"not"=eq.v', ['select']],
    ['"limit"=eq.u', ['select']],
    ['"count"=eq.t', ['select']],
    ['"page[size]"=eq.5', ['size']],
    ['eq=eq.1', ['eq']],
    ['or=("eq".eq.1,tag.eq.size)', ['eq', 'size']],
    ['or=(o."eq".eq.2,tag.eq.size)', ['eq', 'size']],
    ['or=(o."not".eq.3,tag.eq.size)', ['eq', 'size']],
    ['"two words"=eq.1', ['spaced']],
    ['two+words=eq.1', ['spaced']],
    [String.raw`"with\"quote"=eq.1`, ['spaced']],
    [String.raw`"back\\slash"=eq.1`, ['spaced']],
    ['constructor=eq.1', ['proto']],
    ['toString=eq.2', ['proto']],
    ['hasOwnProperty=eq.3', ['proto']],
    // Texts of digits keep every digit.
    ['w=eq."9007199254740993"', ['big']],
    ['w=eq.9007199254740992', []],
    ['w=in.("9007199254740993")', ['big']],
    ['z=eq.1000', []],
    ['z=eq.1e3', ['big']],
    ['gr%C3%B6%C3%9Fe=eq.1', ['unicode']],
    ['or=("naïve key".eq.2,a.b.eq.1)', ['nested', 'unicode']],
  ])('field name: %s: finds the document', async (filter, expected) => {
    expect(tags(await ask(filter))).toEqual(expected)
  })

  test('field name: __proto__: refused, no effect', async () => {
    expectProblem(await ask('__proto__=is.not_null'), 400)
    expectProblem(await ask('"__proto__"=eq.1'), 400)
    expectProblem(
      await world.a.service.post('/v1/collections/names/query', { filter: { ['__proto__']: 1 } }),
      400,
    )
  })

  test('filter group: several operators: the leftmost ends the path', async () => {
    expectProblem(await ask('or=(eq.eq.1)'), 400)
  })
})

describe.each(['relational', 'document'])('declared collection, %s', (store) => {
  const ask = (query: string): Promise<Reply> => world.a.service.get(`${documents(store)}?${query}`)

  test.each([
    ['n=eq.42', ['one']],
    ['s=eq.42', ['one']],
    ['s=eq.true', ['two']],
    ['s=eq.01234', ['max']],
    ['s=eq.1234', []],
    ['s=gt.1', ['one', 'two']],
    ['f=eq.1000', ['two']],
    ['f=gt.1.25', ['one', 'two']],
    ['n=eq.9007199254740991', ['max']],
    ['b=eq.false', ['two']],
    [`ref=eq.${REF}`, ['one']],
  ])('typed filter: %s: finds the matching documents', async (filter, expected) => {
    expect(tags(await ask(filter))).toEqual(expected)
  })

  test.each([
    ['n', 'gte.abc'],
    ['n', 'eq.true'],
    ['n', 'in.(1,two)'],
    ['f', 'eq.many'],
    ['b', 'eq.yes'],
    ['_created_at', 'gt.yesterday'],
    ['_version', 'eq.one'],
  ])('typed filter: %s=%s: 400 filter_type_mismatch that names field and text', async (field, filter) => {
    const reply = await ask(`${field}=${filter}`)
    expectProblem(reply, 400, 'filter_type_mismatch')
    expect(get(reply, 'detail')).toContain(field)
    expect(get(reply, 'detail')).toContain(/\w+(?=\)?$)/.exec(filter)?.[0])
  })

  test('time filter: unencoded plus sign: hint to encode it', async () => {
    const reply = await ask('_created_at=gt.2026-01-01T01:00:00+01:00')
    expectProblem(reply, 400, 'filter_type_mismatch')
    expect(get(reply, 'hint')).toContain('%2B')
  })

  test('time filter: any offset: compared as an instant', async () => {
    const at = String(get(await ask('tag=eq.one'), 'data/0/_created_at'))
    const hour = new Date(Date.parse(at) + 3_600_000).toISOString().replace('Z', '%2B01:00')
    expect(tags(await ask(`_created_at=eq.${hour}&tag=eq.one`))).toEqual(['one'])
    expect(tags(await ask(`_created_at=lt.${hour}&tag=eq.one`))).toEqual([])
  })

  test('select: unknown field: 400 with the nearest name', async () => {
    const reply = await ask('select=taag')
    expectProblem(reply, 400)
    expect(reply.text).toMatch(/\btag\b/)
  })

  test('structured filter: wrong type: 400', async () => {
    const reply = await world.a.service.post(`/v1/collections/${store}/query`, {
      filter: { n: { gt: 'abc' } },
    })
    expectProblem(reply, 400, 'filter_type_mismatch')
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
