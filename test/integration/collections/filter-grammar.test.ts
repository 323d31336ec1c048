/** Checks the filter grammar: every operator, in both stores and in an undeclared collection. */

import { beforeAll, describe, expect, test } from 'vitest'
import { expectProblem, get, type Reply } from '../../support/clients/rest-client.ts'
import {
  declareKind,
  documents,
  fill,
  KINDS,
  nullable,
  tags,
} from '../../support/fixtures/declared-collections.ts'
import { createTenantPair, expectIsolated, type World } from '../../support/fixtures/tenant-pair.ts'
import { stopwatch } from '../../support/stopwatch.ts'

let world: World

const ROWS = [
  { tag: 'ada', s: 'Ada', i: 1, f: 1.5, b: true, o: { city: 'Berlin', geo: { lat: 52 } }, a: ['x', 'y'] },
  { tag: 'low', s: 'ada', i: 2, f: 2.5, b: false, o: { city: 'Bonn' }, a: ['y', 'z'] },
  {
    tag: 'ten',
    s: 'Zoe',
    i: 10,
    f: -3,
    b: true,
    o: { city: 'A,1', items: [{ sku: 'p' }, { sku: 'q' }] },
    a: [],
  },
  { tag: 'null', s: null, i: null, f: null, b: null, o: null, a: null },
  { tag: 'none' },
  { tag: 'quotes', s: '"x"', i: 100 },
  { tag: 'comma', s: 'a,b(c).d' },
  { tag: 'word', s: 'null' },
  { tag: 'under', s: 'a_b' },
  { tag: 'axb', s: 'axb' },
  { tag: 'star', s: 'a*b' },
  { tag: 'back', s: 'a\\b' },
  { tag: 'percent', s: '100%' },
  { tag: 'apples', s: 'ÄPFEL' },
  { tag: 'lines', s: 'first\nsecond' },
  { tag: 'plus', s: 'c d' },
  { tag: 'digits', s: '42' },
  { tag: 'pad', s: '007' },
]

const PROPERTIES = {
  tag: { type: 'string' },
  s: nullable('string'),
  i: nullable('integer'),
  f: nullable('number'),
  b: nullable('boolean'),
  o: nullable('object'),
  a: nullable('array', { items: { type: 'string' } }),
}

beforeAll(async () => {
  world = await createTenantPair()
  for (const kind of KINDS) {
    await declareKind(world.a, kind, kind, PROPERTIES)
    await fill(world.a, kind, ROWS)
  }
  await fill(world.b, 'undeclared', [{ ...ROWS[0], tag: 'theirs' }])
})

const TEXTS = [
  'quotes',
  'comma',
  'word',
  'under',
  'axb',
  'star',
  'back',
  'percent',
  'apples',
  'lines',
  'plus',
]
/** All with a text in `s`, in order of creation. */
const TEXT_TAGS = ['ada', 'low', 'ten', ...TEXTS, 'digits', 'pad']
const without = (...excluded: string[]) => TEXT_TAGS.filter((tag) => !excluded.includes(tag))

