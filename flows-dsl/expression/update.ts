/** Knows how parts of values are set and deleted: each time in a copy of what is above them. */

import type { Json, JsonObject } from '../json.ts'
import { isObject } from '../json.ts'
import { at, checkPath, rangeOf } from './access.ts'
import { type Budget, charge, checkDepth, spend } from './budget.ts'
import { failure } from './failure.ts'
import { compare, define } from './values.ts'

/** `setpath`: what is missing on the way is made. @throws Failure, FlowError (expression) */
export function setPath(value: Json, path: Json, to: Json, budget: Budget): Json {
  return setAt(value, checkPath(path), 0, to, budget)
}

function setAt(value: Json, path: readonly Json[], depth: number, to: Json, budget: Budget): Json {
  const key = path[depth]
  if (key === undefined) return to
  checkDepth(budget, depth + 1)
  const below = depth + 1 === path.length ? null : at(value, key, budget)
  return put(value, key, setAt(below, path, depth + 1, to, budget), budget)
}

/** The highest index that jq sets. */
const INDEX_MAX = 536_870_911

/** A copy of a value with another part below a key. */
export function put(value: Json, key: Json, part: Json, budget: Budget): Json {
  if (typeof key === 'string' && (value === null || isObject(value)))
    return putField(value ?? {}, key, part, budget)
  if (typeof key === 'number' && (value === null || Array.isArray(value)))
    return putItem(value ?? [], key, part, budget)
  if (isObject(key) && (value === null || Array.isArray(value)))
    return putSlice(value ?? [], key, part, budget)
  if (isObject(key) && typeof value === 'string') throw failure('Cannot update string slices')
  if (Array.isArray(key) && Array.isArray(value)) throw failure('Cannot update field at array index of array')
  throw failure('Cannot index %t with %k', value, key)
}

function putField(object: JsonObject, key: string, part: Json, budget: Budget): Json {
  const copy = { ...object }
  define(copy, key, part)
  spend(budget, 1 + (Object.keys(copy).length >> 2))
  return copy
}

function putItem(items: readonly Json[], key: number, part: Json, budget: Budget): Json {
  if (Number.isNaN(key)) throw failure('Cannot set array element at NaN index')
  const index = Math.trunc(key) + (key < 0 ? items.length : 0)
  if (index < 0) throw failure('Out of bounds negative array index')
  if (index > INDEX_MAX) throw failure('Array index too large')
  charge(budget, Math.max(items.length, index + 1))
  const copy = items.slice()
  while (copy.length < index) copy.push(null)
  copy[index] = part
  return copy
}

function putSlice(items: readonly Json[], key: JsonObject, part: Json, budget: Budget): Json {
  const [from, to] = rangeOf(key, items.length)
  if (!Array.isArray(part)) throw failure('A slice of an array can only be assigned another array')
  charge(budget, items.length + part.length)
  return [...items.slice(0, from), ...part, ...items.slice(to)]
}

/** `delpaths`: the last first, so that what stands before keeps its index. */
export function deletePaths(value: Json, paths: readonly Json[], budget: Budget): Json {
  const sorted = paths.map(checkPath).sort((a, b) => compare(b, a, budget))
  return sorted.reduce<Json>((left, path) => deleteAt(left, path, 0, budget), value)
}

function deleteAt(value: Json, path: readonly Json[], depth: number, budget: Budget): Json {
  const key = path[depth]
  if (key === undefined || value === null) return null
  if (depth + 1 === path.length) return without(value, key, budget)
  checkDepth(budget, depth + 1)
  const below = at(value, key, budget)
  return below === null ? value : put(value, key, deleteAt(below, path, depth + 1, budget), budget)
}

function without(value: Json, key: Json, budget: Budget): Json {
  if (isObject(value) && typeof key === 'string') {
    if (!Object.hasOwn(value, key)) return value
    spend(budget, 1 + (Object.keys(value).length >> 2))
    const { [key]: _, ...rest } = value
    return rest
  }
  if (Array.isArray(value) && typeof key === 'number') return withoutItem(value, key, budget)
  if (Array.isArray(value) && isObject(key)) {
    const [from, to] = rangeOf(key, value.length)
    return from === to ? value : putSlice(value, key, [], budget)
  }
  if (isObject(value)) throw failure('Cannot delete field at object index of %t', key)
  if (Array.isArray(value)) throw failure('Cannot delete %t element of array', key)
  throw failure('Cannot delete fields from %t', value)
}

function withoutItem(items: Json[], key: number, budget: Budget): Json {
  const index = Math.trunc(key) + (key < 0 ? items.length : 0)
  if (!(index >= 0 && index < items.length)) return items
  charge(budget, items.length)
  return [...items.slice(0, index), ...items.slice(index + 1)]
}
