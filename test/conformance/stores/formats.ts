/**
 * Generates queries over documents with timestamps, uuids and exact numbers in many spellings, with the results of a naive
 * reading.
 */

import fc from 'fast-check'
import type { Json } from './odd-documents.ts'

const A = '01890a5d-ac96-774b-bcce-b302099a8057'
const B = 'ABCDEF01-0000-4000-8000-000000000000'

/** Valid ones first; the invalid ones are found by untyped conditions only. */
const POINTS: readonly (Json | undefined)[] = [
  '2026-01-01T00:00:00Z',
  '2026-01-01T02:00:00+02:00',
  '2025-12-31t19:00:00.000-05:00',
  '2026-01-01T00:00:00.000000001Z',
  '2026-01-01T01:59:59.999+02:00',
  '2026-01-01T00:00:00.5z',
  '2026-01-01T05:30:00.50+05:30',
  '0000-01-01T00:00:00+01:00',
  '0000-01-01T00:00:00Z',
  '9999-12-31T23:59:59-01:00',
  '9999-12-31T23:59:59Z',
  '1990-12-31T23:59:60Z',
  '1990-12-31T23:59:59.9Z',
  '1991-01-01T00:00:00Z',
  undefined,
  null,
]
const ODD: readonly Json[] = [
  'yesterday',
  '',
  42,
  true,
  '2026-01-01',
  '2026-02-29T00:00:00Z',
  ['2026-01-01T00:00:00Z'],
]
const PRICES: readonly (Json | undefined)[] = [
  '9.99',
  '9.990',
  '10',
  '0.10',
  '0',
  '-0.0',
  '-9.99',
  '-10',
  '9007199254740993',
  '9007199254740992.5',
  '0.1234567890123456789',
  undefined,
  null,
]
const COUNTS: readonly (Json | undefined)[] = [
  '0',
  '7',
  '-7',
  '9007199254740993',
  '9223372036854775807',
  undefined,
]
const REFS: readonly (Json | undefined)[] = [A, A.toUpperCase(), B, B.toLowerCase(), undefined]

type Doc = Readonly<Record<string, Json>>

/** @param odd whether some values violate their format */
export function documentsOf(odd: boolean): Doc[] {
  const [points, refs, prices] = odd
    ? [
        [...POINTS, ...ODD],
        [...REFS, 'no uuid', 7],
        [...PRICES, '1e3', '09', 9.99],
      ]
    : [POINTS, REFS, PRICES]
  return Array.from({ length: 60 }, (_, n) => {
    const fields = {
      n,
      at: points[(n * 5 + (n % 3)) % points.length],
      ref: refs[(n * 3) % refs.length],
      price: prices[(n * 7) % prices.length],
      seq: COUNTS[(n * 5) % COUNTS.length],
    }
    return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Doc
  })
}

/** Nanoseconds; a leap second is half a nanosecond before the minute that it ends. */
function pointOf(value: Json | undefined): bigint | undefined {
  if (typeof value !== 'string' || !/T.*(Z|[+-]\d\d:\d\d)$/i.test(value)) return undefined
  const [, head = '', fraction = '', offset = ''] = /^(.{19})(?:\.(\d+))?(.*)$/.exec(value) ?? []
  const leap = head.endsWith(':60')
  const time = Date.parse(`${leap ? head.replace(/60$/, '59') : head}${offset}`.toUpperCase())
  const day = new Date(`${head.slice(0, 10)}T00:00:00Z`)
  if (Number.isNaN(time) || day.toISOString().slice(0, 10) !== head.slice(0, 10)) return undefined
  return BigInt(time) * 1_000_000n + (leap ? 999_999_999n : BigInt(fraction.padEnd(9, '0')))
}
const refOf = (value: Json | undefined) =>
  typeof value === 'string' && value.length === 36 ? value.toLowerCase() : undefined

/** The number times 10^20; a literal may be in quotes. */
function numberOf(value: Json | undefined): bigint | undefined {
  const text = typeof value === 'string' ? value.replaceAll('"', '') : ''
  if (!/^-?(0|[1-9]\d*)(\.\d+)?$/.test(text)) return undefined
  const [whole = '', fraction = ''] = text.split('.')
  return BigInt(`${whole}${fraction.padEnd(20, '0')}`)
}

