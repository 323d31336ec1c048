/** Conditions on one value: their notations, and whether a naive reading finds them true. */

import fc from 'fast-check'
import { type Json, member, type Value } from './odd-documents.ts'

/** Values that a literal stands for: [its notation, the values that it equals]. */
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

export const byCodePoint = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))

function compare(a: Json, values: readonly Json[]): number | undefined {
  const number = values.find((value) => typeof value === 'number')
  if (number !== undefined) return typeof a === 'number' ? a - number : undefined
  const text = values.find((value) => typeof value === 'string') ?? ''
  return typeof a === 'string' ? byCodePoint(a, text) : undefined
}

type Holds = (value: Value) => boolean

/**
 * A condition, and whether its negation is true: as in SQL, neither is true of null and of missing values in
 * a comparison.
 */
export interface Condition {
  readonly text: string
  readonly holds: Holds
  readonly fails: Holds
  /** FerretDB 1 cannot express it in MongoDB's language. */
  readonly elementwise?: boolean
}

export const there = (value: Value): value is Exclude<Json, null> => value !== undefined && value !== null

/** A comparison with an existing value. */
const testOf = (text: string, passes: (value: Exclude<Json, null>) => boolean): Condition => ({
  text,
  holds: (v) => there(v) && passes(v),
  fails: (v) => there(v) && !passes(v),
})
/** Conditions that are never unknown. */
const certain = (text: string, holds: Holds): Condition => ({ text, holds, fails: (v) => !holds(v) })

const literal = fc.constantFrom(...LITERALS)
const equality = literal.map(([text, values]) => testOf(`eq.${text}`, (v) => values.includes(v)))
const SIGNS = {
  gt: (n: number) => n > 0,
  gte: (n: number) => n >= 0,
  lt: (n: number) => n < 0,
  lte: (n: number) => n <= 0,
}
const OPS = ['gt', 'gte', 'lt', 'lte'] as const
const compares = (op: (typeof OPS)[number], v: Json, values: readonly Json[]): boolean => {
  const order = compare(v, values)
  return order !== undefined && SIGNS[op](order)
}
const comparison = fc
  .tuple(fc.constantFrom(...OPS), literal)
  .map(([op, [text, values]]) => testOf(`${op}.${text}`, (v) => compares(op, v, values)))
const listable = literal.filter(([text]) => !/[),\\]|^$/.test(text))
const among = fc
  .array(listable, { maxLength: 3 })
  .map((list) =>
    testOf(`in.(${list.map(([text]) => text).join()})`, (v) => list.some(([, values]) => values.includes(v))),
  )

