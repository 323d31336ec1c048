/** Implements the builtins that inspect, sort, group, search and change arrays and objects. */

import { type Budget, charge, checkDepth, checkSize, spend } from '../../budget.ts'
import { fieldOf, isObject, type Json, type JsonObject } from '../../json.ts'
import { at, checkPath, deletePaths, getPath, indicesOf, setPath } from '../access.ts'
import { positionsOf } from '../code-points.ts'
import {
  CONTINUE,
  collect,
  type Env,
  type EvalContext,
  eachValue,
  extendPath,
  type Filter,
  type FilterBuiltins,
  keysOfPath,
  oneValue,
  pathFilter,
  recover,
  STOP,
  tick,
  type ValueBuiltins,
} from '../filter.ts'
import { JqError, jqError } from '../jq-error.ts'
import { pathsOf } from '../nodes/paths.ts'
import {
  addInPlace,
  compare,
  define,
  keysIn,
  OPERATIONS,
  type Owned,
  sortedKeys,
  valuesIn,
} from '../operators.ts'
import { typeOf, writeJson } from '../write-json.ts'
import { lengthOf } from './type-conversion.ts'

const NOT_SORTABLE = '%v cannot be sorted, as it is not an array'
const NOT_ITERABLE = '%v and %v cannot be iterated over'

interface Keyed {
  readonly key: Json[]
  readonly item: Json
}

export const ARRAYS: ValueBuiltins = {
  'keys/0': ({ budget }, input) =>
    isObject(input) ? sortedKeys(input, budget) : indicesOfAll(input, budget),
  'keys_unsorted/0': ({ budget }, input) => keysOf(input, budget),
  'has/1': (_context, input, key) => has(input, key),
  'contains/1': ({ budget }, input, part) => contains(input, part, budget, 1),
  'add/0': ({ budget }, input) => addAll(input, budget),
  'reverse/0': ({ budget }, input) => {
    if (Array.isArray(input)) {
      charge(budget, input.length)
      return input.toReversed()
    }
    const length = lengthOf(input, budget)
    if (length <= 0) return []
    throw jqError('Cannot index %t with %k', input, length - 1)
  },
  'sort/0': ({ budget }, input) => sorted(input, budget),
  'unique/0': ({ budget }, input) => {
    const items = sorted(input, budget)
    return items.filter((item, i) => i === 0 || compare(items[i - 1] ?? null, item, budget) !== 0)
  },
  'min/0': ({ budget }, input) => extreme(itemsOf(input, NOT_ITERABLE), (item) => item, -1, budget) ?? null,
  'max/0': ({ budget }, input) => extreme(itemsOf(input, NOT_ITERABLE), (item) => item, 1, budget) ?? null,
  'flatten/0': (context, input) => flattened(context, input, Number.POSITIVE_INFINITY),
  'flatten/1': (context, input, depth) => {
    if (compare(depth, 0, context.budget) < 0) throw jqError('flatten depth must not be negative')
    return flattened(context, input, depth)
  },
  'indices/1': ({ budget }, input, part) => indices(input, part, budget),
  'index/1': ({ budget }, input, part) => itemAt(indices(input, part, budget), 0),
  'rindex/1': ({ budget }, input, part) => itemAt(indices(input, part, budget), -1),
  '_strindices/1': ({ budget }, input, part) => {
    if (typeof input !== 'string') throw jqError('%v cannot be searched, as it is not a string', input)
    if (typeof part !== 'string') throw jqError('%v is not a string', part)
    return positionsOf(input, part, budget)
  },
  'bsearch/1': ({ budget }, input, target) => {
    if (!Array.isArray(input)) throw jqError('%v cannot be searched from', input)
    return search(input, target, budget)
  },
  'to_entries/0': ({ budget }, input) => {
    const keys = keysOf(input, budget)
    checkSize(budget, keys.length * 4)
    spend(budget, 2 * keys.length)
    return keys.map((key) => ({ key, value: at(input, key, budget) }))
  },
  'setpath/2': ({ budget }, input, path, value) => setPath(input, path, value, budget),
  'delpaths/1': ({ budget }, input, paths) => {
    if (!Array.isArray(paths)) throw jqError('Paths must be specified as an array')
    return deletePaths(input, paths, budget)
  },
  '_getpath/1': ({ budget }, input, path) => getPath(input, checkPath(path), budget),
}

