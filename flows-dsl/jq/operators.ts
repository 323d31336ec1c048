/** Implements jq's operators on two values, and its order of all values. */

import {
  type Budget,
  charge,
  chargeFields,
  chargeGrowth,
  chargeNames,
  checkDepth,
  checkSize,
  spend,
} from '../budget.ts'
import type { Json, JsonObject } from '../ir.ts'
import { compareText, fieldOf, isObject } from '../json.ts'
import { splitText } from './code-points.ts'
import type { BinaryOperator } from './expression.ts'
import { jqError } from './jq-error.ts'

/** Containers that one operation has created and nothing else refers to: it may change them in place. */
export type Owned = Set<Json>

/** Gives up all ownership if the value is a container, whose receiver may keep it. @returns the value */
export function shared(value: Json, owned: Owned): Json {
  if (typeof value === 'object' && value !== null) owned.clear()
  return value
}

/** Everything but null and false is true in jq. */
export function isTrue(value: Json): boolean {
  return value !== null && value !== false
}

type Operation = (a: Json, b: Json, budget: Budget) => Json

/** The operators. Each throws a JqError if it does not accept the values. */
export const OPERATIONS: Readonly<Record<BinaryOperator, Operation>> = {
  '+': add,
  '-': subtract,
  '*': multiply,
  '/': divide,
  '%': remainder,
  '==': (a, b, budget) => compare(a, b, budget) === 0,
  '!=': (a, b, budget) => compare(a, b, budget) !== 0,
  '<': (a, b, budget) => compare(a, b, budget) < 0,
  '<=': (a, b, budget) => compare(a, b, budget) <= 0,
  '>': (a, b, budget) => compare(a, b, budget) > 0,
  '>=': (a, b, budget) => compare(a, b, budget) >= 0,
}

/**
 * jq's order of all values: null, false, true, numbers, strings by code point, arrays, objects (first by
 * their sorted keys, then value by value). NaN is less than every number, itself included.
 * @returns below 0, 0, or above 0
 */
export function compare(a: Json, b: Json, budget: Budget, depth = 1): number {
  spend(budget, 1)
  if (typeof a === 'number' && typeof b === 'number') return compareNumbers(a, b)
  if (typeof a === 'string' && typeof b === 'string') {
    spend(budget, Math.min(a.length, b.length) >> 4)
    return compareText(a, b)
  }
  checkDepth(budget, depth)
  if (Array.isArray(a) && Array.isArray(b)) return compareArrays(a, b, budget, depth)
  if (isObject(a) && isObject(b)) return compareObjects(a, b, budget, depth)
  return rank(a) - rank(b)
}

function compareNumbers(a: number, b: number): number {
  if (a < b) return -1
  if (a > b) return 1
  if (a === b) return 0
  return Number.isNaN(a) ? -1 : 1
}

function rank(value: Json): number {
  if (value === null) return 0
  if (typeof value === 'boolean') return value ? 2 : 1
  if (typeof value === 'number') return 3
  if (typeof value === 'string') return 4
  return Array.isArray(value) ? 5 : 6
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
  const keys = sortedKeys(a, budget)
  const order = compareArrays(keys, sortedKeys(b, budget), budget, depth)
  if (order !== 0) return order
  for (const key of keys) {
    const order = compare(fieldOf(a, key) ?? null, fieldOf(b, key) ?? null, budget, depth + 1)
    if (order !== 0) return order
  }
  return 0
}

/** The names of an object's fields. Listing them is charged. */
export function keysIn(object: JsonObject, budget: Budget): string[] {
  const keys = Object.keys(object)
  chargeNames(budget, keys.length)
  return keys
}

/** The values of an array or of an object's fields. @throws JqError for other values */
export function valuesIn(value: Json, budget: Budget): readonly Json[] {
  if (Array.isArray(value)) return value
  if (!isObject(value)) throw jqError('Cannot iterate over %v', value)
  return keysIn(value, budget).map((key) => value[key] ?? null)
}

/** The names of an object's fields by code point. */
export function sortedKeys(object: JsonObject, budget: Budget): string[] {
  const keys = Object.keys(object)
  spend(budget, keys.length * (1 + Math.ceil(Math.log2(1 + keys.length) / 4)))
  return keys.sort(compareText)
}

/** `+`: null is neutral, numbers add, strings and arrays join, the fields of the right object win. */
function add(a: Json, b: Json, budget: Budget): Json {
  if (typeof a === 'number' && typeof b === 'number') return a + b
  if (a === null) return b
  if (b === null) return a
  if (typeof a === 'string' && typeof b === 'string') {
    checkSize(budget, a.length + b.length)
    spend(budget, 1 + ((a.length + b.length) >> 6))
    return a + b
  }
  if (Array.isArray(a) && Array.isArray(b)) {
    charge(budget, a.length + b.length)
    return a.concat(b)
  }
  if (isObject(a) && isObject(b)) return merge(a, b, budget)
  throw jqError('%v and %v cannot be added', a, b)
}

