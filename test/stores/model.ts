/** Random queries over fixed odd documents, each with what a naive reading of the grammar finds. */

import fc from 'fast-check'

type Json = null | boolean | number | string | Json[] | { [name: string]: Json }

export interface Query {
  /** The query string. */
  readonly text: string
  /** `n` of what is found, in order. */
  readonly found: number[]
}

const SCALARS: readonly (Json | undefined)[] = [
  undefined,
  null,
  true,
  false,
  0,
  -1,
  1,
  1.5,
  42,
  -1e-7,
  123456789012,
  '',
  'a',
  'A',
  'b',
  'ab',
  'a%b',
  'a_b',
  '10',
  '42',
  'true',
  'null',
  'é',
  'É',
  '😀',
  'a\nb',
  '\\',
  'a.b',
  '(x)',
  '"q"',
]
const LISTS: readonly (Json | undefined)[] = [
  undefined,
  null,
  [],
  [1],
  [1, 'a'],
  ['a', [2, 'a']],
  [{ x: 1, '0': 'z' }],
  { '0': 'a', x: 1 },
  'a',
  [[1]],
  [null, true],
  [{ x: [1] }, { x: 'a' }],
]

/** A fixed mixture: each field runs through its values at a pace of its own. */
export const DOCUMENTS: readonly Readonly<Record<string, Json>>[] = Array.from({ length: 90 }, (_, n) => {
  const pick = (from: readonly (Json | undefined)[], pace: number) => from[(n * pace + (n % 7)) % from.length]
  const inner = pick(SCALARS, 11)
  const fields: Record<string, Json | undefined> = {
    n,
    a: pick(SCALARS, 1),
    b: pick(SCALARS, 7),
    o: n % 9 === 0 ? 'no object' : n % 5 === 0 ? [{ x: 1 }] : { ...(inner !== undefined && { x: inner }) },
    l: pick(LISTS, 5),
    'd.t': pick(SCALARS, 13),
  }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Record<
    string,
    Json
  >
})

type Doc = (typeof DOCUMENTS)[number]

const FIELDS: Readonly<Record<string, (doc: Doc) => Json | undefined>> = {
  a: (doc) => doc['a'],
  b: (doc) => doc['b'],
  'o.x': (doc) => member(doc['o'], 'x'),
  '"d.t"': (doc) => doc['d.t'],
  l: (doc) => doc['l'],
  'l.0': (doc) => member(doc['l'], '0'),
  'l.0.x': (doc) => member(member(doc['l'], '0'), 'x'),
  'l.1.0': (doc) => member(member(doc['l'], '1'), '0'),
  'missing.x': () => undefined,
}

function member(value: Json | undefined, name: string): Json | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  if (Array.isArray(value)) return /^\d+$/.test(name) ? value[Number(name)] : undefined
  return Object.hasOwn(value, name) ? value[name] : undefined
}

/** What a literal stands for: [how it is written, the values that it equals]. */
const LITERALS: readonly (readonly [string, readonly Json[]])[] = [
  ['1', [1, '1']],
  ['1.0', [1, '1.0']],
  ['42', [42, '42']],
  ['"42"', ['42']],
  ['0', [0, '0']],
  ['-1', [-1, '-1']],
  ['01', ['01']],
  ['-0.0000001', [-1e-7, '-0.0000001']],
  ['1e400', ['1e400']],
  ['123456789012', [123456789012, '123456789012']],
  ['true', [true, 'true']],
  ['false', [false, 'false']],
  ['"true"', ['true']],
  ['"null"', ['null']],
  ['a', ['a']],
  ['A', ['A']],
  ['', ['']],
  ['""', ['']],
  ['a%b', ['a%b']],
  ['é', ['é']],
  ['😀', ['😀']],
  ['a\nb', ['a\nb']],
  ['\\', ['\\']],
  ['a.b', ['a.b']],
  ['(x)', ['(x)']],
  ['"\\"q\\""', ['"q"']],
  ["'", ["'"]],
]

const byCodePoint = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))

