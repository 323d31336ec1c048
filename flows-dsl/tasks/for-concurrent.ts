/** Knows how iterations of `for` run at the same time: so many at once, their outputs in the order of the items. */

import type { FlowError } from '../errors.ts'
import type { Json } from '../ir.ts'
import type { Child, Ended, Move, Running } from './task.ts'

export interface Loop {
  /** Names of variables. */
  readonly each: string
  readonly at: string
  readonly concurrency: number
}

/** Plain JSON, and changed in place: it would cost the square of the items to copy it for each. */
interface Iterations {
  readonly items: Json[]
  /** One for each item; null where it has not ended. */
  readonly outputs: Json[]
  /** How many were begun, and how many have ended. */
  begun: number
  ended: number
  /** `$context` of the last of the items, in their order, that has exported one. */
  exported?: { readonly index: number; readonly context: Json }
}

/** Begins as many iterations as may run at once, each with the input of the task. */
export function beginIterations(loop: Loop, items: Json[], running: Running): Move {
  const iterations: Iterations = { items, outputs: items.map(() => null), begun: 0, ended: 0 }
  if (items.length === 0) return { done: [] }
  const count = Math.min(loop.concurrency, items.length)
  const children = Array.from({ length: count }, () => another(loop, iterations, running))
  return { own: iterations as unknown as Json, begin: children }
}

/** Each that ends makes room for another. */
export function goOn(loop: Loop, own: Json, { key, output, context }: Ended, running: Running): Move {
  const iterations = own as unknown as Iterations
  const { items, outputs, exported } = iterations
  const index = Number(key)
  outputs[index] = output
  iterations.ended += 1
  if (context !== undefined && index > (exported?.index ?? -1)) iterations.exported = { index, context }
  if (iterations.begun < items.length) return { own, begin: [another(loop, iterations, running)] }
  if (iterations.ended < items.length) return { own }
  const last = iterations.exported
  return { done: running.bounded(outputs), ...(last !== undefined && { context: last.context }) }
}

/** What stands in the place of an iteration that has faulted, where the others go on. */
export function failure(error: FlowError): Json {
  return { error: error.toObject() }
}

function another({ each, at }: Loop, iterations: Iterations, { input }: Running): Child {
  const index = iterations.begun++
  const variables = { [each]: iterations.items[index] ?? null, [at]: index }
  return { key: String(index), list: 'do', input, variables, apart: true }
}