function merge(a: JsonObject, b: JsonObject, budget: Budget): JsonObject {
  const count = Object.keys(a).length + Object.keys(b).length
  chargeFields(budget, count)
  return { ...a, ...b }
}

/**
 * The sum of `a`, to which nothing else refers any more, and `b`: an owned `a` grows in place.
 * @throws JqError, FlowError (expression), as {@link add}
 */
export function addInPlace(a: Json, b: Json, budget: Budget, owned: Owned): Json {
  if (!owned.has(a)) {
    const sum = add(a, b, budget)
    if (sum !== a && sum !== b) owned.add(sum)
    return sum
  }
  if (Array.isArray(a) && Array.isArray(b)) {
    checkSize(budget, a.length + b.length)
    spend(budget, 1 + b.length)
    for (let i = 0, { length } = b; i < length; i++) a.push(b[i] ?? null)
    return a
  }
  if (isObject(a) && isObject(b)) {
    const keys = keysIn(b, budget)
    chargeGrowth(budget, keys.length)
    for (const key of keys) define(a, key, b[key] ?? null)
    return a
  }
  return add(a, b, budget)
}

/** `-`: numbers subtract; an array loses all items that are equal to one of the other. */
function subtract(a: Json, b: Json, budget: Budget): Json {
  if (typeof a === 'number' && typeof b === 'number') return a - b
  if (Array.isArray(a) && Array.isArray(b)) {
    charge(budget, a.length)
    return a.filter((item) => !b.some((other) => compare(item, other, budget) === 0))
  }
  throw jqError('%v and %v cannot be subtracted', a, b)
}

/** The longest string that jq makes, in bytes. */
const REPEATED_MAX = 2_147_483_647

/** `*`: numbers multiply, a string is repeated, an object is merged into the other at all depths. */
function multiply(a: Json, b: Json, budget: Budget): Json {
  if (typeof a === 'number' && typeof b === 'number') return a * b
  if (typeof a === 'string' && typeof b === 'number') return repeat(a, b, budget)
  if (typeof a === 'number' && typeof b === 'string') return repeat(b, a, budget)
  if (isObject(a) && isObject(b)) return mergeDeep(a, b, budget, 1)
  throw jqError('%v and %v cannot be multiplied', a, b)
}

function repeat(text: string, times: number, budget: Budget): Json {
  if (!(times >= 0)) return null
  if (text === '') return ''
  const count = Math.floor(times)
  if (text.length * count > REPEATED_MAX) throw jqError('Repeat string result too long')
  charge(budget, text.length * count)
  return text.repeat(count)
}

function mergeDeep(a: JsonObject, b: JsonObject, budget: Budget, depth: number): JsonObject {
  checkDepth(budget, depth)
  const merged = merge(a, b, budget)
  for (const [key, value] of Object.entries(b)) {
    const before = fieldOf(a, key)
    if (before === undefined || !isObject(before) || !isObject(value)) continue
    define(merged, key, mergeDeep(before, value, budget, depth + 1))
  }
  return merged
}

/** Sets a field of an object under construction; `__proto__` is a field like any other. */
export function define(object: JsonObject, key: string, value: Json): void {
  if (key === '__proto__') {
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true })
  } else object[key] = value
}

/** `/`: numbers divide, a string is split. */
function divide(a: Json, b: Json, budget: Budget): Json {
  if (typeof a === 'number' && typeof b === 'number') {
    if (b === 0) throw jqError('%v and %v cannot be divided because the divisor is zero', a, b)
    return a / b
  }
  if (typeof a === 'string' && typeof b === 'string') return splitText(a, b, budget)
  throw jqError('%v and %v cannot be divided', a, b)
}

/** `%` of 64-bit integers: fractions are truncated, the sign is that of the left operand. */
function remainder(a: Json, b: Json): Json {
  if (typeof a !== 'number' || typeof b !== 'number') throw jqError('%v and %v cannot be divided', a, b)
  if (Number.isNaN(a) || Number.isNaN(b)) return Number.NaN
  const [left, right] = [Math.trunc(a), Math.abs(Math.trunc(b))]
  if (right === 0) throw jqError('%v and %v cannot be divided (remainder) because the divisor is zero', a, b)
  if (Math.abs(left) <= Number.MAX_SAFE_INTEGER && right <= Number.MAX_SAFE_INTEGER) return left % right || 0
  return Number(whole(left) % whole(right))
}

function whole(value: number): bigint {
  const [least, most] = [-(2n ** 63n), 2n ** 63n - 1n]
  if (value >= 2 ** 63) return most
  return value <= -(2 ** 63) ? least : BigInt(value)
}
