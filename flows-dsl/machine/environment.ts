/** Knows what the machine says to the outside, and what it may ask of it without waiting. */

import type { FlowError } from '../errors.ts'
import type { Json } from '../ir.ts'
import type { StepEvent, StepRef } from '../tasks/task.ts'
import type { Effect } from './state.ts'

/** To be carried out in the order given. `id` names the effect in what happens later. */
export type Command =
  | { readonly begin: Effect; readonly id: number; readonly step: StepRef }
  | { readonly cancel: Effect['do']; readonly id: number }

/** How an effect has ended. */
export type Happening =
  | { readonly id: number; readonly output: Json }
  | { readonly id: number; readonly error: FlowError }

/** The same at each replay. */
export interface Surroundings {
  nowMs(): number
  /** From 0 to below 1. */
  random(): number
  record(event: StepEvent): void
  /** A collision-resistant digest of a value, the same for equal values; absent where none is wanted. */
  digest?(value: Json): string
}
