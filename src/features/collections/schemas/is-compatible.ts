/** Decides from two schemas alone if one accepts every document that the other accepts. */

import { isDeepStrictEqual as same } from 'node:util'
import type { Schema, SchemaObject } from './schema-language.ts'

/**
 * Conservative: `false` proves nothing.
 * @param from a prepared schema
 * @param to another one; if the result is true, it accepts every value that `from` accepts
 */
export function isCompatible(from: Schema, to: Schema): boolean {
  if (to === true || from === false) return true
  if (to === false) return same(from, to)
  const was = from === true ? {} : from
  return Object.keys(to).every((keyword) => implied(keyword, was, to))
}

/** True if the constraint of `to` with this keyword follows from `from`. */
function implied(keyword: string, from: SchemaObject, to: SchemaObject): boolean {
  const rule = RULES[keyword]
  if (rule !== undefined) return rule(from, to, keyword)
  return Object.hasOwn(from, keyword) && same(from[keyword], to[keyword])
}

type Rule = (from: SchemaObject, to: SchemaObject, keyword: string) => boolean

/** Rules of numbers that may only decrease, or increase. */
const atLeast: Rule = (from, to, keyword) =>
  Number(from[keyword] ?? Number.NEGATIVE_INFINITY) >= Number(to[keyword])
const atMost: Rule = (from, to, keyword) =>
  Number(from[keyword] ?? Number.POSITIVE_INFINITY) <= Number(to[keyword])
const count: Rule = (from, to, keyword) => Number(from[keyword] ?? 0) >= Number(to[keyword])

/** A rule of keywords that only have a meaning together: all are equal. */
const together =
  (...keywords: readonly string[]): Rule =>
  (from, to) =>
    keywords.every((keyword) => same(from[keyword], to[keyword]))

const part = (schema: SchemaObject, keyword: string): Schema => (schema[keyword] ?? true) as Schema
const parts = (schema: SchemaObject, keyword: string) =>
  (schema[keyword] ?? {}) as Readonly<Record<string, Schema>>
const list = (schema: SchemaObject, keyword: string) => (schema[keyword] ?? []) as readonly Schema[]

const contains = together('contains', 'minContains', 'maxContains')
const alternatives = together('if', 'then', 'else')

const RULES: Readonly<Record<string, Rule>> = {
  type: (from, to) => {
    const wider = [to['type']].flat()
    const fits = (type: unknown) => wider.includes(type) || (type === 'integer' && wider.includes('number'))
    return from['type'] !== undefined && [from['type']].flat().every(fits)
  },
  enum: (from, to) => {
    const values = Object.hasOwn(from, 'const') ? [from['const']] : (from['enum'] as unknown[] | undefined)
    const among = (value: unknown) => (to['enum'] as unknown[]).some((other) => same(value, other))
    return values?.every(among) ?? false
  },
  minimum: atLeast,
  exclusiveMinimum: atLeast,
  maximum: atMost,
  exclusiveMaximum: atMost,
  minLength: count,
  maxLength: atMost,
  minItems: count,
  maxItems: atMost,
  minProperties: count,
  maxProperties: atMost,
  uniqueItems: (from, to) => to['uniqueItems'] === false || from['uniqueItems'] === true,
  items: (from, to) =>
    same(from['prefixItems'], to['prefixItems']) && isCompatible(part(from, 'items'), part(to, 'items')),
  contains,
  minContains: contains,
  maxContains: contains,
  required: (from, to) => {
    const there = list(from, 'required')
    return list(to, 'required').every((name) => there.includes(name))
  },
  properties: (from, to) =>
    Object.entries(parts(to, 'properties')).every(([name, schema]) => memberFits(from, name, schema)),
  patternProperties: (from, to) => {
    const patterns = parts(from, 'patternProperties')
    return Object.entries(parts(to, 'patternProperties')).every(
      ([pattern, schema]) =>
        Object.hasOwn(patterns, pattern) && isCompatible(patterns[pattern] ?? true, schema),
    )
  },
  additionalProperties: othersFit,
  propertyNames: (from, to) => isCompatible(part(from, 'propertyNames'), part(to, 'propertyNames')),
  allOf: (from, to) =>
    list(to, 'allOf').every((schema, index) => {
      const before = list(from, 'allOf')[index]
      return (
        (before !== undefined && isCompatible(before, schema)) ||
        list(from, 'allOf').some((one) => same(one, schema))
      )
    }),
  anyOf: (from, to) => {
    const before = list(from, 'anyOf')
    const after = list(to, 'anyOf')
    const kept = (schema: Schema, index: number) =>
      after[index] !== undefined && isCompatible(schema, after[index])
    return before.length > 0 && before.every(kept)
  },
  not: (from, to) => Object.hasOwn(from, 'not') && isCompatible(part(to, 'not'), part(from, 'not')),
  if: alternatives,
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: alternatives,
  else: alternatives,
}

/** True if `from` constrains the member enough, by its name, by one of its patterns, or as any other member. */
function memberFits(from: SchemaObject, name: string, schema: Schema): boolean {
  const named = parts(from, 'properties')
  const matching = Object.entries(parts(from, 'patternProperties')).filter(([pattern]) =>
    new RegExp(pattern, 'u').test(name),
  )
  const schemas = [
    ...(Object.hasOwn(named, name) ? [named[name] ?? true] : []),
    ...matching.map(([, one]) => one),
  ]
  if (schemas.length === 0) return isCompatible(part(from, 'additionalProperties'), schema)
  return schemas.some((one) => isCompatible(one, schema))
}

/** True if every member that `to` does not name fits its `additionalProperties`. */
function othersFit(from: SchemaObject, to: SchemaObject): boolean {
  const others = part(to, 'additionalProperties')
  const removed = (keyword: string) =>
    Object.entries(parts(from, keyword)).filter(([name]) => !Object.hasOwn(parts(to, keyword), name))
  const fits = ([, schema]: readonly [string, Schema]) => isCompatible(schema, others)
  return (
    isCompatible(part(from, 'additionalProperties'), others) &&
    [...removed('properties'), ...removed('patternProperties')].every(fits)
  )
}
