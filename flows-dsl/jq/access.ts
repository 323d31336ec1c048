/** Reads, sets and deletes parts of values, by key and by path. Changes copy the containers above the part. */

import { type Budget, charge, chargeFields, chargeGrowth, chargeItems, checkDepth, spend } from '../budget.ts'
import { fieldOf, isObject, type Json, type JsonObject } from '../json.ts'
import { countCodePoints, sliceText } from './code-points.ts'
import { jqError } from './jq-error.ts'
import { compare, define, type Owned } from './operators.ts'

/**
 * `.[key]`: a field of an object, an item of an array (negative from the end, fractions truncated), a slice, or the
 * indices at which an array occurs in another. Of null it is null.
 */
export function at(value: Json, key: Json, budget: Budget): Json {
  if (isObject(value) && typeof key === 'string') return fieldOf(value, key) ?? null
  if (Array.isArray(value) && typeof key === 'number') {
    return Number.isNaN(key) ? null : (value.at(Math.trunc(key)) ?? null)
  }
  if (value === null && (key === null || typeof key === 'string' || typeof key === 'number')) return null
  if (isObject(key) && (value === null || typeof value === 'string' || Array.isArray(value))) {
    return slice(value, key, budget)
  }
  if (Array.isArray(value) && Array.isArray(key)) return indicesOf(value, key, budget)
  throw jqError('Cannot index %t with %k', value, key)
}

/** The indices at which an array occurs in another. */
export function indicesOf(items: readonly Json[], part: readonly Json[], budget: Budget): number[] {
  const indices: number[] = []
  if (part.length === 0) return indices
  for (let i = 0; i + part.length <= items.length; i++) {
    spend(budget, 1)
    const same = part.every((item, offset) => compare(items[i + offset] ?? null, item, budget) === 0)
    if (same) indices.push(i)
  }
  return indices
}

function slice(value: null | string | Json[], key: JsonObject, budget: Budget): Json {
  if (value === null) return null
  const length = typeof value === 'string' ? countCodePoints(value, budget) : value.length
  const [from, to] = rangeOf(key, length)
  charge(budget, Math.max(0, to - from))
  return typeof value === 'string' ? sliceText(value, from, to, budget) : value.slice(from, to)
}

/** The bounds of a slice: within the length, and never backwards. */
function rangeOf(key: JsonObject, length: number): readonly [from: number, to: number] {
  const [start, end] = [fieldOf(key, 'start'), fieldOf(key, 'end')]
  const from = boundOf(start, 0, length, Math.floor)
  return [from, Math.max(from, boundOf(end, length, length, Math.ceil))]
}

function boundOf(
  bound: Json | undefined,
  none: number,
  length: number,
  round: (bound: number) => number,
): number {
  if (bound === null) return none
  if (typeof bound !== 'number') throw jqError('Array/string slice indices must be integers')
  if (Number.isNaN(bound)) return none
  const counted = bound < 0 ? bound + length : bound
  return Math.min(length, Math.max(0, round(counted)))
}

const PATH_MAX = 10_000

/** @throws JqError if it is not an array of keys, or too long */
export function checkPath(path: Json): Json[] {
  if (!Array.isArray(path)) throw jqError('Path must be specified as an array')
  if (path.length > PATH_MAX) throw jqError('Path too deep')
  return path
}

/** `getpath`: below null is null. */
export function getPath(value: Json, path: readonly Json[], budget: Budget): Json {
  let found = value
  spend(budget, path.length)
  for (const key of path) {
    if (found === null) return null
    found = at(found, key, budget)
  }
  return found
}
/** `setpath`: creates missing containers. @throws JqError, FlowError (expression) */
export function setPath(value: Json, path: Json, to: Json, budget: Budget, owned: Owned = new Set()): Json {
  return setAt(value, checkPath(path), 0, to, budget, owned)
}

function setAt(
  value: Json,
  path: readonly Json[],
  depth: number,
  to: Json,
  budget: Budget,
  owned: Owned,
): Json {
  const key = path[depth]
  if (key === undefined) return to
  checkDepth(budget, depth + 1)
  const below = depth + 1 === path.length ? null : at(value, key, budget)
  return put(value, key, setAt(below, path, depth + 1, to, budget, owned), budget, owned)
}

/** The highest index that jq sets. */
const INDEX_MAX = 536_870_911

