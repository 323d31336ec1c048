/** Generates rules with a naive reading of them: whether each holds, fails, or is unknown for a document and a caller. */

import fc from 'fast-check'

export interface Doc {
  readonly n: number
  readonly owner: string | null
  readonly title?: string | null
  readonly team?: string | null
  readonly level?: number | null
  readonly open?: boolean
  readonly tags?: readonly string[]
  readonly publish_at?: string
}

export interface Caller {
  readonly id: string
  readonly email: string
  readonly email_verified: boolean
  readonly claims: Readonly<Record<string, unknown>>
}

const PAST = '2020-01-01T00:00:00Z'
const FUTURE = '2999-01-01T01:30:00+01:30'

/** By two owners and by nobody. */
export const DOCS: readonly Doc[] = [
  { n: 1, owner: 'mia', title: 'a', team: 'red', level: 1, open: true, tags: ['x', 'y'], publish_at: PAST },
  { n: 2, owner: 'mia', title: 'b', team: 'blue', level: 3, open: false, tags: [], publish_at: FUTURE },
  { n: 3, owner: 'mia', team: null, level: null, tags: ['x'] },
  { n: 4, owner: 'ben', title: 'mia', team: 'red', level: 7, open: true, tags: ['y', 'z'] },
  { n: 5, owner: 'ben', title: 'mia@example.com', level: 3, publish_at: PAST },
  { n: 6, owner: null, title: '$user.id', team: 'green', level: -1, open: true, tags: ['red', 'x'] },
  { n: 7, owner: null, title: null, team: 'red', tags: ['blue'], publish_at: '2020-01-01T00:00:00.000Z' },
]

export const CALLERS: readonly Caller[] = [
  {
    ...{ id: 'mia', email: 'mia@example.com', email_verified: true },
    claims: { team: 'red', teams: ['red', 'blue'], level: 3, role: 'admin', tag: 'x', none: null },
  },
  {
    ...{ id: 'ben', email: 'mia@example.com', email_verified: false },
    claims: { team: 7, teams: [], level: '3', role: 'editor', tag: 'z' },
  },
  { id: 'eve', email: 'eve@example.com', email_verified: true, claims: {} },
]

/** Neither: the test is unknown. */
interface Reading {
  readonly holds: (doc: Doc, caller: Caller) => boolean
  readonly fails: (doc: Doc, caller: Caller) => boolean
}
export interface GeneratedRule extends Reading {
  readonly rule: Readonly<Record<string, unknown>>
}

type Value = unknown
const there = (value: Value) => value !== undefined && value !== null

/** A test of present values. */
const tested = (
  rule: GeneratedRule['rule'],
  values: (doc: Doc, caller: Caller) => readonly Value[],
  passes: (...values: never[]) => boolean,
): GeneratedRule => ({
  rule,
  holds: (doc, caller) => values(doc, caller).every(there) && passes(...(values(doc, caller) as never[])),
  fails: (doc, caller) => values(doc, caller).every(there) && !passes(...(values(doc, caller) as never[])),
})

const SIGNS = {
  gt: (a: number | string, b: number | string) => a > b,
  gte: (a: number | string, b: number | string) => a >= b,
  lt: (a: number | string, b: number | string) => a < b,
  lte: (a: number | string, b: number | string) => a <= b,
} as const
const SIGN_NAMES = Object.keys(SIGNS) as (keyof typeof SIGNS)[]

const emailOf = (caller: Caller) => (caller.email_verified ? caller.email : undefined)
/** A claim of another type than the field is no value. */
const claim = (name: string, type: string) => (_doc: Doc, caller: Caller) => {
  const value = caller.claims[name]
  return typeof value === type ? value : undefined
}

const fixed: fc.Arbitrary<GeneratedRule> = fc.oneof(
  fc.constantFrom('red', 'blue', 'none').map((team) =>
    tested(
      { team },
      (doc) => [doc.team],
      (value: string) => value === team,
    ),
  ),
  fc.constantFrom('a', 'mia').map((title) =>
    tested(
      { title: { neq: title } },
      (doc) => [doc.title],
      (value: string) => value !== title,
    ),
  ),
  fc.tuple(fc.constantFrom(...SIGN_NAMES), fc.constantFrom(-1, 1, 3)).map(([sign, level]) =>
    tested(
      { level: { [sign]: level } },
      (doc) => [doc.level],
      (value: number) => SIGNS[sign](value, level),
    ),
  ),
  fc.constant(
    tested(
      { open: true },
      (doc) => [doc.open],
      (value: boolean) => value,
    ),
  ),
  fc.constant(
    tested(
      { tags: { cs: ['x'] } },
      (doc) => [doc.tags],
      (tags: string[]) => tags.includes('x'),
    ),
  ),
  fc.constant<GeneratedRule>({
    rule: { team: null },
    holds: (doc) => !there(doc.team),
    fails: (doc) => there(doc.team),
  }),
  // A text that begins with a dollar sign is written with two.
  fc.constant(
    tested(
      { title: '$$user.id' },
      (doc) => [doc.title],
      (value: string) => value === '$user.id',
    ),
  ),
)

