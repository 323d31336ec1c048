/** Knows where in an input a value stands while a path expression runs (jq manual, "path"). */

import type { Json } from '../json.ts'
import { failure } from './failure.ts'

/** A path, the last key first; null is the input itself. */
export type Place = Step | Stray | null

interface Step {
  readonly key: Json
  readonly before: Step | null
}

/** A value was calculated, so it stands nowhere, unless it turns out to be what stands at the last place. */
class Stray {
  readonly place: Step | null
  readonly value: Json

  constructor(place: Step | null, value: Json) {
    this.place = place
    this.value = value
  }
}

/** Where a calculated value stands: where the input does if it is the same. */
export function strayed(place: Place, input: Json, value: Json): Place {
  if (place instanceof Stray) return Object.is(place.value, value) ? place.place : place
  return Object.is(input, value) ? place : new Stray(place, input)
}

/** @throws Failure where the value stands nowhere */
export function stepInto(place: Place, key: Json, value: Json): Place {
  if (place instanceof Stray) {
    throw failure('Invalid path expression near attempt to access element %j of %j', key, value)
  }
  return { key, before: place }
}

/** @throws Failure where the value stands nowhere */
export function checkIterable(place: Place, value: Json): void {
  if (place instanceof Stray) {
    throw failure('Invalid path expression near attempt to iterate through %j', value)
  }
}

/** The path as jq shows it. @throws Failure where the value stands nowhere */
export function pathOf(place: Place, value: Json): Json[] {
  if (place instanceof Stray) throw failure('Invalid path expression with result %j', value)
  const keys: Json[] = []
  for (let step = place; step !== null; step = step.before) keys.push(step.key)
  return keys.reverse()
}
