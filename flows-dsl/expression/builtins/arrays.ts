/** Knows the builtins that look into arrays and objects, sort them and take them apart. */

import type { Json, JsonObject } from '../../json.ts'
import { fieldOf, isObject } from '../../json.ts'
import { at, checkPath, getPath, indicesOf } from '../access.ts'
import { type Budget, charge, checkDepth, checkSize, spend } from '../budget.ts'
import { failure } from '../failure.ts'
import type { Run } from '../filter.ts'
import { placesOf } from '../text.ts'
import { deletePaths, setPath } from '../update.ts'
import { addInPlace, calculate, compare, keysIn, type Owned, sortedKeys } from '../values.ts'
import { typeOf } from '../write.ts'
import type { ValueBuiltins } from './builtin.ts'
import { lengthOf } from './kinds.ts'

export const ARRAYS: ValueBuiltins = {
  'keys/0': ({ budget }, input) => {
    if (isObject(input)) return sortedKeys(input, budget)
    return indicesOfAll(input, budget)
  },
  'keys_unsorted/0': ({ budget }, input) => {
    if (!isObject(input)) return indicesOfAll(input, budget)
    return keysIn(input, budget)
  },
  'has/1': (_run, input, key) => has(input, key),
  'contains/1': ({ budget }, input, part) => contains(input, part, budget, 1),
  'add/0': ({ budget }, input) => addAll(input, budget),
  'reverse/0': ({ budget }, input) => {
    if (Array.isArray(input)) {
      charge(budget, input.length)
      return input.toReversed()
    }
    const length = lengthOf(input, budget)
    if (length <= 0) return []
    throw failure('Cannot index %t with %k', input, length - 1)
  },
  'sort/0': ({ budget }, input) =>
    sorted(itemsOf(input, '%v cannot be sorted, as it is not an array'), budget),
  'unique/0': ({ budget }, input) => {
    const items = sorted(itemsOf(input, '%v cannot be sorted, as it is not an array'), budget)
    return items.filter((item, i) => i === 0 || compare(items[i - 1] ?? null, item, budget) !== 0)
  },
  'min/0': ({ budget }, input) => extreme(itemsOf(input, '%v and %v cannot be iterated over'), -1, budget),
  'max/0': ({ budget }, input) => extreme(itemsOf(input, '%v and %v cannot be iterated over'), 1, budget),
  'flatten/0': (run, input) => flattened(run, input, Number.POSITIVE_INFINITY),
  'flatten/1': (run, input, depth) => {
    if (compare(depth, 0, run.budget) < 0) throw failure('flatten depth must not be negative')
    return flattened(run, input, depth)
  },
  'indices/1': ({ budget }, input, part) => indices(input, part, budget),
  'index/1': ({ budget }, input, part) => edge(indices(input, part, budget), 0),
  'rindex/1': ({ budget }, input, part) => edge(indices(input, part, budget), -1),
  '_strindices/1': ({ budget }, input, part) => {
    if (typeof input !== 'string') throw failure('%v cannot be searched, as it is not a string', input)
    if (typeof part !== 'string') throw failure('%v is not a string', part)
    return placesOf(input, part, budget)
  },
  'bsearch/1': ({ budget }, input, target) => {
    if (!Array.isArray(input)) throw failure('%v cannot be searched from', input)
    return search(input, target, budget)
  },
  'to_entries/0': ({ budget }, input) => {
    const keys = isObject(input) ? keysIn(input, budget) : indicesOfAll(input, budget)
    checkSize(budget, keys.length * 4)
    spend(budget, 2 * keys.length)
    return keys.map((key) => ({ key, value: at(input, key, budget) }))
  },
  'setpath/2': ({ budget }, input, path, value) => setPath(input, path, value, budget),
  'delpaths/1': ({ budget }, input, paths) => {
    if (!Array.isArray(paths)) throw failure('Paths must be specified as an array')
    return deletePaths(input, paths, budget)
  },
  '_getpath/1': ({ budget }, input, path) => getPath(input, checkPath(path), budget),
}

function valuesIn(object: JsonObject, budget: Budget): Json[] {
  return keysIn(object, budget).map((key) => object[key] ?? null)
}

/** @throws Failure with the message where it is no array */
function itemsOf(input: Json, message: string): readonly Json[] {
  if (Array.isArray(input)) return input
  throw failure(message, input, input)
}

