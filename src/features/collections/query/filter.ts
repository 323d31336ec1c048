/** The query tree that every grammar is parsed to and every store compiles, and the types of its literals. */

import { Problem } from '../../../core/problem.ts'
import type { Json } from '../../../core/work.ts'
import { completeTimestamp, type Format } from '../schemas/canonical-text.ts'

/** Names from the outside in. A canonical whole number is also the index of an array. */
export type Path = readonly [string, ...string[]]

/**
 * The values that one literal may mean: an unquoted `42` in a URL is the number or the same text; quoted texts and JSON
 * values have one form. Null is a form only as an element of an array.
 */
export type Literal = readonly [Json, ...Json[]]

/** A piece of a pattern: literal text, `one` character, or `any` run of characters. */
export type PatternPart = { readonly text: string } | 'one' | 'any'
export type Pattern = readonly PatternPart[]

/** A step below a field: a member, an element, or every element. */
export type Step = { readonly member: string } | { readonly index: number } | 'every'

export type Comparison = 'gt' | 'gte' | 'lt' | 'lte'

/** A test of an existing value. */
export type Test =
  /** Equal to one of the values. */
  | { readonly op: 'in'; readonly values: readonly Literal[] }
  /** Never across types: a number with numbers, a text with texts by code point. */
  | { readonly op: Comparison; readonly value: Literal }
  /** Texts only. `fold`: letters match without their case. */
  | { readonly op: 'like'; readonly pattern: Pattern; readonly fold: boolean }
  /** One of the values to which the steps lead equals the literal. */
  | { readonly op: 'at'; readonly steps: readonly Step[]; readonly value: Literal }
  /**
   * Arrays only. `cs`: contains each of the values; `ov`: contains one; `cd`: contains no others. An array contains a
   * scalar that equals an element, and an object or array that an element contains. `cd` takes scalars and null only.
   */
  | { readonly op: 'array'; readonly how: 'cs' | 'cd' | 'ov'; readonly values: readonly Literal[] }
  /** Objects only. `cs`: has all of these members, at any depth; `cd`: has no others, and these are scalars. */
  | { readonly op: 'object'; readonly how: 'cs' | 'cd'; readonly members: Members }

export type Members = { readonly [name: string]: Json }

/** `isOwn`: the path is one of the document itself, also if its first name is that of a reference. */
export type Filter =
  | { readonly kind: 'all' | 'any'; readonly of: readonly Filter[] }
  /**
   * `not`: the value exists, is not null, and fails the test. Without `not`, null and missing values fail, too. `as`: tests
   * the canonical text in this format, which values of another form lack; the literals are canonical texts, too.
   */
  | {
      readonly kind: 'test'
      readonly path: Path
      readonly test: Test
      readonly not: boolean
      readonly as?: Format
      readonly isOwn?: true
    }
  /**
   * The values of two fields of the document, compared with each other: a test that fails, with and without `not`, if one of them is null
   * or missing. Only conditions of declarations have it.
   */
  | {
      readonly kind: 'fields'
      readonly path: Path
      readonly op: 'eq' | Comparison
      readonly other: Path
      readonly not: boolean
      readonly as?: Format
    }
  /** Null or missing; with `not`, neither. `as`: the canonical text may be tested instead if each value has one. */
  | {
      readonly kind: 'null'
      readonly path: Path
      readonly not: boolean
      readonly as?: Format
      readonly isOwn?: true
    }
  /** Existing, even if null; with `not`, missing. */
  | { readonly kind: 'exists'; readonly path: Path; readonly not: boolean; readonly isOwn?: true }
  /**
   * The documents at the other end of a reference, as far as the caller may read them: one of them matches; with `not`, none does. The path
   * is the name of the reference. `join` is there once the reference is known (`references/related.ts`).
   */
  | {
      readonly kind: 'related'
      readonly path: Path
      readonly filter: Filter
      readonly not: boolean
      readonly join?: Join
    }
  /** Compared with a value that the caller of a rule lacks. Matches nothing, with and without `not`, as null does in SQL. */
  | { readonly kind: 'unknown'; readonly path: Path; readonly not: boolean }
  /**
   * Compared with the document before an update. Until the result is known it admits every document, with and without `not`;
   * it is never folded, so a permission with it is always tested against the document.
   */
  | { readonly kind: 'deferred'; readonly path: Path; readonly not: boolean }

/** The collection at the other end of a reference, and the fields that are equal in documents that belong together. */
export interface Join {
  /** A `Collection` (`joinedCollection` of `store.ts`, which imports this file). */
  readonly collection: object
  readonly own: Path
  readonly other: Path
}