export const SELECTIONS: FilterBuiltins = {
  'sort_by/1': (f) =>
    oneValue((context, env, input) => sortedBy(context, env, input, f).map(({ item }) => item)),
  'group_by/1': (f) =>
    oneValue((context, env, input) =>
      groups(context, sortedBy(context, env, input, f)).map((group) => group.map(({ item }) => item)),
    ),
  'unique_by/1': (f) =>
    oneValue((context, env, input) =>
      groups(context, sortedBy(context, env, input, f)).map(([first]) => first?.item ?? null),
    ),
  'min_by/1': (f) => extremeBy(f, -1),
  'max_by/1': (f) => extremeBy(f, 1),
  'path/1': (f) =>
    eachValue((context, env, input, emit) =>
      f.each(
        context,
        env,
        input,
        (value, path) => {
          const keys = keysOfPath(path, value)
          spend(context.budget, 1 + keys.length)
          return emit(keys)
        },
        null,
      ),
    ),
  'del/1': (f) =>
    oneValue((context, env, input) => deletePaths(input, pathsOf(f, context, env, input), context.budget)),
  'getpath/1': getpath,
  'isvalid/1': (f) =>
    oneValue((context, env, input) => {
      const { depth } = context
      try {
        f.each(context, env, input, () => STOP)
        return true
      } catch (error) {
        if (!(error instanceof JqError)) throw error
        recover(context, depth)
        return false
      }
    }),
  'INDEX/2': (source, key) =>
    oneValue((context, env, input) => {
      const index: JsonObject = {}
      source.each(context, env, input, (row) =>
        key.each(context, env, row, (k) => {
          tick(context)
          define(index, typeof k === 'string' ? k : writeJson(k, context.budget), row)
          return CONTINUE
        }),
      )
      return index
    }),
}

function keysOf(input: Json, budget: Budget): (string | number)[] {
  return isObject(input) ? keysIn(input, budget) : indicesOfAll(input, budget)
}

/** @throws JqError with the message if it is not an array */
function itemsOf(input: Json, message: string): readonly Json[] {
  if (Array.isArray(input)) return input
  throw jqError(message, input, input)
}

function indicesOfAll(input: Json, budget: Budget): number[] {
  if (!Array.isArray(input)) throw jqError('%v has no keys', input)
  charge(budget, input.length)
  return Array.from(input, (_, i) => i)
}

function has(input: Json, key: Json): boolean {
  if (isObject(input) && typeof key === 'string') return Object.hasOwn(input, key)
  if (Array.isArray(input) && typeof key === 'number') return key >= 0 && key < input.length
  throw jqError('Cannot check whether %t has a %t key', input, key)
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
  if (typeOf(a) !== typeOf(b)) throw jqError('%v and %v cannot have their containment checked', a, b)
  return compare(a, b, budget) === 0
}

function contained(a: Json, b: Json, budget: Budget, depth: number): boolean {
  spend(budget, 1)
  return typeOf(a) === typeOf(b) && contains(a, b, budget, depth + 1)
}

/** The sum of the items. Many strings or arrays are joined at once instead of pairwise. */
function addAll(input: Json, budget: Budget): Json {
  const items = valuesIn(input, budget)
  const size = (parts: readonly { readonly length: number }[]): number =>
    parts.reduce((sum, part) => sum + part.length, parts.length)
  if (items.length > 2 && items.every((item) => typeof item === 'string')) {
    charge(budget, size(items))
    return items.join('')
  }
  if (items.length > 2 && items.every((item) => Array.isArray(item))) {
    charge(budget, size(items))
    return items.flat(1)
  }
  const owned: Owned = new Set()
  return items.reduce<Json>((sum, item) => {
    spend(budget, 1)
    return addInPlace(sum, item, budget, owned)
  }, null)
}

