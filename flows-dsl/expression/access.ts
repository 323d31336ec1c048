/** Knows how parts of values are read: by the name of a field, by index, by slice, by path. */

import type { Json, JsonObject } from '../json.ts'
import { fieldOf, isObject } from '../json.ts'
import { type Budget, charge, spend } from './budget.ts'
import { failure } from './failure.ts'
import { pointsIn, sliceText } from './text.ts'
import { compare } from './values.ts'

/**
 * `.[key]`: fields of objects, items of arrays (negative from the end, fractions cut off), slices, and where an array
 * stands in another; null stays null.
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
  throw failure('Cannot index %t with %k', value, key)
}

/** Where an array begins within another. */
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
  const length = typeof value === 'string' ? pointsIn(value, budget) : value.length
  const [from, to] = rangeOf(key, length)
  charge(budget, Math.max(0, to - from))
  return typeof value === 'string' ? sliceText(value, from, to, budget) : value.slice(from, to)
}

/** Where a slice begins and ends; within the length, and never backwards. */
export function rangeOf(key: JsonObject, length: number): readonly [from: number, to: number] {
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
  if (typeof bound !== 'number') throw failure('Array/string slice indices must be integers')
  if (Number.isNaN(bound)) return none
  const counted = bound < 0 ? bound + length : bound
  return Math.min(length, Math.max(0, round(counted)))
}

/** Keys of a path; more are refused before the value is walked. */
const PATH_MAX = 10_000

/** @throws Failure where it is no array of keys, or too long */
export function checkPath(path: Json): Json[] {
  if (!Array.isArray(path)) throw failure('Path must be specified as an array')
  if (path.length > PATH_MAX) throw failure('Path too deep')
  return path
}

/** `getpath`: what is below null is null. */
export function getPath(value: Json, path: readonly Json[], budget: Budget): Json {
  let found = value
  spend(budget, path.length)
  for (const key of path) {
    if (found === null) return null
    found = at(found, key, budget)
  }
  return found
}
