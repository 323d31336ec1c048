/** Knows how an expression yields its values. Takes only trees of the definition; data is never parsed. */

import type { Json, JsonObject } from '../json.ts'
import { type Budget, measure, refuse } from './budget.ts'
import { filterOf } from './compile.ts'
import type { Expression } from './expression.ts'
import { Failure } from './failure.ts'
import { ON, type Run, tick } from './filter.ts'
import { define } from './values.ts'

export { isTrue } from './values.ts'

/** What an evaluation knows besides its input. */
export interface Surroundings {
  readonly variables: Readonly<Record<string, Json>>
  /** The time of the run in milliseconds, which is `now`; nothing here reads a clock. */
  readonly nowMs: number
}

/**
 * Evaluates a parsed expression that yields one value; one that yields none is null.
 * @param input the value of `.`
 * @param budget is used up by the call, so that many evaluations can share one
 * @throws FlowError (expression) where jq would fail, where there is more than one value, and where the budget ends
 */
export function evaluate(expression: Expression, input: Json, around: Surroundings, budget: Budget): Json {
  let output: Json | undefined
  runAll(expression, input, around, budget, (value) => {
    if (output !== undefined) refuse('The expression yields more than one value; collect them with [ … ].')
    output = value
  })
  return output === undefined ? null : finished(output, budget)
}

/** All values that an expression yields. @throws FlowError (expression) as `evaluate`, but not for their number */
export function evaluateAll(
  expression: Expression,
  input: Json,
  around: Surroundings,
  budget: Budget,
): Json[] {
  const outputs: Json[] = []
  runAll(expression, input, around, budget, (value) => outputs.push(finished(value, budget)))
  return outputs
}

function runAll(
  expression: Expression,
  input: Json,
  { variables, nowMs }: Surroundings,
  budget: Budget,
  receive: (value: Json) => void,
): void {
  const run: Run = { budget, variables, nowMs, depth: 0, tail: undefined }
  try {
    const { one, each } = filterOf(expression)
    tick(run)
    if (one !== undefined) receive(one(run, undefined, input))
    else {
      each(run, undefined, input, (value) => {
        tick(run)
        receive(value)
        return ON
      })
    }
  } catch (error) {
    throw error instanceof Failure ? error.toFlowError() : error
  }
}

/** JSON has neither infinity nor what is no number: these become the largest double and null, as in jq. */
function finished(value: Json, budget: Budget): Json {
  return measure(value, budget) ? value : finite(value)
}

function finite(value: Json): Json {
  if (typeof value === 'number') {
    return Number.isNaN(value) ? null : Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, value))
  }
  if (Array.isArray(value)) return value.map(finite)
  if (typeof value !== 'object' || value === null) return value
  const object: JsonObject = {}
  for (const key of Object.keys(value)) define(object, key, finite(value[key] ?? null))
  return object
}