describe.each(KINDS)('filters, %s collection', (kind) => {
  const ask = (query: string): Promise<Reply> => world.a.service.get(`${documents(kind)}?${query}`)

  test.each([
    // The operators of the interface.
    ['s=eq.Ada', ['ada']],
    ['s=neq.Ada', without('ada')],
    ['i=eq.10', ['ten']],
    ['i=neq.10', ['ada', 'low', 'quotes']],
    ['i=gt.2', ['ten', 'quotes']],
    ['i=gte.2', ['low', 'ten', 'quotes']],
    ['i=lt.10', ['ada', 'low']],
    ['i=lte.10', ['ada', 'low', 'ten']],
    ['f=lt.0', ['ten']],
    ['f=eq.2.5', ['low']],
    ['f=gt.1e0', ['ada', 'low']],
    ['s=gte.Z&s=lte.a', ['ten']],
    ['b=eq.true', ['ada', 'ten']],
    ['b=neq.true', ['low']],
    ['s=in.(Ada,ada)', ['ada', 'low']],
    ['i=in.(1,10,11)', ['ada', 'ten']],
    ['s=in.()', []],
    ['i=in.()', []],
    ['s=like.A%25', ['ada']],
    ['s=ilike.A%25', ['ada', 'low', 'comma', 'under', 'axb', 'star', 'back']],
    ['o=json_path_eq.($.city,Berlin)', ['ada']],
    // Top-level values extend to the end of the parameter (row 1).
    ['s=eq.a,b(c).d', ['comma']],
    // A value entirely in quotes is a text (row 2).
    ['s=eq."Ada"', ['ada']],
    [String.raw`s=eq."\"x\""`, ['quotes']],
    [String.raw`s=eq."a\\b"`, ['back']],
    ['s=eq."null"', ['word']],
    ['s=eq."42"', ['digits']],
    ['s=eq.42', ['digits']],
    ['s=eq.007', ['pad']],
    ['s=eq.7', []],
    // List elements (row 3): quoted with escapes, blanks are kept.
    ['s=in.("a,b(c).d",Zoe)', ['ten', 'comma']],
    [String.raw`s=in.("\"x\"",Zoe)`, ['ten', 'quotes']],
    ['s=in.(Ada, Zoe)', ['ada']],
    // Null and missing (row 6).
    ['s=is.null', ['null', 'none']],
    ['s=is.NULL', ['null', 'none']],
    ['s=is.not_null', TEXT_TAGS],
    ['s=not.is.null', TEXT_TAGS],
    ['i=is.null&tag=in.(ada,"null",none)', ['null', 'none']],
    ['b=is.true', ['ada', 'ten']],
    ['b=is.false', ['low']],
    ['s=not.eq.Ada', without('ada')],
    ['i=not.gt.2', ['ada', 'low']],
    ['s=not.in.(Ada,ada)', without('ada', 'low')],
    ['s=not.like.a%25', without('low', 'comma', 'under', 'axb', 'star', 'back')],
    ['i=isdistinct.10&tag=in.(ada,ten,"null",none)', ['ada', 'null', 'none']],
    ['i=not.isdistinct.10', ['ten']],
    // The same field twice: both conditions apply (row 7).
    ['i=gte.2&i=lt.100', ['low', 'ten']],
    // Dotted paths and their arrows (row 8).
    ['o.city=eq.Bonn', ['low']],
    ['o.geo.lat=eq.52', ['ada']],
    ['o.geo.lat=gt.51', ['ada']],
    ['o.items.0.sku=eq.p', ['ten']],
    ['o.items.1.sku=eq.p', []],
    ['o->city=eq.Bonn', ['low']],
    ['o->>city=eq.Bonn', ['low']],
    ['o->geo->lat=eq.52', ['ada']],
    ['o->geo->>lat=eq.52', ['ada']],
    ['o.city=like.B%25', ['ada', 'low']],
    ['o.city=in.("A,1",Bonn)', ['low', 'ten']],
    ['"o.city"=eq.Bonn', []],
    // Patterns (row 12).
    ['s=like.a_b', ['under', 'axb', 'star', 'back']],
    [String.raw`s=like.a\_b`, ['under']],
    ['s=like.a*b', ['under', 'axb', 'star', 'back']],
    [String.raw`s=like.a\*b`, ['star']],
    [String.raw`s=like.a\\b`, ['back']],
    [String.raw`s=like.100\%25`, ['percent']],
    ['s=ilike.%C3%A4pfel', ['apples']],
    ['s=like.%C3%A4pfel', []],
    ['s=like.first%25second', ['lines']],
    ['s=like.A.a', []],
    ['s=like.Ad', []],
    ['o.geo.lat=like.5%25', []],
    // Decoding of our own (rows 13 and 14).
    ['s=like.%41d%', ['ada']],
    ['s=eq.100%', ['percent']],
    ['s=eq.c+d', ['plus']],
    ['s=eq.c%20d', ['plus']],
    // Lists as values.
    ['a=cs.{y}', ['ada', 'low']],
    ['a=cs.{x,y}', ['ada']],
    ['a=cd.{x,y,w}', ['ada', 'ten']],
    ['a=ov.{x,z}', ['ada', 'low']],
    // Groups.
    ['or=(s.eq.Ada,i.eq.10)', ['ada', 'ten']],
    ['and=(i.gte.2,i.lt.100)', ['low', 'ten']],
    ['not.or=(i.eq.1,i.eq.2)&i=is.not_null', ['ten', 'quotes']],
    ['not.or=(i.eq.1,i.eq.2)', ['ten', 'quotes']],
    ['not.and=(i.gte.2,i.lt.100)&i=is.not_null', ['ada', 'quotes']],
    ['or=(and(i.gt.1,i.lt.10),s.eq.Ada)', ['ada', 'low']],
    ['or=(not.and(i.gte.2,i.lte.100),s.eq.Zoe)&i=not.is.null', ['ada', 'ten']],
    ['or=(s.in.(Ada,"a,b(c).d"),i.eq.10)', ['ada', 'ten', 'comma']],
    ['or=(s.eq."a,b(c).d",s.not.is.null)&tag=eq.comma', ['comma']],
    ['or=(i.not.gt.1,i.is.null)&tag=in.(ada,low,none)', ['ada', 'none']],
    ['or=(o.city.eq.Bonn,s.eq.Ada)', ['ada', 'low']],
    ['or=(i.eq.1,i.eq.2)&s=eq.Ada', ['ada']],
    ['or=(i.eq.1,i.eq.2)&or=(i.eq.2,i.eq.10)', ['low']],
    // Any and all (EBNF).
    ['s=eq(any).{Ada,Zoe}', ['ada', 'ten']],
    ['s=like(all).{A%25,%25a}', ['ada']],
    ['i=gt(any).{2,10}', ['ten', 'quotes']],
    // Presence.
    ['s=exists.true&tag=in.("null",none)', ['null']],
    ['s=exists.false', ['none']],
    // Paths by name (row 15).
    ['o=json_path_eq.$.city,Bonn', ['low']],
    ['o=json_path_eq.(city,Bonn)', ['low']],
    ['o=json_path_eq.$.city:Bonn', ['low']],
    ["o=json_path_eq.($['city'],Bonn)", ['low']],
    ['o=json_path_eq.($.city,"A,1")', ['ten']],
    ['o=json_path_eq.($.geo.lat,52)', ['ada']],
    ['o=json_path_eq.($.geo.lat,"52")', []],
    ['o=json_path_eq.($.items[*].sku,q)', ['ten']],
    ['o=json_path_eq.($.items[1].sku,q)', ['ten']],
    ['o=json_path_eq.($.items[0].sku,q)', []],
    ['a=json_path_eq.([*],z)', ['low']],
    ['a=json_path_eq.([0],y)', ['low']],
    // The reserved fields can be filtered too.
    ['_version=eq.1&tag=eq.ada', ['ada']],
    ['_created_at=gt.2020-01-01T00:00:00Z&tag=eq.ada', ['ada']],
    ['_created_at=lt.2020-01-01T00:00:00Z', []],
  ])('filter: %s: finds the matching documents', async (query, expected) => {
    const reply = await ask(`${query}&page[size]=200`)
    expect(tags(reply), reply.text.slice(0, 500)).toEqual(expected)
  })

  test('filter: id: works like a field', async () => {
    const found = await ask('s=eq.Ada')
    const id = String(get(found, 'data/0/id'))
    expect(tags(await ask(`id=eq.${id}`))).toEqual(['ada'])
    expect(tags(await ask(`id=in.(${id})`))).toEqual(['ada'])
  })

  test.each([
    ['s=Ada', 'filter_operator_missing', 's=eq.Ada'],
    ['s=eq.null', 'filter_null_operator', 'is.null'],
    ['i=eq.null', 'filter_null_operator', 'is.null'],
  ])('filter: %s: refused with a hint', async (query, code, hint) => {
    const reply = await ask(query)
    expectProblem(reply, 400, code)
    expect(get(reply, 'hint')).toContain(hint)
  })

  test('filter: list of 500 elements: accepted; 501: 400 filter_too_large', async () => {
    const elements = (count: number) => Array.from({ length: count }, (_, n) => n).join()
    expect(tags(await ask(`i=in.(${elements(500)})`))).toEqual(['ada', 'low', 'ten', 'quotes'])
    expectProblem(await ask(`i=in.(${elements(501)})`), 400, 'filter_too_large')
  })

  test('filter: unknown operator: lists the valid ones, suggests the nearest', async () => {
    const reply = await ask('s=ilik.Ada')
    expectProblem(reply, 400)
    for (const name of ['neq', 'json_path_eq', 'isdistinct', 'like', 'in']) expect(reply.text).toContain(name)
    expect(get(reply, 'hint')).toContain('ilike')
  })

  test.each([
    's=eq',
    's=not',
    's=in.Ada',
    's=in.(Ada',
    's=in.("Ada)',
    's=is.maybe',
    's=exists.perhaps',
    'or=s.eq.Ada',
    'or=(s.eq.Ada',
    'or=()',
    'or=(s.eq.Ada))',
    'xor=(s.eq.Ada,i.eq.1)',
    'o=json_path_eq.($.city)',
    'o=json_path_eq.($..city,Bonn)',
    'o=json_path_eq.(strict $.city,Bonn)',
    'o=json_path_eq.($.city ? (@ like_regex "(a+)%2B$"),Bonn)',
    'o=json_path_eq.($.items[-9999999999999].sku,q)',
    '=eq.1',
    'o..city=eq.Bonn',
    'a.b.c.d.e.f.g.h.i.j.k=eq.1',
    'limit=5',
    'offset=5',
    'page[sise]=2',
    'page[before]=x',
    'count=many',
    'count=eq.5',
  ])('filter: %s: 400', async (query) => {
    expectProblem(await ask(query), 400)
  })

  test('filter: unusable path: reported with its position', async () => {
    expect((await ask('o=json_path_eq.($.city[,Bonn)')).text).toMatch(/\d/)
  })

  test('filter: 50 conditions: accepted; 51: 400', async () => {
    const filters = (count: number) => Array.from({ length: count }, () => 's=eq.Ada').join('&')
    expect(tags(await ask(filters(50)))).toEqual(['ada'])
    expectProblem(await ask(filters(51)), 400)
    const group = Array.from({ length: 51 }, () => 's.eq.Ada').join()
    expectProblem(await ask(`or=(${group})`), 400)
  })

  test('URL: 9 KB: 414', async () => {
    expectProblem(await ask(`s=eq.${'x'.repeat(9 * 1024)}`), 414)
  })

  test('like: pattern that is exponential in a regex engine: answered in time, or refused as too large', async () => {
    const elapsedMs = stopwatch()
    for (const pattern of ['(a+)+$', '(.*)*b', '[[[', '.*', '^axb$', '(?i)AXB', '[a-z]%']) {
      expect(tags(await ask(`s=like.${encodeURIComponent(pattern)}&tag=eq.axb`))).toEqual([])
    }
    expect(tags(await ask(`s=ilike.${'*'.repeat(200)}&tag=eq.axb`))).toEqual(['axb'])
    const many = await ask(`s=like.${encodeURIComponent('%a'.repeat(40))}`)
    if (many.status === 200) expect(tags(many)).toEqual([])
    else expectProblem(many, 400, 'filter_too_large')
    expect(elapsedMs()).toBeLessThan(10_000)
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