type Comparable = bigint | string
const MEANING: Readonly<Record<string, (value: Json | undefined) => Comparable | undefined>> = {
  at: pointOf,
  ref: refOf,
  price: numberOf,
  seq: numberOf,
}
const LITERALS: Readonly<Record<string, readonly string[]>> = {
  at: POINTS.filter((value) => typeof value === 'string'),
  ref: [A, B, B.toLowerCase(), '00000000-0000-0000-0000-000000000000'],
  price: ['9.99', '"9.990"', '0', '-10', '0.1234567890123456789', '9007199254740992.5', '"9007199254740993"'],
  seq: ['0', '"7"', '-7', '"9007199254740993"', '"9223372036854775807"'],
}
const there = (value: Json | undefined) => value !== undefined && value !== null

const SIGNS: Readonly<Record<string, (a: Comparable, b: Comparable) => boolean>> = {
  eq: (a, b) => a === b,
  gt: (a, b) => a > b,
  gte: (a, b) => a >= b,
  lt: (a, b) => a < b,
  lte: (a, b) => a <= b,
}

interface Filter {
  readonly pair: readonly [string, string]
  readonly holds: (doc: Doc) => boolean
}

const field = fc.constantFrom('at', 'ref', 'price', 'seq')
const literalOf = (name: string) => fc.constantFrom(...(LITERALS[name] ?? []))

const comparison = field.chain((name) =>
  fc
    .tuple(fc.constantFrom(...Object.keys(SIGNS)), literalOf(name), fc.boolean())
    .map(([op, text, not]): Filter => {
      const passes = (doc: Doc) => {
        const [value, bound] = [MEANING[name]?.(doc[name]), MEANING[name]?.(text)]
        return value !== undefined && bound !== undefined && SIGNS[op]?.(value, bound) === true
      }
      return {
        pair: [name, `${not ? 'not.' : ''}${op}.${text}`],
        holds: (doc) => (not ? there(doc[name]) && !passes(doc) : passes(doc)),
      }
    }),
)
const among = field.chain((name) =>
  fc.array(literalOf(name), { maxLength: 3 }).map(
    (list): Filter => ({
      pair: [name, `in.(${list.join()})`],
      holds: (doc) => {
        const value = MEANING[name]?.(doc[name])
        return value !== undefined && list.some((text) => MEANING[name]?.(text) === value)
      },
    }),
  ),
)
const words = fc.tuple(field, fc.constantFrom('is.null', 'is.not_null', 'exists.true', 'like.2026*')).map(
  ([name, text]): Filter => ({
    pair: [name, text],
    holds: (doc) => {
      const value = doc[name]
      if (text === 'exists.true') return value !== undefined
      if (text === 'like.2026*') return typeof value === 'string' && value.startsWith('2026')
      return there(value) === (text === 'is.not_null')
    },
  }),
)

interface Key {
  readonly name: string
  readonly descending: boolean
  readonly nulls: string
}
const key: fc.Arbitrary<Key> = fc.record({
  name: field,
  descending: fc.boolean(),
  nulls: fc.constantFrom('', '.nullsfirst', '.nullslast'),
})

function order(a: Doc, b: Doc, { name, descending, nulls }: Key): number {
  const nullsFirst = nulls === '' ? descending : nulls === '.nullsfirst'
  const [x, y] = [MEANING[name]?.(a[name]), MEANING[name]?.(b[name])]
  if (x === undefined || y === undefined) return x === y ? 0 : (x === undefined) === nullsFirst ? -1 : 1
  return (x < y ? -1 : x > y ? 1 : 0) * (descending ? -1 : 1)
}

export interface Query {
  readonly text: string
  readonly found: (documents: readonly Doc[]) => unknown[]
}

export const queries: fc.Arbitrary<Query> = fc
  .tuple(
    fc.array(fc.oneof(comparison, among, words), { maxLength: 2 }),
    fc.uniqueArray(key, { maxLength: 2, selector: ({ name }) => name }),
    fc.constantFrom(7, 19, 200),
  )
  .map(([filters, keys, size]) => {
    const written = keys.map(
      ({ name, descending, nulls }) => `${name}.${descending ? 'desc' : 'asc'}${nulls}`,
    )
    const pairs = [
      ...filters.map(({ pair }) => pair),
      ...(keys.length > 0 ? [['order', written.join()] as const] : []),
      ['page[size]', String(size)] as const,
    ]
    const last = keys.at(-1)?.descending ? -1 : 1
    return {
      text: pairs.map((pair) => pair.map(encodeURIComponent).join('=')).join('&'),
      found: (documents) =>
        documents
          .filter((doc) => filters.every(({ holds }) => holds(doc)))
          .toSorted((a, b) => {
            for (const one of keys) if (order(a, b, one) !== 0) return order(a, b, one)
            return (Number(a['n']) - Number(b['n'])) * last
          })
          .map((doc) => doc['n']),
    }
  })