function compare(a: Json, values: readonly Json[]): number | undefined {
  const number = values.find((value) => typeof value === 'number')
  if (number !== undefined) return typeof a === 'number' ? a - number : undefined
  const text = values.find((value) => typeof value === 'string') ?? ''
  return typeof a === 'string' ? byCodePoint(a, text) : undefined
}

type Holds = (value: Json | undefined) => boolean
interface Condition {
  readonly text: string
  readonly holds: Holds
}

const there = (value: Json | undefined): value is Exclude<Json, null> => value !== undefined && value !== null

const literal = fc.constantFrom(...LITERALS)
const equality = literal.map(
  ([text, values]): Condition => ({ text: `eq.${text}`, holds: (v) => there(v) && values.includes(v) }),
)
const SIGNS = {
  gt: (n: number) => n > 0,
  gte: (n: number) => n >= 0,
  lt: (n: number) => n < 0,
  lte: (n: number) => n <= 0,
}
const comparison = fc
  .tuple(fc.constantFrom('gt', 'gte', 'lt', 'lte'), literal)
  .map(([op, [text, values]]): Condition => {
    const holds: Holds = (v) => {
      const order = there(v) ? compare(v, values) : undefined
      return order !== undefined && SIGNS[op](order)
    }
    return { text: `${op}.${text}`, holds }
  })
const listable = literal.filter(([text]) => !/[),\\]|^$/.test(text))
const among = fc.array(listable, { maxLength: 3 }).map(
  (list): Condition => ({
    text: `in.(${list.map(([text]) => text).join()})`,
    holds: (v) => there(v) && list.some(([, values]) => values.includes(v)),
  }),
)

/** [how a pattern is written, the same as a regular expression]. */
const PATTERNS: readonly (readonly [string, string])[] = [
  ['%', '.*'],
  ['*', '.*'],
  ['_', '.'],
  ['__', '..'],
  ['a%', 'a.*'],
  ['%b', '.*b'],
  ['A%', 'A.*'],
  ['a\\%b', 'a%b'],
  ['a\\_b', 'a_b'],
  ['a_b', 'a.b'],
  ['%.%', '.*\\..*'],
  ['\\\\', '\\\\'],
  ['é', 'é'],
  ['', ''],
  ['(%', '\\(.*'],
  ['42', '42'],
  ['"a%"', 'a.*'],
]
const likeness = fc
  .tuple(fc.constantFrom(...PATTERNS), fc.boolean())
  .map(([[text, source], fold]): Condition => {
    const regex = new RegExp(`^(?:${source})$`, fold ? 'sui' : 'su')
    return {
      text: `${fold ? 'ilike' : 'like'}.${text}`,
      holds: (v) => typeof v === 'string' && regex.test(v),
    }
  })

/** [path, the values that it leads to]. */
const PATHS: readonly (readonly [string, (value: Json) => (Json | undefined)[]])[] = [
  ['$', (v) => [v]],
  ['[*]', (v) => (Array.isArray(v) ? v : [])],
  ['[0]', (v) => (Array.isArray(v) ? [v[0]] : [])],
  ['x', (v) => (Array.isArray(v) ? [] : [member(v, 'x')])],
  ["['0']", (v) => (Array.isArray(v) ? [] : [member(v, '0')])],
  ['[*].x', (v) => (Array.isArray(v) ? v.map((e) => (Array.isArray(e) ? undefined : member(e, 'x'))) : [])],
  ['[*][*]', (v) => (Array.isArray(v) ? v.flatMap((e) => (Array.isArray(e) ? e : [])) : [])],
  ['[1][1]', (v) => (Array.isArray(v) && Array.isArray(v[1]) ? [v[1][1]] : [])],
  ['[*][0]', (v) => (Array.isArray(v) ? v.map((e) => (Array.isArray(e) ? e[0] : undefined)) : [])],
  [
    '[*].x[*]',
    (v) =>
      Array.isArray(v)
        ? v.flatMap((e) => {
            const x = Array.isArray(e) ? undefined : member(e, 'x')
            return Array.isArray(x) ? x : []
          })
        : [],
  ],
  [
    '[0].x[0]',
    (v) => {
      const x = Array.isArray(v) && !Array.isArray(v[0]) ? member(v[0], 'x') : undefined
      return Array.isArray(x) ? [x[0]] : []
    },
  ],
]
const pathEquality = fc.tuple(fc.constantFrom(...PATHS), literal).map(
  ([[path, lead], [text, values]]): Condition => ({
    text: `json_path_eq.(${path},${text})`,
    holds: (v) => there(v) && lead(v).some((found) => there(found) && values.includes(found)),
  }),
)

