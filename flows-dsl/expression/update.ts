/** Knows how parts of values are set and deleted: each time in a copy of what is above them. */

import type { Json, JsonObject } from '../json.ts'
import { isObject } from '../json.ts'
import { at, checkPath, rangeOf } from './access.ts'
import { type Budget, charge, chargeFields, chargeGrowth, chargeItems, checkDepth, spend } from './budget.ts'
import { failure } from './failure.ts'
import { compare, define, type Owned } from './values.ts'

/** `setpath`: what is missing on the way is made. @throws Failure, FlowError (expression) */
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

/** A copy of a value with another part below a key. */
function put(value: Json, key: Json, part: Json, budget: Budget, owned: Owned): Json {
  if (typeof key === 'string' && (value === null || isObject(value)))
    return putField(value ?? {}, key, part, budget, owned)
  if (typeof key === 'number' && (value === null || Array.isArray(value)))
    return putItem(value ?? [], key, part, budget, owned)
  if (isObject(key) && (value === null || Array.isArray(value)))
    return putSlice(value ?? [], key, part, budget)
  if (isObject(key) && typeof value === 'string') throw failure('Cannot update string slices')
  if (Array.isArray(key) && Array.isArray(value)) throw failure('Cannot update field at array index of array')
  throw failure('Cannot index %t with %k', value, key)
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
  if (Number.isNaN(key)) throw failure('Cannot set array element at NaN index')
  const index = Math.trunc(key) + (key < 0 ? items.length : 0)
  if (index < 0) throw failure('Out of bounds negative array index')
  if (index > INDEX_MAX) throw failure('Array index too large')
  charge(budget, owned.has(items) ? Math.max(0, index - items.length) : Math.max(items.length, index + 1))
  const copy = owned.has(items) ? items : items.slice()
  owned.add(copy)
  while (copy.length < index) copy.push(null)
  copy[index] = part
  return copy
}

function putSlice(items: readonly Json[], key: JsonObject, part: Json, budget: Budget): Json {
  const [from, to] = rangeOf(key, items.length)
  if (!Array.isArray(part)) throw failure('A slice of an array can only be assigned another array')
  charge(budget, items.length + part.length)
  return items.slice(0, from).concat(part, items.slice(to))
}

/** `delpaths`: indices are those of the input, whatever else goes. @throws Failure, FlowError (expression) */
export function deletePaths(value: Json, paths: readonly Json[], budget: Budget): Json {
  if (paths.length === 0) return value
  spend(budget, 4 + 2 * paths.length)
  const sorted = paths.map(checkPath).sort((a, b) => compare(a, b, budget))
  return sorted[0]?.length === 0 ? null : deleteSorted(value, sorted, 0, budget)
}

/** Paths that begin alike stand together; the first `depth` keys of all are the same. */
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

/** A copy without the parts below some keys. */
function without(value: Json, keys: readonly Json[], budget: Budget): Json {
  if (value === null || keys.length === 0) return value
  if (isObject(value)) return withoutFields(value, keys, budget)
  if (Array.isArray(value)) return withoutItems(value, keys, budget)
  throw failure('Cannot delete fields from %t', value)
}

function withoutFields(object: JsonObject, keys: readonly Json[], budget: Budget): Json {
  const copy = copied(object, budget)
  for (const key of keys) {
    if (typeof key !== 'string') throw failure('Cannot delete field at object index of %t', key)
    delete copy[key]
  }
  return copy
}

function withoutItems(items: readonly Json[], keys: readonly Json[], budget: Budget): Json {
  const gone = new Set<number>()
  for (const key of keys) {
    if (typeof key === 'number') gone.add(Math.trunc(key) + (key < 0 ? items.length : 0))
    else if (isObject(key)) {
      const [from, to] = rangeOf(key, items.length)
      spend(budget, to - from)
      for (let i = from; i < to; i++) gone.add(i)
    } else throw failure('Cannot delete %t element of array', key)
  }
  chargeItems(budget, items.length)
  return items.filter((_, i) => !gone.has(i))
}