function indicesOfAll(input: Json, budget: Budget): number[] {
  if (!Array.isArray(input)) throw failure('%v has no keys', input)
  charge(budget, input.length)
  return Array.from(input, (_, i) => i)
}

function has(input: Json, key: Json): boolean {
  if (isObject(input) && typeof key === 'string') return Object.hasOwn(input, key)
  if (Array.isArray(input) && typeof key === 'number') return key >= 0 && key < input.length
  throw failure('Cannot check whether %t has a %t key', input, key)
}

function contains(a: Json, b: Json, budget: Budget, depth: number): boolean {
  spend(budget, 1)
  checkDepth(budget, depth)
  if (isObject(a) && isObject(b)) {
    return keysIn(b, budget).every((key) => {
      const own = fieldOf(a, key)
      return own !== undefined && contained(own, b[key] ?? null, budget, depth)
    })
  }
  if (Array.isArray(a) && Array.isArray(b)) {
    return b.every((part) => a.some((item) => contained(item, part, budget, depth)))
  }
  if (typeof a === 'string' && typeof b === 'string') {
    spend(budget, a.length >> 4)
    return a.includes(b)
  }
  if (typeOf(a) !== typeOf(b)) throw failure('%v and %v cannot have their containment checked', a, b)
  return compare(a, b, budget) === 0
}

function contained(a: Json, b: Json, budget: Budget, depth: number): boolean {
  spend(budget, 1)
  return typeOf(a) === typeOf(b) && contains(a, b, budget, depth + 1)
}

/** The sum of the items; strings and arrays are joined in one go, not each with what came before. */
function addAll(input: Json, budget: Budget): Json {
  if (typeof input !== 'object' || input === null) throw failure('Cannot iterate over %v', input)
  const items = Array.isArray(input) ? input : valuesIn(input, budget)
  if (items.length > 2 && items.every((item) => typeof item === 'string')) {
    charge(
      budget,
      items.reduce((sum, item) => sum + item.length, items.length),
    )
    return items.join('')
  }
  if (items.length > 2 && items.every((item) => Array.isArray(item))) {
    charge(
      budget,
      items.reduce((sum, item) => sum + item.length, items.length),
    )
    return items.flat(1)
  }
  const owned: Owned = new Set()
  return items.reduce<Json>((sum, item) => {
    spend(budget, 1)
    return addInPlace(sum, item, budget, owned)
  }, null)
}

/** Sorting is stable. */
function sorted(items: readonly Json[], budget: Budget): Json[] {
  charge(budget, items.length)
  return [...items].sort((a, b) => compare(a, b, budget))
}

/** The least (-1) or greatest (1); the first of equal least ones, the last of equal greatest ones. */
function extreme(items: readonly Json[], sign: number, budget: Budget): Json {
  return items.reduce<Json>((best, item, i) => {
    if (i === 0) return item
    const order = compare(item, best, budget) * sign
    return order > 0 || (order === 0 && sign > 0) ? item : best
  }, null)
}

/** @param depth counts down where there is an array, so what is no number does no harm where there is none */
function flattened({ budget }: Run, input: Json, depth: Json): Json[] {
  const flat: Json[] = []
  const open = (value: Json, left: Json, level: number): void => {
    checkDepth(budget, level)
    const items = Array.isArray(value) ? value : valuesIn(value as JsonObject, budget)
    for (const item of items) {
      spend(budget, 1)
      if (Array.isArray(item) && left !== 0) open(item, calculate('-', left, 1, budget), level + 1)
      else flat.push(item)
    }
  }
  if (typeof input !== 'object' || input === null) throw failure('Cannot iterate over %v', input)
  open(input, depth, 1)
  return flat
}

function indices(input: Json, part: Json, budget: Budget): Json {
  if (input === null) return null
  if (typeof input === 'string' && typeof part === 'string') return placesOf(input, part, budget)
  if (Array.isArray(input)) return indicesOf(input, Array.isArray(part) ? part : [part], budget)
  return at(input, part, budget)
}

function edge(places: Json, index: number): Json {
  return Array.isArray(places) ? (places.at(index) ?? null) : null
}

/** Where an item is in a sorted array, or -1 - the place where it would be. */
function search(items: readonly Json[], target: Json, budget: Budget): number {
  let [low, high] = [0, items.length]
  while (low < high) {
    const middle = (low + high) >> 1
    const order = compare(items[middle] ?? null, target, budget)
    if (order === 0) return middle
    if (order < 0) low = middle + 1
    else high = middle
  }
  return -1 - low
}