/** Matches every document. */
export const ALL: Filter = { kind: 'all', of: [] }
/** Matches no document. */
export const NONE: Filter = { kind: 'any', of: [] }

export interface OrderKey {
  readonly path: Path
  readonly descending: boolean
  readonly nullsFirst: boolean
  /** Orders by the canonical text; values without one stand with the nulls. */
  readonly as?: Format
}

/** The order of ids, which is total. */
export const BY_ID: readonly OrderKey[] = [{ path: ['id'], descending: false, nullsFirst: false }]

/** A path as it is written in a query. */
export const pathText = (path: Path): string =>
  path.map((name) => (/^[A-Za-z0-9_$ -]+$/.test(name) ? name : JSON.stringify(name))).join('.')

/**
 * Negates a filter. The negation moves down to the tests, where null and missing values match neither way: as in SQL,
 * where unknown stays unknown.
 */
export function negated(filter: Filter): Filter {
  if (!('of' in filter)) return { ...filter, not: !filter.not }
  return { kind: filter.kind === 'all' ? 'any' : 'all', of: filter.of.map(negated) }
}

/** The filter, of whose paths the first name is one of the document itself: it was written in quotes. */
export function ofOwnField(filter: Filter): Filter {
  if ('of' in filter) return { ...filter, of: filter.of.map(ofOwnField) }
  const { kind } = filter
  return kind === 'test' || kind === 'null' || kind === 'exists' ? { ...filter, isOwn: true } : filter
}

/** Every path of the document itself that a filter uses. */
export function pathsOf(filter: Filter): Path[] {
  if ('of' in filter) return filter.of.flatMap(pathsOf)
  if (filter.kind === 'related') return [filter.join?.own ?? filter.path]
  return filter.kind === 'fields' ? [filter.path, filter.other] : [filter.path]
}

/** True if a name may also be the index of an array. */
export const isIndex = (name: string): boolean => /^(0|[1-9][0-9]{0,8})$/.test(name)

export type ScalarType = 'text' | 'bigint' | 'double precision' | 'boolean' | 'timestamptz' | 'uuid'
export type Scalar = string | number | boolean

/**
 * Selects the value of the column's type from those that a literal may mean. A timestamp is completed.
 * @throws Problem `filter_type_mismatch`
 */
export function toType(literal: Literal, type: ScalarType, path: Path): Scalar {
  const found = literal.find((form): form is Scalar => FITS[type](form))
  if (found === undefined) throw mismatch(path, type, JSON.stringify(literal.at(-1)))
  return type === 'timestamptz' ? (completeTimestamp(String(found)) ?? found) : found
}

/** The number that a literal may mean, else the text: values with an order. @throws Problem `filter_type_mismatch` */
export function numberOrText(literal: Literal, path: Path): number | string {
  const found =
    literal.find((form) => typeof form === 'number') ?? literal.find((form) => typeof form === 'string')
  if (found === undefined) throw mismatch(path, 'number or text', JSON.stringify(literal[0]))
  return found
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

const FITS: Readonly<Record<ScalarType, (form: Json) => boolean>> = {
  text: (form) => typeof form === 'string',
  bigint: (form) => typeof form === 'number',
  'double precision': (form) => typeof form === 'number',
  boolean: (form) => typeof form === 'boolean',
  timestamptz: (form) => typeof form === 'string' && !Number.isNaN(Date.parse(completeTimestamp(form) ?? '')),
  uuid: (form) => typeof form === 'string' && UUID.test(form),
}

/** @param expected the type of the path in words */
export function mismatch(path: Path, expected: string, got: string): Problem {
  const name = pathText(path)
  const hint = expected === 'timestamptz' ? plusHint(got) : undefined
  return typeMismatch(name, `${name} is compared as ${expected}; got ${got.slice(0, 100)}.`, hint)
}

/** A literal or an operator does not fit the type of a field. */
export function typeMismatch(name: string, detail: string, hint?: string): Problem {
  const errors = [{ in: 'query', name, pointer: '', detail }] as const
  return new Problem('filter_type_mismatch', { detail, errors, ...(hint !== undefined && { hint }) })
}

/** The hint for a timestamp whose offset has lost its plus sign. */
export function plusHint(got: string): string | undefined {
  return / \d\d:?\d\d"?$/.test(got) ? 'In a URL, a plus is a blank: write it as %2B.' : undefined
}