const ofCaller: fc.Arbitrary<GeneratedRule> = fc.oneof(
  fc.constant(
    tested(
      { _owner: '$user.id' },
      (doc, { id }) => [doc.owner, id],
      (a: string, b: string) => a === b,
    ),
  ),
  fc.constant(
    tested(
      { _owner: { neq: '$user.id' } },
      (doc, { id }) => [doc.owner, id],
      (a: string, b: string) => a !== b,
    ),
  ),
  fc.constant(
    tested(
      { title: '$user.id' },
      (doc, { id }) => [doc.title, id],
      (a: string, b: string) => a === b,
    ),
  ),
  fc.constant(
    tested(
      { title: { in: ['a', '$user.email'] } },
      (doc, caller) => [doc.title, emailOf(caller)],
      (a: string, b: string) => ['a', b].includes(a),
    ),
  ),
  fc.constant(
    tested(
      { team: '$user.claims.team' },
      (doc, caller) => [doc.team, claim('team', 'string')(doc, caller)],
      (a: string, b: string) => a === b,
    ),
  ),
  fc.constant(
    tested(
      { team: { in: '$user.claims.teams' } },
      (doc, { claims }) => [doc.team, claims['teams']],
      (a: string, b: string[]) => b.includes(a),
    ),
  ),
  fc.constantFrom(...SIGN_NAMES).map((sign) =>
    tested(
      { level: { [sign]: '$user.claims.level' } },
      (doc, caller) => [doc.level, claim('level', 'number')(doc, caller)],
      (a: number, b: number) => SIGNS[sign](a, b),
    ),
  ),
  fc.constant(
    tested(
      { tags: { cs: ['$user.claims.tag'] } },
      (doc, { claims }) => [doc.tags, claims['tag']],
      (tags: string[], tag: string) => tags.includes(tag),
    ),
  ),
  fc.constant(
    tested(
      { tags: { ov: '$user.claims.teams' } },
      (doc, { claims }) => [doc.tags, claims['teams']],
      (tags: string[], teams: string[]) => tags.some((tag) => teams.includes(tag)),
    ),
  ),
  fc.constantFrom(...SIGN_NAMES).map((sign) =>
    tested(
      { publish_at: { [sign]: '$now' } },
      (doc) => [doc.publish_at],
      (value: string) => SIGNS[sign](Date.parse(value), Date.now()),
    ),
  ),
  fc.constant(
    tested(
      { '$user.claims.role': 'admin' },
      (_doc, { claims }) => [claims['role']],
      (role: string) => role === 'admin',
    ),
  ),
  fc.constant(
    tested(
      { '$user.claims.level': { gte: 3 } },
      (_doc, { claims }) => [claims['level']],
      (level: unknown) => typeof level === 'number' && level >= 3,
    ),
  ),
  fc.constant(
    tested(
      { team: '$user.claims.none' },
      (doc, { claims }) => [doc.team, claims['none']],
      () => true,
    ),
  ),
)

const leaf = fc.oneof({ weight: 2, arbitrary: fixed }, { weight: 3, arbitrary: ofCaller })

function group(of: fc.Arbitrary<GeneratedRule>): fc.Arbitrary<GeneratedRule> {
  return fc
    .tuple(fc.constantFrom('$and', '$or', '$not'), fc.array(of, { minLength: 1, maxLength: 3 }))
    .map(([kind, parts]): GeneratedRule => {
      const every =
        (how: keyof Reading): Reading['holds'] =>
        (doc, caller) =>
          parts.every((part) => part[how](doc, caller))
      const some =
        (how: keyof Reading): Reading['holds'] =>
        (doc, caller) =>
          parts.some((part) => part[how](doc, caller))
      const rules = parts.map(({ rule }) => rule)
      if (kind === '$or') return { rule: { $or: rules }, holds: some('holds'), fails: every('fails') }
      if (kind === '$and') return { rule: { $and: rules }, holds: every('holds'), fails: some('fails') }
      return { rule: { $not: { $and: rules } }, holds: some('fails'), fails: every('holds') }
    })
}

export const rules: fc.Arbitrary<GeneratedRule> = fc.oneof(
  { weight: 2, arbitrary: leaf },
  { weight: 3, arbitrary: group(leaf) },
  { weight: 3, arbitrary: group(fc.oneof(leaf, group(leaf))) },
)
