/** Knows how much an evaluation may cost, and stops it when it is used up. */

import { ERRORS, FlowError } from '../errors.ts'
import type { Json } from '../ir.ts'

/**
 * What an evaluation may still use. `steps` counts down; the limits of depth and size hold for each value.
 */
export interface Budget {
  steps: number
  readonly depthMax: number
  /** Of a value that is made, in characters of its JSON, approximately. */
  readonly sizeMax: number
  /** Of a value that is handed on: a run is given more than its expressions may make. */
  readonly carriedMax: number
}

/** About 0.1 s of evaluation, well below the time that Temporal gives a workflow task. */
export const STEPS_MAX = 1_000_000

export function newBudget(): Budget {
  return { steps: STEPS_MAX, depthMax: 256, sizeMax: 1_048_576, carriedMax: 4_194_304 }
}

/** @throws FlowError (expression) */
export function spend(budget: Budget, steps: number): void {
  budget.steps -= steps
  if (budget.steps < 0) refuse('The expressions of the flow take too many steps.')
}

/** Refuses a value before it is built. @throws FlowError (expression) */
export function checkSize(budget: Budget, size: number): void {
  bound(size, budget.sizeMax)
}

function bound(size: number, max: number): void {
  if (size > max) refuse(`A value is larger than ${max}.`)
}

/** Pays for a text, or a copy of a list, that is about to be made. @throws FlowError (expression) */
export function charge(budget: Budget, size: number): void {
  checkSize(budget, size)
  spend(budget, 1 + (size >> 4))
}

/** Pays for a list whose items are about to be made one by one. @throws FlowError (expression) */
export function chargeItems(budget: Budget, count: number): void {
  checkSize(budget, count)
  spend(budget, 1 + (count >> 1))
}

/** Above so many fields the engine keeps an object as a hash table, of which each field costs several times as much. */
const FIELDS_FEW = 64

/** Pays for a copy of an object, or for setting that many fields of one, about to be made. @throws FlowError (expression) */
export function chargeFields(budget: Budget, count: number): void {
  checkSize(budget, count)
  spend(budget, 1 + count * (count > FIELDS_FEW ? 10 : 2))
}

/** Pays for fields that are about to be set in place: the engine makes room for more now and then. @throws FlowError (expression) */
export function chargeGrowth(budget: Budget, count: number): void {
  spend(budget, 6 * count)
}

/** Pays for a list of the names of an object's fields. @throws FlowError (expression) */
export function chargeNames(budget: Budget, count: number): void {
  spend(budget, count > FIELDS_FEW ? 2 * count : count >> 1)
}

/** @throws FlowError (expression) */
export function checkDepth(budget: Budget, depth: number): void {
  if (depth > budget.depthMax) refuse(`A value is nested deeper than ${budget.depthMax}.`)
}

/** Ends the evaluation; no `try` of an expression catches this. */
export function refuse(detail: string): never {
  throw new FlowError(ERRORS.expression, detail)
}

/**
 * Walks a value and refuses one that is too large or too deep. Parts may be shared (`. | [., .] | [., .]
 * …`), so the walk counts them as often as JSON would write them, and stops at the limit. The walk itself is paid for:
 * a large value that is handed from step to step costs each time.
 * @returns whether all its numbers are numbers of JSON
 * @throws FlowError (expression)
 */
export function measure(value: Json, budget: Budget): boolean {
  if (typeof value === 'number') return Number.isFinite(value)
  const sizes = { size: 0, finite: true }
  weigh(value, budget, 1, sizes)
  return sizes.finite
}

/** Recurses no deeper than the limit of depth. */
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
