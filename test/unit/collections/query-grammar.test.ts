/** Both query grammars yield the same tree: texts in the URL, typed values in JSON. */

import { describe, expect, test } from 'vitest'
import { Problem } from '../../../src/core/problem.ts'
import { COLLECTION_LIMITS } from '../../../src/features/collections/limits.ts'
import { readBodyFilter } from '../../../src/features/collections/query/body.ts'
import { type Filter, negated } from '../../../src/features/collections/query/filter.ts'
import { behindPrefix } from '../../../src/features/collections/query/operands.ts'
import { readOrder, readSort } from '../../../src/features/collections/query/order-and-selection.ts'
import { readFilters } from '../../../src/features/collections/query/url.ts'
import { threadMs } from '../../support/thread-time.ts'

/** Groups of one term are that term. */
function plain(filter: Filter): Filter {
  if (!('of' in filter)) return filter
  const of = filter.of.map(plain)
  const [only] = of
  return only !== undefined && of.length === 1 ? only : { ...filter, of }
}

const fromUrl = (text: string) => plain(readFilters([...new URLSearchParams(text)]))
const fromJson = (filter: object) => plain(readBodyFilter(filter as Record<string, unknown>))

const SAME: readonly (readonly [string, object])[] = [
  ['a=eq."x"', { a: 'x' }],
  ['a=eq."x"&a=neq."y"', { a: { eq: 'x', $ne: 'y' } }],
  ['a.b=in.("x","y")', { 'a.b': { in: ['x', 'y'] } }],
  ['a->b->>c=gt.5', { 'a.b.c': { gt: '5' } }],
  ['"a.b"=like.x*', { '"a.b"': { like: 'x%' } }],
  ['a=is.null', { a: null }],
  ['a=is.not_null', { a: { neq: null } }],
  ['a=not.is.unknown', { a: { $not: null } }],
  ['a=is.true', { a: { is: true } }],
  ['a=not.is.false', { a: { not: { is: false } } }],
  ['a=exists.true', { a: { exists: true } }],
  ['a=not.exists.true', { a: { exists: false } }],
  ['a=isdistinct."x"', { a: { isdistinct: 'x' } }],
  ['a=cs.[1,"x"]', { a: { cs: [1, 'x'] } }],
  ['a=cs.{"x":{"y":1}}', { a: { $cs: { x: { y: 1 } } } }],
  ['a=cd.{"x":1}', { a: { cd: { x: 1 } } }],
  ['a=ov.{"x","y"}', { a: { ov: ['x', 'y'] } }],
  ['a=json_path_eq.($.b[*],"x")', { a: { json_path_eq: ['b[*]', 'x'] } }],
  ['a=eq(any).{"x","y"}', { a: { in: ['x', 'y'] } }],
  ['a=not.like(any).{x*,"y,*"}', { a: { not: { 'like(any)': ['x%', 'y,%'] } } }],
  ['a=gt(all).{"b","c"}', { $and: [{ a: { gt: 'b' } }, { a: { gt: 'c' } }] }],
  ['or=(a.eq."x",b.is.null)', { $or: [{ a: 'x' }, { b: null }] }],
  ['not.or=(a.eq."x",b.is.null)', { $not: { $or: [{ a: 'x' }, { b: null }] } }],
  ['not.or=(a.eq."x",b.is.null)', { a: { neq: 'x' }, b: { neq: null } }],
  [
    'and=(a.not.eq."x",or(b.like.*"*,c.gt."2"))',
    { a: { neq: 'x' }, $or: [{ b: { like: '*"*' } }, { c: { gt: '2' } }] },
  ],
  [
    'or=("eq".eq."x","a,b)"."c.d".in.("1,)","2"))',
    { $or: [{ '"eq"': 'x' }, { '"a,b)"."c.d"': { in: ['1,)', '2'] } }] },
  ],
  ['or=(a->or->not.eq."x",a."not".eq."y")', { $or: [{ 'a.or.not': 'x' }, { 'a.not': 'y' }] }],
  [
    'or=(a.cs.["x)",[1]],b.cd.{"y}":"}"})',
    { $or: [{ a: { cs: ['x)', [1]] } }, { b: { cd: { 'y}': '}' } } }] },
  ],
  [
    'or=(not.and(a.exists.true,b.exists.true),c.is.true)',
    { $or: [{ a: { exists: false } }, { b: { exists: false } }, { c: { is: true } }] },
  ],
]

