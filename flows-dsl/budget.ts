/** Bounds the cost of an evaluation: its steps, and the size and depth of values. */

import { ERRORS, FlowError } from './errors.ts'
import type { Json } from './json.ts'

/** The remaining allowance of an evaluation. `steps` counts down; the limits of depth and size apply to each value. */
export interface Budget {
  steps: number
  readonly depthMax: number
  /** Of a value under construction, in characters of its JSON, approximately. */
  readonly sizeMax: number
  /** Of a value that is passed on: the input of an execution may be larger than what its expressions may build. */
  readonly carriedMax: number
}

/** About 0.1 s of evaluation, well below the timeout of a workflow task. */
export const STEPS_MAX = 1_000_000

/** Levels of a value. */
export const DEPTH_MAX = 256

export function newBudget(): Budget {
  return { steps: STEPS_MAX, depthMax: DEPTH_MAX, sizeMax: 1_048_576, carriedMax: 4_194_304 }
}

export const TOO_MANY_STEPS = 'The expressions of the flow take too many steps.'

/** @throws FlowError (expression) */
export function spend(budget: Budget, steps: number): void {
  budget.steps -= steps
  if (budget.steps < 0) abort(TOO_MANY_STEPS)
}

/** Checks the size of a value before it is built. @throws FlowError (expression) */
export function checkSize(budget: Budget, size: number): void {
  bound(size, budget.sizeMax)
}

function bound(size: number, max: number): void {
  if (size > max) abort(`A value is larger than ${max}.`)
}

/** Charges for a string or a copy of a list before it is made. @throws FlowError (expression) */
export function charge(budget: Budget, size: number): void {
  checkSize(budget, size)
  spend(budget, 1 + (size >> 4))
}

/** Charges for a list whose items are made one by one. @throws FlowError (expression) */
export function chargeItems(budget: Budget, count: number): void {
  checkSize(budget, count)
  spend(budget, 1 + (count >> 1))
}

/** Above this number of fields the engine stores an object as a hash table, in which a field costs several times more. */
const FIELDS_FEW = 64

/** Charges for copying an object, or for setting that many fields. @throws FlowError (expression) */
export function chargeFields(budget: Budget, count: number): void {
  checkSize(budget, count)
  spend(budget, 1 + count * (count > FIELDS_FEW ? 10 : 2))
}

/** Charges for fields that are set in place, which makes the engine reallocate now and then. @throws FlowError (expression) */
export function chargeGrowth(budget: Budget, count: number): void {
  spend(budget, 6 * count)
}

/** Charges for listing the names of an object's fields. @throws FlowError (expression) */
export function chargeNames(budget: Budget, count: number): void {
  spend(budget, count > FIELDS_FEW ? 2 * count : count >> 1)
}

/** @throws FlowError (expression) */
export function checkDepth(budget: Budget, depth: number): void {
  if (depth > budget.depthMax) abort(`A value is nested deeper than ${budget.depthMax}.`)
}

/** Ends the evaluation. No `try` of an expression catches this. @throws FlowError (expression) */
export function abort(detail: string): never {
  throw new FlowError(ERRORS.expression, detail)
}

/**
 * Walks a value and rejects one that is too large or too deep. Shared parts (`[., .] | [., .] | …`) count as often as
 * JSON would write them. The walk is charged: a large value that is passed from step to step costs each time.
 * @returns whether all its numbers are finite
 * @throws FlowError (expression)
 */
export function measure(value: Json, budget: Budget): boolean {
  if (typeof value === 'number') return Number.isFinite(value)
  const sizes = { size: 0, finite: true }
  weigh(value, budget, 1, sizes)
  return sizes.finite
}

function weigh(value: Json, budget: Budget, depth: number, sum: { size: number; finite: boolean }): void {
  spend(budget, 1)
  checkDepth(budget, depth)
  if (typeof value === 'string') sum.size += value.length + 2
  else sum.size++
  if (typeof value === 'number' && !Number.isFinite(value)) sum.finite = false
  bound(sum.size, budget.carriedMax)
  if (typeof value !== 'object' || value === null) return
  if (Array.isArray(value)) {
    sum.size += value.length
    for (let i = 0; i < value.length; i++) weigh(value[i] ?? null, budget, depth + 1, sum)
    return
  }
  for (const key in value) {
    sum.size += key.length + 4
    weigh(value[key] ?? null, budget, depth + 1, sum)
  }
}
