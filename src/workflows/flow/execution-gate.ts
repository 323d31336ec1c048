/** Stops an execution before its next effect while it is suspended, paused, without a slot, or has a reopened approval. */

import { ActivityFailure, ApplicationFailure } from '@temporalio/common'
import { condition, defineSignal, setHandler, sleep } from '@temporalio/workflow'
import type { GateState, SuspensionState } from '../../core/execution.ts'
import type { FirstAttempt, SuspendedFailure } from '../../core/work.ts'
import { nowMs } from './logical-clock.ts'

/** True if the workspace is suspended; sent by the workflow `suspension`. */
const suspensionChanged = defineSignal<[SuspensionState]>('suspensionChanged')

const SUSPENDED: readonly unknown[] = ['tenant_suspended', 'workspace_suspended']
/** Delay before a refused call is repeated if the gate is open: the activity knew a newer or older state. */
const REFUSED_MS = 1_000

/** A call that was refused because of a suspension; `held` if it was refused before the activity started. */
interface Refusal {
  readonly held?: SuspendedFailure
}

export class ExecutionGate {
  #seq = -1
  #isSuspended = false
  #isPaused = false
  #isQueued = false
  #isReopened = false
  #sinceMs: number | undefined
  #endedMs = 0

  /** Called when the gate opens, with the time for which it was closed. */
  onGateOpened: (durationMs: number) => void = () => {}

  /** Called when a reason comes or goes. */
  onChanged: () => void = () => {}

  /** Create it before the execution awaits anything, so that no signal is lost. @param before the state before continue-as-new */
  constructor(before?: GateState) {
    this.#seq = before?.seq ?? -1
    this.#isSuspended = before?.suspended ?? false
    this.#isPaused = before?.paused ?? false
    this.#isQueued = before?.queued ?? false
    this.#isReopened = before?.approval_reopened ?? false
    this.#sinceMs = before?.since_ms
    this.#endedMs = before?.ended_ms ?? 0
    setHandler(suspensionChanged, (state) => this.#setSuspension(state))
  }

  get state(): GateState {
    const [since, suspended, paused] = [this.#sinceMs, this.#isSuspended, this.#isPaused]
    const queued = this.#isQueued && { queued: true as const }
    const reopened = this.#isReopened && { approval_reopened: true as const }
    const closed = since !== undefined && { since_ms: since }
    return { seq: this.#seq, suspended, paused, ended_ms: this.#endedMs, ...queued, ...reopened, ...closed }
  }

  get isClosed(): boolean {
    return this.#sinceMs !== undefined
  }

  get isPaused(): boolean {
    return this.#isPaused
  }

  /** The most important reason why the gate is closed. */
  get reason(): 'paused' | 'suspended' | 'queued' | 'approval_reopened' | undefined {
    if (this.#isPaused) return 'paused'
    if (this.#isSuspended) return 'suspended'
    if (this.#isQueued) return 'queued'
    return this.#isReopened ? 'approval_reopened' : undefined
  }

  /** True if it is suspended or paused; false if it is only queued or has a reopened approval. */
  get isSuspendedOrPaused(): boolean {
    return this.#isSuspended || this.#isPaused
  }

  /** Pauses or resumes the execution. */
  pause(isPaused: boolean): void {
    this.#isPaused = isPaused
    this.#update()
  }

  /** Sets whether the execution waits for a concurrency slot. */
  setQueued(isQueued: boolean): void {
    this.#isQueued = isQueued
    this.#update()
  }

  /** Sets whether the execution waits for a reopened approval. */
  setApprovalReopened(isReopened: boolean): void {
    this.#isReopened = isReopened
    this.#update()
  }

  /** Waits until the gate opens. Call it only if the gate is closed: a needless promise would change the order of commands. */
  untilOpen(): Promise<void> {
    return condition(() => !this.isClosed)
  }

  /**
   * After a timer: waits until the gate opens. A timeout is extended by the time for which the gate was closed meanwhile.
   * @param closedMs the value of `closedMs()` when the timer started
   */
  async afterTimer(closedMs: number, options: { summary: string; limits: boolean }): Promise<void> {
    const { summary, limits } = options
    if (this.isClosed) await this.untilOpen()
    const missedMs = limits ? this.closedMs() - closedMs : 0
    if (missedMs === 0) return
    await sleep(missedMs, { summary })
    if (this.isClosed || this.closedMs() > closedMs + missedMs)
      await this.afterTimer(closedMs + missedMs, options)
  }

  /** The refusal, if a call failed because of a suspension and must be repeated. */
  refusalOf(error: unknown): Refusal | undefined {
    const failure = causeOf(error)
    if (!(failure instanceof ApplicationFailure)) return undefined
    if (failure.type === 'held') return { held: failure.details?.[0] as SuspendedFailure }
    return SUSPENDED.includes(failure.type) ? {} : undefined
  }

  /**
   * Waits until a refused call may be repeated.
   * @returns the first attempt, whose ids the repetition uses, if the activity itself was refused
   */
  async waitAfterRefusal({ held }: Refusal): Promise<{ first_attempt?: FirstAttempt }> {
    if (held !== undefined) this.#setSuspension({ seq: held.seq, suspended: true })
    if (!this.isClosed) await sleep(REFUSED_MS)
    if (this.isClosed) await this.untilOpen()
    return held === undefined ? {} : { first_attempt: held.begun }
  }

  #setSuspension({ seq, suspended }: SuspensionState): void {
    if (seq <= this.#seq) return
    this.#seq = seq
    this.#isSuspended = suspended
    this.#update()
  }

  /** Opens or closes the gate; any single reason closes it. */
  #update(): void {
    this.onChanged()
    const isOn = this.reason !== undefined
    if (isOn === this.isClosed) return
    const now = nowMs()
    const durationMs = this.#sinceMs === undefined ? 0 : now - this.#sinceMs
    this.#endedMs += durationMs
    this.#sinceMs = isOn ? now : undefined
    if (!isOn) this.onGateOpened(durationMs)
  }

  /** Total time for which the gate has been closed, in ms. */
  closedMs(): number {
    return this.#endedMs + (this.#sinceMs === undefined ? 0 : nowMs() - this.#sinceMs)
  }
}

/** The cause of an activity's failure. Failures of local activities are not wrapped. */
export function causeOf(error: unknown): unknown {
  return error instanceof ActivityFailure ? error.cause : error
}
