/** Knows whether a filter takes an event (OWS 1.0 "Event Filter", "Correlation"; CloudEvents 1.0). */

import { FlowError } from '../errors.ts'
import type { Correlation, EventFilter, Json, JsonObject, Template } from '../ir.ts'
import { fieldOf, isObject, objectOf } from '../json.ts'
import type { Running } from './task.ts'

/** How expressions of a filter are asked. */
type Asking = Pick<Running, 'evaluate' | 'isSpent'>

/** What correlations must be, by name: what the filter expects, and what an event had that was taken. */
interface Wanted {
  readonly expected: JsonObject
  readonly bound: JsonObject
}

/**
 * What the filter's correlations are in the event, by name, if it takes it.
 * @returns undefined where it does not take it. Events come from outside: one on which an expression fails is none
 * that the filter wants, and no error of the flow.
 * @throws FlowError (expression) where it takes more steps than there are, so that no event is missed unseen
 */
export function match(
  filter: EventFilter,
  event: JsonObject,
  wanted: Wanted,
  running: Asking,
): JsonObject | undefined {
  const isLiteral = ([, value]: EventFilter['with'][number]) => 'literal' in value
  try {
    // What costs nothing first.
    for (const attribute of filter.with.filter(isLiteral)) {
      if (!holds(attribute, event, running)) return undefined
    }
    if (!filter.with.every((attribute) => isLiteral(attribute) || holds(attribute, event, running)))
      return undefined
    return correlate(filter.correlate, event, wanted, running)
  } catch (error) {
    if (!(error instanceof FlowError) || running.isSpent()) throw error
    return undefined
  }
}

/** An attribute that is not there has no value; `data` that is not there is null. */
function holds(
  [name, wanted]: readonly [string, Template],
  event: JsonObject,
  { evaluate }: Asking,
): boolean {
  const found = fieldOf(event, name) ?? (name === 'data' ? null : undefined)
  if (found === undefined) return false
  if ('literal' in wanted) return contains(found, wanted.literal)
  const value = evaluate(wanted, found)
  // What an expression says of the attribute is a condition; anything else is what the attribute must be.
  return 'expression' in wanted && typeof value === 'boolean' ? value : contains(found, value)
}

function correlate(
  correlations: readonly Correlation[],
  event: JsonObject,
  { expected, bound }: Wanted,
  { evaluate }: Asking,
): JsonObject | undefined {
  const values: [string, Json][] = []
  for (const { name, from } of correlations) {
    const value = evaluate({ expression: from }, event)
    const wanted = fieldOf(expected, name) ?? fieldOf(bound, name)
    if (value === null || (wanted !== undefined && !isSame(value, wanted))) return undefined
    values.push([name, value])
  }
  return objectOf(values)
}

/** An object has what is wanted where it has each field of it; all else is what it is. */
function contains(found: Json, wanted: Json): boolean {
  if (!isObject(wanted)) return isSame(found, wanted)
  if (!isObject(found)) return false
  return Object.entries(wanted).every(([key, value]) => {
    const field = fieldOf(found, key)
    return field !== undefined && contains(field, value)
  })
}

function isSame(a: Json, b: Json): boolean {
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((item, index) => isSame(item, b[index] ?? null))
  }
  if (!isObject(a) || !isObject(b)) return a === b
  const keys = Object.keys(a)
  return keys.length === Object.keys(b).length && keys.every((key) => isFieldSame(a, b, key))
}

function isFieldSame(a: JsonObject, b: JsonObject, key: string): boolean {
  const left = fieldOf(a, key)
  const right = fieldOf(b, key)
  return left !== undefined && right !== undefined && isSame(left, right)
}