const positive = fc.oneof(equality, comparison, among, likeness, pathEquality)
const condition: fc.Arbitrary<Condition> = fc.oneof(
  positive,
  positive.map(({ text, holds }) => ({
    text: `not.${text}`,
    holds: (v: Json | undefined) => there(v) && !holds(v),
  })),
  equality.map(({ text, holds }) => ({
    text: `n${text}`,
    holds: (v: Json | undefined) => there(v) && !holds(v),
  })),
  fc.constant({ text: 'is.null', holds: (v: Json | undefined) => !there(v) }),
  fc.constant({ text: 'is.not_null', holds: there }),
)
const filter = fc.tuple(fc.constantFrom(...Object.keys(FIELDS)), condition)

/** Only fields without arrays and objects: those stand in no order that is promised. */
const SORTABLE = ['a', 'b', 'o.x', '"d.t"', 'missing.x', '_version', 'id']
interface Key {
  readonly field: string
  readonly descending: boolean
  readonly nulls: string
}
const key: fc.Arbitrary<Key> = fc.record({
  field: fc.constantFrom(...SORTABLE),
  descending: fc.boolean(),
  nulls: fc.constantFrom('', '', '.nullsfirst', '.nullslast'),
})

const RANKS: Readonly<Record<string, number>> = { string: 1, number: 2, boolean: 3 }

function order(a: Json | undefined, b: Json | undefined, { descending, nulls }: Key): number {
  const nullsFirst = nulls === '' ? descending : nulls === '.nullsfirst'
  if (!there(a) || !there(b)) return there(a) === there(b) ? 0 : there(a) === nullsFirst ? 1 : -1
  const rank = (RANKS[typeof a] ?? 9) - (RANKS[typeof b] ?? 9)
  const same = typeof a === 'string' ? byCodePoint(a, String(b)) : Number(a) - Number(b)
  return (rank || same) * (descending ? -1 : 1)
}

function valueFor(doc: Doc, field: string): Json | undefined {
  if (field === '_version') return 1
  return field === 'id' ? doc['n'] : FIELDS[field]?.(doc)
}

function sorted(docs: readonly Doc[], keys: readonly Key[]): Doc[] {
  const last: Key = { field: 'id', descending: keys.at(-1)?.descending ?? false, nulls: '' }
  return [...docs].sort((a, b) => {
    for (const one of [...keys, last]) {
      const found = order(valueFor(a, one.field), valueFor(b, one.field), one)
      if (found !== 0) return found
    }
    return 0
  })
}

/** Up to three filters, three keys and any page size. */
export const queries: fc.Arbitrary<Query> = fc
  .tuple(
    fc.array(filter, { maxLength: 3 }),
    fc.array(key, { maxLength: 3 }),
    fc.constantFrom(1, 3, 7, 40, 200),
  )
  .map(([filters, keys, size]) => {
    const found = DOCUMENTS.filter((doc) =>
      filters.every(([field, { holds }]) => holds(FIELDS[field]?.(doc))),
    )
    const parameters: [string, string][] = filters.map(([field, { text }]) => [field, text])
    if (keys.length > 0) {
      const written = keys.map(
        ({ field, descending, nulls }) => `${field}.${descending ? 'desc' : 'asc'}${nulls}`,
      )
      parameters.push(['order', written.join()])
    }
    parameters.push(['page[size]', String(found.length / size > 12 ? 40 : size)])
    const text = parameters.map((pair) => pair.map(encodeURIComponent).join('=')).join('&')
    return { text, found: sorted(found, keys).map((doc) => doc['n'] as number) }
  })
