/** Knows how much an evaluation may cost, and stops it when it is used up. */

import { ERRORS, FlowError } from '../errors.ts'
import type { Json } from '../ir.ts'

/**
 * What an evaluation may still use. `steps` counts down; the limits of depth and size hold for each value.
 */
export interface Budget {
  steps: number
  readonly depthMax: number
  /** Of a value, in characters of its JSON, approximately. */
  readonly sizeMax: number
}

/** About 0.1 s of evaluation, well below the time that Temporal gives a workflow task. */
export const STEPS_MAX = 1_000_000

export function newBudget(): Budget {
  return { steps: STEPS_MAX, depthMax: 256, sizeMax: 1_048_576 }
}

/** @throws FlowError (expression) */
export function spend(budget: Budget, steps: number): void {
  budget.steps -= steps
  if (budget.steps < 0)
    throw new FlowError(ERRORS.expression, 'The expressions of the flow take too many steps.')
}

/** Refuses a value before it is built. @throws FlowError (expression) */
export function checkSize(budget: Budget, size: number): void {
  if (size > budget.sizeMax)
    throw new FlowError(ERRORS.expression, `A value is larger than ${budget.sizeMax}.`)
}

/** @throws FlowError (expression) */
export function checkDepth(budget: Budget, depth: number): void {
  if (depth > budget.depthMax) {
    throw new FlowError(ERRORS.expression, `A value is nested deeper than ${budget.depthMax}.`)
  }
}

/**
 * Walks a value and refuses one that is too large or too deep. Parts may be shared (`. | [., .] | [., .]
 * …`), so the walk counts them as often as JSON would write them, and stops at the limit. The walk itself is paid for:
 * a large value that is handed from step to step costs each time.
 * @throws FlowError (expression)
 */
export function measure(value: Json, budget: Budget): void {
  const open: { readonly value: Json; readonly depth: number }[] = [{ value, depth: 1 }]
  let size = 0
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    spend(budget, 1)
    checkDepth(budget, next.depth)
    size += typeof next.value === 'string' ? next.value.length + 2 : 1
    if (typeof next.value === 'object' && next.value !== null) {
      for (const [key, item] of Object.entries(next.value)) {
        size += Array.isArray(next.value) ? 1 : key.length + 4
        checkSize(budget, size)
        open.push({ value: item, depth: next.depth + 1 })
      }
    }
    checkSize(budget, size)
  }
}
