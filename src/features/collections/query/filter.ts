/** The query tree that every grammar is parsed to and every store compiles, and the types of its literals. */

import { Problem } from '../../../core/problem.ts'
import type { Json } from '../../../core/work.ts'
import { completeTimestamp, type Format } from '../schemas/canonical-text.ts'

/** Names from the outside in. A canonical whole number is also the index of an array. */
export type Path = readonly [string, ...string[]]

/**
 * The values that one literal may mean: an unquoted `42` in a URL is the number or the same text, what is quoted or
 * came as JSON has one form. No form is null, but for an element that an array may have.
 */
export type Literal = readonly [Json, ...Json[]]

/** A piece of a pattern: text to be found as it is, `one` character, or `any` run of them. */
export type PatternPart = { readonly text: string } | 'one' | 'any'
export type Pattern = readonly PatternPart[]

/** A step below a field: a member, an element, or every element. */
export type Step = { readonly member: string } | { readonly index: number } | 'every'

export type Comparison = 'gt' | 'gte' | 'lt' | 'lte'

/** A test of one value that exists. */
export type Test =
  /** Equal to one of them; to none where there is none. */
  | { readonly op: 'in'; readonly values: readonly Literal[] }
  /** Never across types: a number with numbers, a text with texts by code point. */
  | { readonly op: Comparison; readonly value: Literal }
  /** Texts only. `fold`: letters match without their case. */
  | { readonly op: 'like'; readonly pattern: Pattern; readonly fold: boolean }
  /** Any of the values below that the steps lead to equals the literal. */
  | { readonly op: 'at'; readonly steps: readonly Step[]; readonly value: Literal }
  /**
   * Arrays only. `cs`: each of these is in it; `ov`: one of them is; `cd`: nothing else is. A scalar is in an array
   * that has an equal element, an object or array where an element contains it. `cd` has scalars and null alone.
   */
  | { readonly op: 'array'; readonly how: 'cs' | 'cd' | 'ov'; readonly values: readonly Literal[] }
  /** Objects only. `cs`: all of these members are in it, at any depth; `cd`: no others are, and these are scalars. */
  | { readonly op: 'object'; readonly how: 'cs' | 'cd'; readonly members: Members }

export type Members = { readonly [name: string]: Json }

export type Filter =
  | { readonly kind: 'all' | 'any'; readonly of: readonly Filter[] }
  /**
   * `not`: the value is there, is not null, and fails the test. Without it, null and missing fail as well. `as`: not the
   * value is tested but the canonical text of it, which what is not of the format has none of; so are the literals.
   */
  | {
      readonly kind: 'test'
      readonly path: Path
      readonly test: Test
      readonly not: boolean
      readonly as?: Format
    }
  /** Null or missing; with `not`, neither. `as`: the canonical text may be asked where each value has one. */
  | { readonly kind: 'null'; readonly path: Path; readonly not: boolean; readonly as?: Format }
  /** There, be it null; with `not`, missing. */
  | { readonly kind: 'exists'; readonly path: Path; readonly not: boolean }

export interface OrderKey {
  readonly path: Path
  readonly descending: boolean
  readonly nullsFirst: boolean
  /** By the canonical text; what has none stands with the nulls. */
  readonly as?: Format
}

/** A path as it is written in a query. */
export const pathText = (path: Path): string =>
  path.map((name) => (/^[A-Za-z0-9_$ -]+$/.test(name) ? name : JSON.stringify(name))).join('.')

/**
 * The filter with `not` before it. It sinks to the tests, where null and missing are passed over: as in SQL, where
 * what is unknown stays so when it is negated.
 */
export function negated(filter: Filter): Filter {
  if (!('of' in filter)) return { ...filter, not: !filter.not }
  return { kind: filter.kind === 'all' ? 'any' : 'all', of: filter.of.map(negated) }
}

/** Every path that a filter looks at. */
export function pathsOf(filter: Filter): Path[] {
  return 'of' in filter ? filter.of.flatMap(pathsOf) : [filter.path]
}

/** True if a name may also be the index of an array. */
export const isIndex = (name: string): boolean => /^(0|[1-9][0-9]{0,8})$/.test(name)

export type ScalarType = 'text' | 'bigint' | 'double precision' | 'boolean' | 'timestamptz' | 'uuid'
export type Scalar = string | number | boolean

/**
 * Of the values that a literal may mean, the one of the column's type. A point in time is said in full.
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

/** @param wanted what the path is compared as, in words */
export function mismatch(path: Path, wanted: string, got: string): Problem {
  const name = pathText(path)
  const hint = wanted === 'timestamptz' ? plusHint(got) : undefined
  return typeMismatch(name, `${name} is compared as ${wanted}; got ${got.slice(0, 100)}.`, hint)
}

/** A literal or an operator does not fit the type of a field. */
export function typeMismatch(name: string, detail: string, hint?: string): Problem {
  const errors = [{ in: 'query', name, pointer: '', detail }] as const
  return new Problem('filter_type_mismatch', { detail, errors, ...(hint !== undefined && { hint }) })
}

/** The hint for a point in time whose offset has lost its plus sign. */
export function plusHint(got: string): string | undefined {
  return / \d\d:?\d\d"?$/.test(got) ? 'In a URL, a plus is a blank: write it as %2B.' : undefined
}