/** [notation of a pattern, an equal regular expression]. */
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
const likeness = fc.tuple(fc.constantFrom(...PATTERNS), fc.boolean()).map(([[text, source], fold]) => {
  const regex = new RegExp(`^(?:${source})$`, fold ? 'sui' : 'su')
  return testOf(`${fold ? 'ilike' : 'like'}.${text}`, (v) => typeof v === 'string' && regex.test(v))
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
const pathEquality = fc
  .tuple(fc.constantFrom(...PATHS), literal)
  .map(([[path, lead], [text, values]]) =>
    testOf(`json_path_eq.(${path},${text})`, (v) =>
      lead(v).some((found) => there(found) && values.includes(found)),
    ),
  )

/** Elements in braces: [notation of one, the values that it matches]. */
const ELEMENTS = LITERALS.filter(([text]) => /^(?:"[^\\]*"|[^{},"\\\n]+)$/.test(text))
const braced = fc.array(fc.constantFrom(...ELEMENTS), { maxLength: 3 })
const inBraces = (list: readonly (typeof ELEMENTS)[number][]) => `{${list.map(([text]) => text).join(' ,')}}`

/** One operator with several operands. */
const quantified = fc
  .tuple(fc.constantFrom('eq', ...OPS), fc.constantFrom('any', 'all'), braced)
  .map(([op, quantifier, list]): Condition => {
    const passes = (v: Json, values: readonly Json[]) =>
      op === 'eq' ? values.includes(v) : compares(op, v, values)
    const test = testOf(`${op}(${quantifier}).${inBraces(list)}`, (v) =>
      quantifier === 'any'
        ? list.some(([, values]) => passes(v, values))
        : list.every(([, values]) => passes(v, values)),
    )
    if (list.length > 0 || (op === 'eq' && quantifier === 'any')) return test
    // An empty list of conditions: `and` is true, `or` is false.
    return certain(test.text, () => quantifier === 'all')
  })

/** JSON containment: members at any depth, elements in any order. */
function contains(value: Value, wanted: Json): boolean {
  if (typeof wanted !== 'object' || wanted === null) return value === wanted
  if (typeof value !== 'object' || value === null || Array.isArray(value) !== Array.isArray(wanted))
    return false
  if (Array.isArray(wanted))
    return wanted.every((one) => (value as Json[]).some((element) => contains(element, one)))
  return Object.entries(wanted).every(([name, one]) => contains(member(value, name), one))
}

const WANTED: readonly Json[] = [
  1,
  'a',
  '1',
  2,
  true,
  null,
  { x: 1 },
  { x: [1] },
  { x: 'a', '0': 'z' },
  [1],
  [2, 'a'],
  [],
  {},
]
/** Conditions that read one element more than once. */
const severalNeeds = (wanted: Json): boolean =>
  typeof wanted === 'object' &&
  wanted !== null &&
  (Object.keys(wanted).length > 1 || JSON.stringify(wanted) === '{}')

const elements = fc
  .tuple(
    fc.constantFrom('cs', 'cd', 'ov'),
    fc.oneof(
      braced.map((list) => [inBraces(list), list.map(([, values]) => values)] as const),
      fc
        .subarray([...WANTED], { maxLength: 3 })
        .map((list) => [JSON.stringify(list), list.map((one) => [one])] as const),
    ),
  )
  .filter(
    ([how, [, list]]) => how !== 'cd' || list.flat().every((one) => typeof one !== 'object' || one === null),
  )
  .map(([how, [text, list]]): Condition => {
    const has = (v: Json, forms: readonly Json[]) => forms.some((form) => contains(v, [form]))
    const test = testOf(`${how}.${text}`, (v) => {
      if (!Array.isArray(v)) return false
      if (how === 'cs') return list.every((forms) => has(v, forms))
      if (how === 'ov') return list.some((forms) => has(v, forms))
      return v.every((element) => list.flat().includes(element))
    })
    return { ...test, elementwise: how === 'cd' || list.flat().some(severalNeeds) }
  })

const MEMBERS: readonly { [name: string]: Json }[] = [
  { x: 1 },
  { x: 'a', y: null },
  { x: true, y: 1, z: 'b' },
  { x: 1, '0': 'z' },
  { y: 2 },
]
const objects = fc.tuple(fc.constantFrom('cs', 'cd'), fc.constantFrom(...MEMBERS)).map(([how, wanted]) =>
  testOf(`${how}.${JSON.stringify(wanted)}`, (v) => {
    if (typeof v !== 'object' || Array.isArray(v)) return false
    return how === 'cs'
      ? contains(v, wanted)
      : Object.entries(v).every(([name, one]) => member(wanted, name) === one)
  }),
)

const words = fc.constantFrom(
  certain('is.null', (v) => !there(v)),
  certain('is.UNKNOWN', (v) => !there(v)),
  certain('is.not_null', there),
  certain('is.true', (v) => v === true),
  certain('is.false', (v) => v === false),
  certain('exists.true', (v) => v !== undefined),
  certain('exists.false', (v) => v === undefined),
)
const distinct = literal.map(([text, values]) =>
  certain(`isdistinct.${text}`, (v) => !(there(v) && values.includes(v))),
)

const positive = fc.oneof(
  equality,
  comparison,
  among,
  likeness,
  pathEquality,
  quantified,
  elements,
  objects,
  words,
  distinct,
)
export const condition: fc.Arbitrary<Condition> = fc.oneof(
  positive,
  positive.map(({ text, holds, fails, ...rest }) => ({
    ...rest,
    text: `not.${text}`,
    holds: fails,
    fails: holds,
  })),
  equality.map(({ text, holds, fails }) => ({ text: `n${text}`, holds: fails, fails: holds })),
)
