/** The interface by which the driver asks its host to carry out the effects of a flow. */

import type { Json, JsonObject } from '../ir.ts'
import type { StepEvent, StepRef } from '../tasks/task.ts'
import type { Effect } from './state.ts'

/** A call of a catalogue function or `http`, with evaluated arguments. */
export interface CallRequest extends Omit<Extract<Effect, { readonly do: 'call' }>, 'do'> {
  readonly step: StepRef
}

/** Everything that a flow does to the world. A FlowError thrown here faults the step; other errors reject the driver. */
export interface Effects {
  call(request: CallRequest): Promise<Json>
  /** @param options.limits the timer is a timeout, which time paused or suspended extends */
  sleep(durationMs: number, step: StepRef, options?: { limits: boolean }): Promise<void>
  /** Waits for a message (`events`, `approval`), without limit, or for the result of a child flow (`workflow`). */
  wait(what: string, details: JsonObject, step: StepRef): Promise<Json>
  /** Called when a step becomes held, or is held no more. @param isHeld whether any step is held */
  onHeldChanged?(isHeld: boolean): void
  /** Called when an approval is reopened, so that nothing may start, and when all are granted again. */
  onApprovalsReopened?(isReopened: boolean): void
  /** Called when data of a pending approval were changed, with its new details. */
  approvalChanged?(step: StepRef, details: JsonObject): void
  /** A collision-resistant digest, equal for equal values; absent if the host has none. */
  digest?(value: Json): string
  record(event: StepEvent): void
  /**
   * Called after a result or message that starts nothing new: the execution goes on waiting.
   * @param isWaiting whether it waits for timers and messages only, not for a call
   */
  onIdle?(isWaiting: boolean): void
  nowMs(): number
  /** From 0 to below 1, the same at each replay. */
  random(): number
  /**
   * Starts `work`, which never rejects, synchronously. `cancel` rejects every call and sleep within it. Cancelling the
   * execution does not cancel a shielded scope, such as that of a compensation.
   */
  scope(work: () => Promise<void>, options?: { isShielded: boolean }): { cancel(): void }
  /** True if the history is large enough to continue as new; asked after each result and message. */
  shouldContinueAsNew?(): boolean
  /** Resolves when all records are stored; called before the execution continues as new. */
  flush?(): Promise<void>
  /**
   * Yields the thread to other executions. Called after a number of evaluation steps or tasks, which is the same point in
   * each replay; the machine gets no results and messages until the promise resolves.
   */
  pause?(): Promise<void>
  /** True if an effect rejected because the execution was cancelled. */
  isCancellation?(error: unknown): boolean
}