function sorted(input: Json, budget: Budget): Json[] {
  const items = itemsOf(input, NOT_SORTABLE)
  charge(budget, items.length)
  return items.toSorted((a, b) => compare(a, b, budget))
}

/** The least (-1) or greatest (1) item: the first of equal least ones, the last of equal greatest ones. */
function extreme<T>(
  items: readonly T[],
  keyOf: (item: T) => Json,
  sign: number,
  budget: Budget,
): T | undefined {
  let [best] = items
  for (const item of items.slice(1)) {
    const order = best === undefined ? 0 : compare(keyOf(item), keyOf(best), budget) * sign
    if (order > 0 || (order === 0 && sign > 0)) best = item
  }
  return best
}

/** @param depth decremented at each nested array, so that only these require it to be a number */
function flattened({ budget }: EvalContext, input: Json, depth: Json): Json[] {
  const flat: Json[] = []
  const open = (value: Json, left: Json, level: number): void => {
    checkDepth(budget, level)
    for (const item of valuesIn(value, budget)) {
      spend(budget, 1)
      if (Array.isArray(item) && left !== 0) open(item, OPERATIONS['-'](left, 1, budget), level + 1)
      else flat.push(item)
    }
  }
  open(input, depth, 1)
  return flat
}

function indices(input: Json, part: Json, budget: Budget): Json {
  if (input === null) return null
  if (typeof input === 'string' && typeof part === 'string') return positionsOf(input, part, budget)
  if (Array.isArray(input)) return indicesOf(input, Array.isArray(part) ? part : [part], budget)
  return at(input, part, budget)
}

function itemAt(items: Json, index: number): Json {
  return Array.isArray(items) ? (items.at(index) ?? null) : null
}

/** The index of an item in a sorted array, or -1 - the index at which to insert it. */
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

/** All items with their keys. @throws JqError with the message if it is not an array */
function withKeys(context: EvalContext, env: Env, input: Json, f: Filter, message: string): Keyed[] {
  if (!Array.isArray(input)) {
    if (!isObject(input)) throw jqError('Cannot iterate over %v', input)
    const keys = keysIn(input, context.budget).map((key) => {
      tick(context)
      return collect(f, context, env, input[key] ?? null)
    })
    throw jqError(message, input, keys)
  }
  return input.map((item) => {
    tick(context)
    return { key: collect(f, context, env, item), item }
  })
}

function sortedBy(context: EvalContext, env: Env, input: Json, f: Filter): Keyed[] {
  const items = withKeys(context, env, input, f, '%v and %v cannot be sorted, as they are not both arrays')
  return items.sort((a, b) => compare(a.key, b.key, context.budget))
}

function extremeBy(f: Filter, sign: number): Filter {
  return oneValue((context, env, input) => {
    const items = withKeys(context, env, input, f, NOT_ITERABLE)
    return extreme(items, ({ key }) => key, sign, context.budget)?.item ?? null
  })
}

function groups(context: EvalContext, items: readonly Keyed[]): Keyed[][] {
  const all: Keyed[][] = []
  for (const item of items) {
    const group = all.at(-1)
    const [first] = group ?? []
    if (group === undefined || first === undefined || compare(first.key, item.key, context.budget) !== 0)
      all.push([item])
    else group.push(item)
  }
  return all
}

/** `getpath`. As a path it is also valid if a value on the way cannot be read. */
function getpath(f: Filter): Filter {
  const { one } = f
  return pathFilter(
    one && ((context, env, input) => getPath(input, checkPath(one(context, env, input)), context.budget)),
    (context, env, input, emit, path) =>
      f.each(context, env, input, (value) => {
        const keys = checkPath(value)
        const found = getPath(input, keys, context.budget)
        return emit(
          found,
          keys.reduce<typeof path>((before, key) => extendPath(before, key, input), path),
        )
      }),
  )
}
