/** Knows what jq's operators mean for two values: their order, their equality, their sum. */

import { ERRORS, FlowError } from '../errors.ts'
import type { Json, JsonObject } from '../ir.ts'
import { compareText, fieldOf, isObject } from '../json.ts'
import { type Budget, checkDepth, checkSize, spend } from './budget.ts'

const ORDER = ['null', 'false', 'true', 'number', 'string', 'array', 'object']

/** The name jq gives the type of a value. */
export function typeOf(value: Json): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

/**
 * jq's order of all values: null, false, true, numbers, strings by code point, arrays, objects (first by
 * their sorted keys, then value by value).
 * @returns below 0, 0, or above 0
 */
export function compare(a: Json, b: Json, budget: Budget, depth = 1): number {
  spend(budget, 1)
  checkDepth(budget, depth)
  if (typeof a === 'number' && typeof b === 'number') return a - b
  if (typeof a === 'string' && typeof b === 'string') return compareText(a, b)
  if (Array.isArray(a) && Array.isArray(b)) return compareArrays(a, b, budget, depth)
  if (isObject(a) && isObject(b)) return compareObjects(a, b, budget, depth)
  return rank(a) - rank(b)
}

function rank(value: Json): number {
  return ORDER.indexOf(typeof value === 'boolean' ? String(value) : typeOf(value))
}

function compareArrays(a: Json[], b: Json[], budget: Budget, depth: number): number {
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) {
    const order = compare(a[i] ?? null, b[i] ?? null, budget, depth + 1)
    if (order !== 0) return order
  }
  return a.length - b.length
}

function compareObjects(a: JsonObject, b: JsonObject, budget: Budget, depth: number): number {
  const keys = Object.keys(a).sort(compareText)
  const others = Object.keys(b).sort(compareText)
  spend(budget, keys.length + others.length)
  const order = compareArrays(keys, others, budget, depth)
  if (order !== 0) return order
  for (const key of keys) {
    const order = compare(fieldOf(a, key) ?? null, fieldOf(b, key) ?? null, budget, depth + 1)
    if (order !== 0) return order
  }
  return 0
}

/** `+` of jq: null is neutral, numbers add, strings and arrays join, the fields of the right object win. */
export function add(a: Json, b: Json, budget: Budget): Json {
  if (a === null) return b
  if (b === null) return a
  if (typeof a === 'number' && typeof b === 'number') return finite(a + b)
  if (typeof a === 'string' && typeof b === 'string') {
    checkSize(budget, a.length + b.length)
    spend(budget, 1 + (a.length + b.length) / 64)
    return a + b
  }
  if (Array.isArray(a) && Array.isArray(b)) {
    checkSize(budget, a.length + b.length)
    spend(budget, a.length + b.length)
    return [...a, ...b]
  }
  if (isObject(a) && isObject(b)) return merge(a, b, budget)
  throw refuse(`${describe(a)} and ${describe(b)} cannot be added.`)
}

function merge(a: JsonObject, b: JsonObject, budget: Budget): JsonObject {
  const entries = [...Object.entries(a), ...Object.entries(b)]
  spend(budget, entries.length)
  return Object.fromEntries(entries)
}

/** `-` between numbers. */
export function subtract(a: Json, b: Json): Json {
  if (typeof a === 'number' && typeof b === 'number') return finite(a - b)
  throw refuse(`${describe(b)} cannot be subtracted from ${describe(a)}.`)
}

/** JSON has no infinity; jq writes the largest double instead. */
function finite(value: number): number {
  return Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, value))
}

/**
 * `.[key]`: fields of objects, items of arrays (negative from the end, fractions round down); null stays
 * null.
 */
export function at(value: Json, key: Json): Json {
  if (value === null && (key === null || typeof key === 'string' || typeof key === 'number')) return null
  if (isObject(value) && typeof key === 'string') return fieldOf(value, key) ?? null
  if (Array.isArray(value) && typeof key === 'number') return value.at(Math.floor(key)) ?? null
  const what = typeof key === 'string' ? `"${key.slice(0, 40)}"` : describe(key)
  throw refuse(`Cannot read ${what} of ${describe(value)}.`)
}

/** A value in a message: by its type alone, since errors travel further than data should. */
function describe(value: Json): string {
  const type = typeOf(value)
  if (value === null) return 'null'
  return /^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`
}

export function refuse(detail: string): FlowError {
  return new FlowError(ERRORS.expression, detail)
}