describe('query in a URL and in JSON', () => {
  test.each(SAME)('%s: yields the same tree', (text, filter) => {
    const flat = (tree: Filter): unknown => JSON.parse(JSON.stringify(flatten(tree)))
    expect(flat(fromUrl(text))).toEqual(flat(fromJson(filter)))
  })

  test('double negation: is the filter itself', () => {
    for (const [text] of SAME) expect(negated(negated(fromUrl(text)))).toEqual(fromUrl(text))
  })
})

/** `a or (b or c)` is `a or b or c`. */
function flatten(filter: Filter): Filter {
  if (!('of' in filter)) return filter
  const of = filter.of
    .map(flatten)
    .flatMap((part) => ('of' in part && part.kind === filter.kind ? part.of : [part]))
  return { ...filter, of }
}

test('literals: unquoted ones match each type they may mean, quoted ones are texts, JSON keeps its types', () => {
  const values = (filter: Filter) =>
    filter.kind === 'test' && filter.test.op === 'in' ? filter.test.values : []
  expect(values(fromUrl('a=in.(1,true,01,"1",x y)'))).toEqual([
    [1, '1'],
    [true, 'true'],
    ['01'],
    ['1'],
    ['x y'],
  ])
  expect(values(fromUrl('a=eq(any).{ 1 ," 1 ",x y }'))).toEqual([[1, '1'], [' 1 '], ['x y']])
  expect(values(fromJson({ a: { in: [1, '1', true] } }))).toEqual([[1], ['1'], [true]])
})

const code = (work: () => unknown): string => {
  try {
    work()
    return 'taken'
  } catch (error) {
    return error instanceof Problem ? error.code : String(error)
  }
}

describe.each([
  ['9007199254740993', 'number_unsafe'],
  ['-9007199254740993', 'number_unsafe'],
  ['123456789012345678901', 'number_unsafe'],
  ['9007199254740992', 'taken'],
  ['-9007199254740991', 'taken'],
  ['1e21', 'taken'],
  ['0.1234567890123456789', 'taken'],
])('integer %s in a URL', (number, wanted) => {
  test.each([
    (value: string) => `a=eq.${value}`,
    (value: string) => `a=not.gte.${value}`,
    (value: string) => `a=in.(1,${value})`,
    (value: string) => `a=eq(any).{1,${value}}`,
    (value: string) => `a=cs.{${value}}`,
    (value: string) => `a=cs.["x",{"n":${value}}]`,
    (value: string) => `a=cd.{"n":${value}}`,
    (value: string) => `a=json_path_eq.($.b,${value})`,
    (value: string) => `or=(a.lt.${value},b.in.(${value}))`,
  ])(`%s: ${wanted}; in quotes: a text`, (written) => {
    expect(code(() => fromUrl(written(number)))).toBe(wanted)
    expect(code(() => fromUrl(written(`"${number}"`)))).toBe('taken')
  })
})

test('JSON in a URL: a name that comes twice: refused', () => {
  expect(code(() => fromUrl('a=cs.{"x":1,"x":2}'))).toBe('filter_invalid')
})

