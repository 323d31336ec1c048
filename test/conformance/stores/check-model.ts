/** Random checks and documents, with a naive reading of them: a check that is neither true nor false is not broken. */

import type { Random } from '../../support/random.ts'

export interface Doc {
  readonly [field: string]: unknown
}

/** True, false, or unknown since a value is null or missing. */
type Truth = boolean | undefined
export interface Case {
  readonly check: Readonly<Record<string, unknown>>
  readonly holds: (doc: Doc) => Truth
}

export const PROPERTIES = {
  a: { type: ['integer', 'null'] },
  b: { type: ['integer', 'null'] },
  x: { type: ['number', 'null'] },
  s: { type: ['string', 'null'] },
  t: { type: ['string', 'null'] },
  from: { type: ['string', 'null'], format: 'date-time' },
  to: { type: ['string', 'null'], format: 'date-time' },
  price: { type: ['string', 'null'], format: 'decimal' },
  limit: { type: ['string', 'null'], format: 'decimal' },
  tags: { type: ['array', 'null'] },
}

const TIMES = [
  '2026-01-01T00:00:00Z',
  '2026-01-01T01:00:00+01:00',
  '2026-01-01T00:00:00.5Z',
  '2025-12-31T23:30:00-01:00',
]
const DECIMALS = ['0', '-0.5', '9.90', '9.9', '10', '123456789012345678901.5']
const TEXTS = ['', 'a', 'B', 'ä', '😀', 'ab']
const VALUES: Readonly<Record<string, readonly unknown[]>> = {
  a: [-1, 0, 1, 2],
  b: [-1, 0, 1, 2],
  x: [-1, 0.5, 1, 2],
  s: TEXTS,
  t: TEXTS,
  from: TIMES,
  to: TIMES,
  price: DECIMALS,
  limit: DECIMALS,
  tags: [[], ['a'], ['a', 'B'], [1, 'ä']],
}
/** Fields that are compared with each other. */
const KINDS = [
  ['a', 'b', 'x'],
  ['s', 't'],
  ['from', 'to'],
  ['price', 'limit'],
] as const

/** The value as something with the order of the values. */
function ordered(field: string, value: unknown): number | string | bigint {
  if (field === 'from' || field === 'to') return Date.parse(String(value))
  if (field === 's' || field === 't') return Buffer.from(String(value)).toString('hex')
  if (field !== 'price' && field !== 'limit') return Number(value)
  const [, sign, whole = '', fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(String(value)) ?? []
  return BigInt(`${sign}${whole}${fraction.padEnd(2, '0')}`)
}

const SIGNS = {
  eq: (a: never, b: never) => a === b,
  neq: (a: never, b: never) => a !== b,
  gt: (a: never, b: never) => a > b,
  gte: (a: never, b: never) => a >= b,
  lt: (a: never, b: never) => a < b,
  lte: (a: never, b: never) => a <= b,
} as const
const SIGN_NAMES = Object.keys(SIGNS) as (keyof typeof SIGNS)[]

const isAbsent = (value: unknown) => value === undefined || value === null
const not = (truth: Truth): Truth => (truth === undefined ? undefined : !truth)
const all = (truths: readonly Truth[]): Truth => {
  if (truths.includes(false)) return false
  return truths.includes(undefined) ? undefined : true
}

const oneOf = <T>(random: Random, values: readonly T[]): T => values[random(values.length)] as T

function comparison(random: Random): Case {
  const kind = oneOf(random, KINDS)
  const [field, other] = [oneOf(random, kind as readonly string[]), oneOf(random, kind as readonly string[])]
  const sign = oneOf(random, SIGN_NAMES)
  const literal = oneOf(random, VALUES[field] ?? [])
  const isField = random(3) > 0
  return {
    check: { [field]: { [sign]: isField ? { $field: other } : literal } },
    holds: (doc) => {
      const [value, bound] = [doc[field], isField ? doc[other] : literal]
      if (isAbsent(value) || isAbsent(bound)) return undefined
      return SIGNS[sign](ordered(field, value) as never, ordered(isField ? other : field, bound) as never)
    },
  }
}

function among(random: Random): Case {
  const field = oneOf(random, ['a', 's', 'from', 'price'])
  const list = [0, 1, 2].slice(random(3)).map(() => oneOf(random, VALUES[field] ?? []))
  return {
    check: { [field]: { in: list } },
    holds: (doc) =>
      isAbsent(doc[field])
        ? undefined
        : list.some((value) => ordered(field, value) === ordered(field, doc[field])),
  }
}

function absent(random: Random): Case {
  const field = oneOf(random, Object.keys(PROPERTIES))
  const negated = random(2) === 0
  return {
    check: { [field]: negated ? { neq: null } : null },
    holds: (doc) => isAbsent(doc[field]) !== negated,
  }
}

function elements(random: Random): Case {
  const list = [oneOf(random, ['a', 'B', 1]), oneOf(random, ['a', 'ä', 'z'])]
  const how = oneOf(random, ['cs', 'ov'] as const)
  return {
    check: { tags: { [how]: list } },
    holds: ({ tags }) => {
      if (isAbsent(tags)) return undefined
      const has = (one: unknown) => (tags as unknown[]).includes(one)
      return how === 'cs' ? list.every(has) : list.some(has)
    },
  }
}

/** A check of up to three levels. */
export function someCase(random: Random, depth = 2): Case {
  const group = depth === 0 ? 0 : random(5)
  if (group < 2) return oneOf(random, [comparison, comparison, comparison, among, absent, elements])(random)
  const inner = [someCase(random, depth - 1), someCase(random, depth - 1)]
  const [one] = inner
  if (group === 2 && one !== undefined)
    return { check: { $not: one.check }, holds: (doc) => not(one.holds(doc)) }
  const of = inner.map(({ check }) => check)
  const truths = (doc: Doc) => inner.map(({ holds }) => holds(doc))
  if (group === 3) return { check: { $and: of }, holds: (doc) => all(truths(doc)) }
  return { check: { $or: of }, holds: (doc) => not(all(truths(doc).map(not))) }
}

/** A document in which some fields are null or missing; or what a change sets. */
export const someFields = (random: Random, present: number): Doc =>
  Object.fromEntries(
    Object.entries(VALUES).flatMap(([field, values]): [string, unknown][] => {
      if (random(10) >= present) return random(3) === 0 ? [[field, null]] : []
      return [[field, oneOf(random, values)]]
    }),
  )