/** A copy of a value with another part at a key; an owned value is changed in place. */
function put(value: Json, key: Json, part: Json, budget: Budget, owned: Owned): Json {
  if (typeof key === 'string' && (value === null || isObject(value)))
    return putField(value ?? {}, key, part, budget, owned)
  if (typeof key === 'number' && (value === null || Array.isArray(value)))
    return putItem(value ?? [], key, part, budget, owned)
  if (isObject(key) && (value === null || Array.isArray(value)))
    return putSlice(value ?? [], key, part, budget)
  if (isObject(key) && typeof value === 'string') throw jqError('Cannot update string slices')
  if (Array.isArray(key) && Array.isArray(value)) throw jqError('Cannot update field at array index of array')
  throw jqError('Cannot index %t with %k', value, key)
}

function copied(object: JsonObject, budget: Budget): JsonObject {
  chargeFields(budget, Object.keys(object).length)
  return { ...object }
}

function putField(object: JsonObject, key: string, part: Json, budget: Budget, owned: Owned): Json {
  if (owned.has(object)) {
    chargeGrowth(budget, 1)
    define(object, key, part)
    return object
  }
  const copy = copied(object, budget)
  owned.add(copy)
  define(copy, key, part)
  return copy
}

function putItem(items: Json[], key: number, part: Json, budget: Budget, owned: Owned): Json {
  if (Number.isNaN(key)) throw jqError('Cannot set array element at NaN index')
  const index = Math.trunc(key) + (key < 0 ? items.length : 0)
  if (index < 0) throw jqError('Out of bounds negative array index')
  if (index > INDEX_MAX) throw jqError('Array index too large')
  charge(budget, owned.has(items) ? Math.max(0, index - items.length) : Math.max(items.length, index + 1))
  const copy = owned.has(items) ? items : items.slice()
  owned.add(copy)
  while (copy.length < index) copy.push(null)
  copy[index] = part
  return copy
}

function putSlice(items: readonly Json[], key: JsonObject, part: Json, budget: Budget): Json {
  const [from, to] = rangeOf(key, items.length)
  if (!Array.isArray(part)) throw jqError('A slice of an array can only be assigned another array')
  charge(budget, items.length + part.length)
  return items.slice(0, from).concat(part, items.slice(to))
}

/** `delpaths`: indices refer to the input, before any deletion. @throws JqError, FlowError (expression) */
export function deletePaths(value: Json, paths: readonly Json[], budget: Budget): Json {
  if (paths.length === 0) return value
  spend(budget, 4 + 2 * paths.length)
  const sorted = paths.map(checkPath).sort((a, b) => compare(a, b, budget))
  return sorted[0]?.length === 0 ? null : deleteSorted(value, sorted, 0, budget)
}

/** @param paths sorted; their first `depth` keys are equal */
function deleteSorted(value: Json, paths: readonly Json[][], depth: number, budget: Budget): Json {
  checkDepth(budget, depth + 1)
  const whole: Json[] = []
  const owned: Owned = new Set()
  let left = value
  for (let i = 0; i < paths.length; ) {
    const path = paths[i] ?? []
    const key = path[depth] ?? null
    let end = i + 1
    while (end < paths.length && compare(paths[end]?.[depth] ?? null, key, budget) === 0) end++
    const below = path.length === depth + 1 ? null : at(left, key, budget)
    if (path.length === depth + 1) whole.push(key)
    else if (below !== null) {
      left = put(left, key, deleteSorted(below, paths.slice(i, end), depth + 1, budget), budget, owned)
    }
    i = end
  }
  return without(left, whole, budget)
}

function without(value: Json, keys: readonly Json[], budget: Budget): Json {
  if (value === null || keys.length === 0) return value
  if (isObject(value)) return withoutFields(value, keys, budget)
  if (Array.isArray(value)) return withoutItems(value, keys, budget)
  throw jqError('Cannot delete fields from %t', value)
}

function withoutFields(object: JsonObject, keys: readonly Json[], budget: Budget): Json {
  const copy = copied(object, budget)
  for (const key of keys) {
    if (typeof key !== 'string') throw jqError('Cannot delete field at object index of %t', key)
    delete copy[key]
  }
  return copy
}

function withoutItems(items: readonly Json[], keys: readonly Json[], budget: Budget): Json {
  const deletedIndexes = new Set<number>()
  for (const key of keys) {
    if (typeof key === 'number') deletedIndexes.add(Math.trunc(key) + (key < 0 ? items.length : 0))
    else if (isObject(key)) {
      const [from, to] = rangeOf(key, items.length)
      spend(budget, to - from)
      for (let i = from; i < to; i++) deletedIndexes.add(i)
    } else throw jqError('Cannot delete %t element of array', key)
  }
  chargeItems(budget, items.length)
  return items.filter((_, i) => !deletedIndexes.has(i))
}