describe('query: limits', () => {
  const terms = (count: number) => Array.from({ length: count }, (_, n) => `f${n}.eq.1`).join()
  const nested = (depth: number) => `${'or('.repeat(depth - 1)}a.eq.1${')'.repeat(depth - 1)}`
  const { filtersMax, filterDepthMax, filterValuesMax } = COLLECTION_LIMITS

  test.each([
    [`or=(${terms(filtersMax)})`, 'taken'],
    [`or=(${terms(filtersMax + 1)})`, 'filter_too_large'],
    [`or=(${terms(filtersMax)})&a=eq.1`, 'filter_too_large'],
    [`or=(${nested(filterDepthMax)})`, 'taken'],
    [`or=(${nested(filterDepthMax + 1)})`, 'filter_invalid'],
    [`or=${'(or'.repeat(2_000)}`, 'filter_invalid'],
    [`or=${'('.repeat(8_000)}`, 'filter_invalid'],
    [`or=(${'a.'.repeat(4_000)}eq.1)`, 'filter_invalid'],
    [
      `a=like(any).{${Array(filtersMax + 1)
        .fill('x')
        .join()}}`,
      'filter_too_large',
    ],
    [`a=eq(any).{${Array(filterValuesMax).fill('x').join()}}`, 'taken'],
    [
      `a=eq(any).{${Array(filterValuesMax + 1)
        .fill('x')
        .join()}}`,
      'filter_too_large',
    ],
    [
      `a=cs.{${Array(filterValuesMax + 1)
        .fill('x')
        .join()}}`,
      'filter_too_large',
    ],
    [`a=cs.${'['.repeat(4_000)}${']'.repeat(4_000)}`, 'filter_invalid'],
    [
      `a=cs.[${Array(filterValuesMax + 1)
        .fill(1)
        .join()}]`,
      'filter_too_large',
    ],
    ['a=cs.["\\u0000"]', 'filter_invalid'],
    ['a=cs.{"\\ud800":1}', 'filter_invalid'],
  ])('%.60s: is accepted up to the limit', (text, wanted) => {
    expect(code(() => readFilters([...new URLSearchParams(text)]))).toBe(wanted)
  })

  test('JSON form: has the same limits', () => {
    const deep = (depth: number): object => (depth === 0 ? { a: 1 } : { $not: deep(depth - 1) })
    const inner = (depth: number): unknown => (depth === 0 ? 1 : { not: inner(depth - 1) })
    expect(code(() => fromJson(deep(filterDepthMax)))).toBe('taken')
    expect(code(() => fromJson(deep(filterDepthMax + 1)))).toBe('filter_invalid')
    expect(code(() => fromJson({ a: inner(filterDepthMax + 1) }))).toBe('filter_invalid')
    expect(code(() => fromJson({ $or: Array(filtersMax).fill({ a: 1 }) }))).toBe('taken')
    expect(code(() => fromJson({ $or: Array(filtersMax + 1).fill({}) }))).toBe('filter_too_large')
    expect(code(() => fromJson({ a: Number.POSITIVE_INFINITY }))).toBe('filter_invalid')
  })

  test('long query that is almost valid: is rejected quickly', () => {
    const long = 100_000
    for (const text of [
      `{${' '.repeat(long)}x`,
      `{a${' '.repeat(long)},${' '.repeat(long)}b`,
      `"${'\\'.repeat(long)}`,
      `(${'('.repeat(long)}`,
    ]) {
      const began = threadMs()
      for (const operator of ['eq', 'in', 'cs', 'like(any)', 'json_path_eq'])
        expect(['taken', 'filter_invalid']).toContain(code(() => readFilters([['a', `${operator}.${text}`]])))
      code(() => readFilters([['or', `(a.cs.${text}`]]))
      expect(threadMs() - began).toBeLessThan(2_000)
    }
  })
})

test('sort: is an object if order is preserved, and a list otherwise', () => {
  expect(readSort({ b: -1, 'a.c': 1 })).toEqual(readOrder('b.desc,a->c'))
  expect(readSort(['2.desc', '1.nullsfirst'])).toEqual(readOrder('2.desc,1.nullsfirst'))
  expect(readSort({ 2: -1, 1: 1 }).map(({ path }) => path[0])).toEqual(['1', '2'])
})

test('prefix search: ends before the next text that does not begin with the prefix', () => {
  expect(behindPrefix('abc')).toBe('abd')
  expect(behindPrefix('a\uD7FF')).toBe('a\uE000')
  expect(behindPrefix('a\u{10FFFF}')).toBe('b')
  expect(behindPrefix('\u{10FFFF}')).toBeUndefined()
})
