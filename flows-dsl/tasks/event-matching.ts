/** Knows whether a filter takes an event (OWS 1.0 "Event Filter", "Correlation"; CloudEvents 1.0). */

import { FinalError, FlowError } from '../errors.ts'
import type { Correlation, EventFilter, Json, JsonObject, Template } from '../ir.ts'
import { fieldOf, isObject, objectOf } from '../json.ts'

/** Evaluates with the variables of the task. */
export type Evaluate = (template: Template, dot: Json) => Json

/** What correlations must be, by name: what an event had that was taken. */
export type Bound = JsonObject

/**
 * What the filter's correlations are in the event, by name, if it takes it.
 * @param expected what its correlations expect, by name, where they say so
 * @returns undefined where it does not take it. Events come from outside: one on which an expression fails is none
 * that the filter wants, and no error of the flow.
 * @throws FinalError where the run has used up what it may
 */
export function match(
  filter: EventFilter,
  event: JsonObject,
  { expected, bound }: { expected: JsonObject; bound: Bound },
  evaluate: Evaluate,
): Bound | undefined {
  try {
    if (!filter.with.every(([name, wanted]) => holds(name, wanted, event, evaluate))) return undefined
    return correlate(filter.correlate, event, { expected, bound }, evaluate)
  } catch (error) {
    if (!(error instanceof FlowError) || error instanceof FinalError) throw error
    return undefined
  }
}

/** An attribute that is not there has no value; `data` that is not there is null. */
function holds(name: string, wanted: Template, event: JsonObject, evaluate: Evaluate): boolean {
  const found = fieldOf(event, name) ?? (name === 'data' ? null : undefined)
  if (found === undefined) return false
  const value = evaluate(wanted, found)
  // What an expression says of the attribute is a condition; anything else is what the attribute must be.
  return 'expression' in wanted && typeof value === 'boolean' ? value : contains(found, value)
}

function correlate(
  correlations: readonly Correlation[],
  event: JsonObject,
  { expected, bound }: { expected: JsonObject; bound: Bound },
  evaluate: Evaluate,
): Bound | undefined {
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
