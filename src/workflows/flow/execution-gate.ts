/** Holds an execution at its next effect while it is suspended, paused, without a slot, or asks again for an approval. */

import { ActivityFailure, ApplicationFailure } from '@temporalio/common'
import { condition, defineSignal, setHandler, sleep } from '@temporalio/workflow'
import type { GateState, SuspensionState } from '../../core/run.ts'
import type { FirstAttempt, SuspendedFailure } from '../../core/work.ts'
import { nowMs } from './logical-clock.ts'

/** How the run's workspace stands; the workflow `suspension` sends it. */
const standing = defineSignal<[SuspensionState]>('suspensionChanged')

const SUSPENDED: readonly unknown[] = ['tenant_suspended', 'workspace_suspended']
/** Until a call is tried again whose refusal is out of date, or came from who had heard of a suspension first. */
const REFUSED_MS = 1_000

/** A call that was refused because of a suspension: at the door of activities, or further on. */
interface Refusal {
  readonly held?: SuspendedFailure
}

export class ExecutionGate {
  #seq = -1
  #isSuspended = false
  #isPaused = false
  #isQueued = false
  #isAsked = false
  #sinceMs: number | undefined
  #endedMs = 0

  /** Hears for how long nothing could go on. */
  onReopened: (durationMs: number) => void = () => {}

  /** Listens from now on: made before the run waits for anything. @param before where the run has been elsewhere */
  constructor(before?: GateState) {
    this.#seq = before?.seq ?? -1
    this.#isSuspended = before?.suspended ?? false
    this.#isPaused = before?.paused ?? false
    this.#isQueued = before?.queued ?? false
    this.#isAsked = before?.approval_reopened ?? false
    this.#sinceMs = before?.since_ms
    this.#endedMs = before?.ended_ms ?? 0
    setHandler(standing, (heard) => this.#hear(heard))
  }

  get state(): GateState {
    const [since, suspended, paused] = [this.#sinceMs, this.#isSuspended, this.#isPaused]
    const queued = this.#isQueued && { queued: true as const }
    const asked = this.#isAsked && { asked: true as const }
    const state = { seq: this.#seq, suspended, paused, ended_ms: this.#endedMs, ...queued, ...asked }
    return { ...state, ...(since !== undefined && { since_ms: since }) }
  }

  get isClosed(): boolean {
    return this.#sinceMs !== undefined
  }

  get isPaused(): boolean {
    return this.#isPaused
  }

  /** Somebody has stopped it, and it does not only wait for a place. */
  get isSuspendedOrPaused(): boolean {
    return this.#isSuspended || this.#isPaused
  }

  /** Somebody pauses the run, or lets it go on. */
  pause(isPaused: boolean): void {
    this.#isPaused = isPaused
    this.#turn()
  }

  /** The run waits for a place among those of its flow, or has it. */
  setQueued(isQueued: boolean): void {
    this.#isQueued = isQueued
    this.#turn()
  }

  /** The run waits until an approval is given again, or that is so. */
  setApprovalReopened(isAsked: boolean): void {
    this.#isAsked = isAsked
    this.#turn()
  }

  /** Waits as long as the run is held. Asked only while it is: of runs that never are, no promise comes later than before. */
  untilOpen(): Promise<void> {
    return condition(() => !this.isClosed)
  }

  /**
   * After a timer: waits as long as the run is held. Of a timer that limits other work, the time for which that was held
   * meanwhile does not count, and is waited for once more.
   * @param heldMs for how long the run had been held when the timer began
   */
  async afterTimer(heldMs: number, options: { summary: string; limits: boolean }): Promise<void> {
    const { summary, limits } = options
    if (this.isClosed) await this.untilOpen()
    const missedMs = limits ? this.closedMs() - heldMs : 0
    if (missedMs === 0) return
    await sleep(missedMs, { summary })
    if (this.isClosed || this.closedMs() > heldMs + missedMs)
      await this.afterTimer(heldMs + missedMs, options)
  }

  /** What a call has failed with, where it is to be made again; undefined where it failed for another reason. */
  refusalOf(error: unknown): Refusal | undefined {
    const failure = causeOf(error)
    if (!(failure instanceof ApplicationFailure)) return undefined
    if (failure.type === 'held') return { held: failure.details?.[0] as SuspendedFailure }
    return SUSPENDED.includes(failure.type) ? {} : undefined
  }

  /**
   * Waits until the call may be made again.
   * @returns the attempt that the next one goes on with, if there was one: a function that was refused has not begun
   */
  async waitAfterRefusal({ held }: Refusal): Promise<{ first_attempt?: FirstAttempt }> {
    if (held !== undefined) this.#hear({ seq: held.seq, suspended: true })
    if (!this.isClosed) await sleep(REFUSED_MS)
    if (this.isClosed) await this.untilOpen()
    return held === undefined ? {} : { first_attempt: held.begun }
  }

  #hear({ seq, suspended }: SuspensionState): void {
    if (seq <= this.#seq) return
    this.#seq = seq
    this.#isSuspended = suspended
    this.#turn()
  }

  /** Any reason holds it. */
  #turn(): void {
    const isOn = this.isSuspendedOrPaused || this.#isQueued || this.#isAsked
    if (isOn === this.isClosed) return
    const now = nowMs()
    const durationMs = this.#sinceMs === undefined ? 0 : now - this.#sinceMs
    this.#endedMs += durationMs
    this.#sinceMs = isOn ? now : undefined
    if (!isOn) this.onReopened(durationMs)
  }

  /** For how long the run has been held so far. */
  closedMs(): number {
    return this.#endedMs + (this.#sinceMs === undefined ? 0 : nowMs() - this.#sinceMs)
  }
}

/** What an activity has thrown. That of a local one comes bare, without the failure that says which activity it was. */
export function causeOf(error: unknown): unknown {
  return error instanceof ActivityFailure ? error.cause : error
}
