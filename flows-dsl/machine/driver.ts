/** Drives the machine with effects that are promises: the machine decides what to do, the driver does it and waits. */

import { STEPS_MAX } from '../budget.ts'
import { type ErrorObject, FlowError } from '../errors.ts'
import type { ExecutionInfo, FlowIR, Json, JsonObject } from '../ir.ts'
import type { CallbackMessage, StepEvent, StepRef } from '../tasks/task.ts'
import type { HeldDecision, Patch } from './data-patch.ts'
import { Machine, newState } from './machine.ts'
import {
  type Command,
  type Effect,
  type EffectOutcome,
  type EffectResult,
  type FlowResult,
  type FlowState,
  pack,
  type Snapshot,
  unpack,
} from './state.ts'

export type { FlowResult, Snapshot } from './state.ts'

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

/** The result of the execution, or its snapshot to continue from as a new workflow run. */
export type DriverResult = FlowResult | { readonly status: 'continued'; readonly snapshot: Snapshot }

interface DriverStatus {
  readonly isHeld: boolean
  readonly isCancelled: boolean
  /** Errors by `pointer#iteration`. */
  readonly held: Readonly<Record<string, ErrorObject>>
  readonly waitsFor: readonly string[]
}

/** Evaluation steps between two pauses: as many as one turn may take (`STEPS_MAX`). */
const PAUSE_STEPS = STEPS_MAX

/**
 * Runs a flow to its end.
 * @returns its output, or the error with `instance`
 * @throws errors of effects that are not FlowErrors
 * @example
 * ```ts
 * const source = `
 * document: { dsl: 1.0.3, namespace: default, name: greet, version: 1.0.0 }
 * do:
 *   - greet: { set: { text: '\${ "Hello " + .name }' } }
 * `
 * const { ir } = compile(source, { catalogue: {} })
 * if (ir === undefined) throw new Error('The flow has errors.')
 * const info = { id: 'run_1', started_at: '2026-01-01T00:00:00.000Z' }
 * const result = await runFlow(ir, { name: 'Ada' }, effects, info)
 * if (result.status === 'completed') result.output // { text: 'Hello Ada' }
 * ```
 */
export function runFlow(ir: FlowIR, input: Json, effects: Effects, info: ExecutionInfo): Promise<FlowResult> {
  return Driver.start(ir, input, effects, info).run() as Promise<FlowResult>
}

/**
 * Carries out the machine's commands and passes it the results, one at a time.
 * @example
 * ```ts
 * async function runAll(ir: FlowIR, snapshot: Snapshot): Promise<FlowResult> {
 *   const result = await Driver.resume(ir, snapshot, effects).run()
 *   return result.status === 'continued' ? runAll(ir, result.snapshot) : result
 * }
 * ```
 */
export class Driver {
  readonly #effects: Effects
  readonly #machine: Machine
  readonly #isContinued: boolean
  readonly #open = new Map<number, { cancel(): void }>()
  /** The kinds of the open waits, by the id of the effect. */
  readonly #waits = new Map<number, string>()
  /** Effects that were cancelled, and whose outcome the machine is told. */
  readonly #settling = new Set<number>()
  /** Effects under way that a new run cannot start again: calls, and child flows. */
  readonly #nonResumable = new Map<number, Effect['do']>()
  #resolve: (result: DriverResult) => void = () => {}
  #reject: (error: unknown) => void = () => {}
  /** Results and messages that arrived during a pause, in order. */
  readonly #deferred: (() => void)[] = []
  #isPausing = false
  /** Evaluation steps before the last pause. */
  #stepsAtPause = 0
  #isCancelled = false
  /** The steps that are held, by `pointer#iteration`. */
  #heldSteps = ''
  #isReopened = false
  /** True if nothing starts any more, since the execution continues as new once the non-resumable effects have ended. */
  #isContinuing = false
  #isLeaving = false

  private constructor(ir: FlowIR, state: FlowState, effects: Effects, isContinued: boolean) {
    this.#effects = effects
    this.#isContinued = isContinued
    this.#machine = new Machine(ir, state, effects)
    this.#isCancelled = state.compensation !== undefined && 'cancelled' in state.compensation.because
    this.#heldSteps = Object.keys(this.#machine.held()).join(' ')
    this.#isReopened = this.#machine.isReopened
  }

  /** Creates a driver for a new execution. */
  static start(ir: FlowIR, input: Json, effects: Effects, info: ExecutionInfo): Driver {
    return new Driver(ir, newState(ir, input, info), effects, false)
  }

  /** Creates a driver for an execution that continued as new. */
  static resume(ir: FlowIR, snapshot: Snapshot, effects: Effects): Driver {
    return new Driver(ir, unpack(snapshot), effects, true)
  }

  /** Runs to the end, or until `shouldContinueAsNew`. */
  run(): Promise<DriverResult> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
      // Messages that arrived before may have started effects already.
      const pending = () => this.#machine.pending().filter(({ id }) => !this.#open.has(id))
      this.#carryOut(this.#isContinued ? pending() : this.#machine.begin())
      this.#pauseIfDue()
    })
  }

  /** Extends all timeouts by the time for which the execution was paused or suspended. */
  extendTimeouts(durationMs: number): void {
    this.#machine.extendTimeouts(durationMs)
  }

  /** Delivers a CloudEvent. */
  event(event: JsonObject): void {
    this.#afterPause(() => this.#proceed(this.#machine.event(event)))
  }

  /** Delivers what was posted to the callback of a step, `pointer#iteration`. */
  callback(step: string, callback: CallbackMessage): void {
    this.#afterPause(() => this.#proceed(this.#machine.callback(step, callback)))
  }

  /** Delivers a decision to an approval, `pointer#iteration`. @returns why it is refused, if it is */
  decide(step: string, decision: JsonObject): string | undefined {
    let refusal: string | undefined
    this.#turn(() => {
      const { commands, refused } = this.#machine.decide(step, decision)
      refusal = refused
      this.#carryOut(commands)
    })
    return refusal
  }

  /** Retries, skips or fails a held step. @returns why that is refused, if it is */
  release(step: string, decision: HeldDecision): string | undefined {
    if (this.#machine.held()[step] === undefined) return this.#endWait(step, decision)
    const refused = 'skip' in decision ? this.#machine.checkSkip(step, decision) : undefined
    if (refused !== undefined) return refused
    this.#reportReopened()
    this.#turn(() => this.#carryOut(this.#machine.release(step, decision)))
    return undefined
  }

  /** Ends a `wait` early: its output is what it would be. */
  #endWait(step: string, decision: HeldDecision): string | undefined {
    if (!('skip' in decision)) return 'The step does not wait for a decision about its error.'
    if (decision.skip !== null) return 'A `wait` that is ended early yields its input: leave out `output`.'
    let refused: string | undefined
    this.#turn(() => {
      const commands = this.#machine.endWait(step)
      if (commands === undefined) refused = 'The step is not held, and does not wait for a time.'
      else this.#carryOut(commands)
    })
    return refused
  }

  /** Patches the data of the execution. @returns why that is refused, if it is */
  patch(what: Patch): string | undefined {
    const refused = this.#machine.patch(what)
    this.#reportReopened()
    return refused
  }

  /** The state of the execution: if it is being cancelled, which steps are held, and what it waits for (`events`, `approval`, `workflow`). */
  get status(): DriverStatus {
    const held = this.#isHeld ? this.#machine.held() : {}
    return {
      isHeld: this.#isHeld,
      isCancelled: this.#isCancelled,
      held,
      waitsFor: [...this.#waits.values()],
    }
  }

  /** Cancels the execution: compensates, then ends cancelled. */
  cancel(): void {
    this.#isCancelled = true
    this.#turn(() => this.#carryOut(this.#machine.cancel()))
  }

  /** Runs `work`, which may use up the steps before the next pause. */
  #turn(work: () => void): void {
    try {
      work()
      this.#pauseIfDue()
    } catch (error) {
      this.#abort(error)
    }
  }

  /** Runs `work` as a turn of its own, after the pause if there is one. */
  #afterPause(work: () => void): void {
    if (this.#isPausing) this.#deferred.push(work)
    else this.#turn(work)
  }

  #pauseIfDue(): void {
    const isCostly = this.#machine.stepsUsed - this.#stepsAtPause >= PAUSE_STEPS
    if (!isCostly && !this.#machine.isPauseDue) return
    if (this.#isPausing || this.#machine.result !== undefined) return
    const paused = this.#effects.pause?.()
    if (paused === undefined) {
      this.#resumeTurn()
      return
    }
    this.#isPausing = true
    const resume = () => {
      this.#isPausing = false
      this.#stepsAtPause = this.#machine.stepsUsed
      this.#resumeTurn()
      if (this.#isPausing) return
      for (let next = this.#deferred.shift(); next !== undefined; next = this.#deferred.shift()) {
        this.#turn(next)
        if (this.#isPausing) return
      }
    }
    paused.then(resume).catch(this.#reject)
  }

  /** Goes on with a turn that a pause has interrupted. */
  #resumeTurn(): void {
    const { isBusy } = this.#machine
    const commands = this.#machine.resume()
    if (isBusy) this.#turn(() => this.#carryOut(commands))
  }

  #carryOut(commands: readonly Command[]): void {
    const unsent: number[] = []
    for (const command of commands) {
      if ('cancel' in command) unsent.push(...this.#cancelEffect(command))
      else if (!this.#isContinuing) this.#start(command.id, command.begin, command.step)
    }
    for (const id of unsent) this.#carryOut(this.#machine.settle(id, undefined))
    const { result, isBusy } = this.#machine
    this.#reportHeld()
    this.#reportReopened()
    if (result !== undefined) this.#resolve(result)
    else if (isBusy) return
    else if (this.#isContinuing && this.#nonResumable.size === 0) this.#move()
    // A branch that ends while others wait may still cancel something, such as the timer of its deadline.
    else if (commands.every((command) => 'cancel' in command))
      this.#effects.onIdle?.(![...this.#nonResumable.values()].includes('call'))
  }

  /** @returns its id if the machine waits for an outcome of it, and it was never started */
  #cancelEffect({ id, settles }: Extract<Command, { cancel: unknown }>): readonly number[] {
    const work = this.#open.get(id)
    const kind = this.#nonResumable.get(id)
    this.#close(id)
    const isUnderWay = work !== undefined && kind !== undefined
    if (settles === true && isUnderWay) {
      this.#settling.add(id)
      this.#nonResumable.set(id, kind)
    }
    work?.cancel()
    return settles === true && !isUnderWay ? [id] : []
  }

  /** Tells the machine the outcome of an effect that was cancelled. */
  #settle(id: number, outcome: EffectOutcome | undefined): void {
    this.#afterPause(() => {
      this.#settling.delete(id)
      this.#nonResumable.delete(id)
      this.#proceed(this.#machine.settle(id, outcome))
    })
  }

  /** Carries out the commands that follow a result or message, and decides whether to continue as new. */
  #proceed(commands: readonly Command[]): void {
    const awaited = [...this.#nonResumable.values()].includes('await')
    // A child flow may take weeks: the execution does not stand still until it has ended.
    if (!this.#isContinuing && !awaited && this.#effects.shouldContinueAsNew?.() === true)
      this.#isContinuing = true
    this.#carryOut(commands)
  }

  /** Hands over the snapshot. Effects that are still open, such as timers, end here; the new run starts them again. */
  #move(): void {
    if (this.#isLeaving) return
    this.#isLeaving = true
    const leave = () => {
      // Messages that arrived meanwhile belong into the snapshot; later ones go to the new run.
      for (const work of this.#deferred.splice(0)) work()
      if (this.#machine.result !== undefined) return
      this.#resolve({ status: 'continued', snapshot: pack(this.#machine.state) })
      this.#open.clear()
    }
    const flushed = this.#effects.flush?.() ?? Promise.resolve()
    flushed.then(leave).catch(this.#reject)
  }

  #reportReopened(): void {
    const { isReopened } = this.#machine
    if (isReopened === this.#isReopened) return
    this.#isReopened = isReopened
    this.#effects.onApprovalsReopened?.(isReopened)
  }

  #reportHeld(): void {
    const held = Object.keys(this.#machine.held()).join(' ')
    if (held === this.#heldSteps) return
    this.#heldSteps = held
    this.#effects.onHeldChanged?.(this.#isHeld)
  }

  get #isHeld(): boolean {
    return this.#heldSteps !== ''
  }

  /** Closes an effect. @returns whether it was open */
  #close(id: number): boolean {
    this.#nonResumable.delete(id)
    this.#waits.delete(id)
    return this.#open.delete(id)
  }

  #start(id: number, effect: Effect, step: StepRef): void {
    const work = async (): Promise<void> => {
      try {
        const output = await this.#do(effect, step)
        this.#complete({ id, output })
      } catch (error) {
        if (error instanceof FlowError) this.#complete({ id, error })
        else this.#fail(id, error)
      }
    }
    // Open before it starts, since it may end synchronously.
    this.#open.set(id, { cancel: () => {} })
    if (effect.do === 'await') this.#waits.set(id, effect.what)
    if (effect.do === 'call' || (effect.do === 'await' && effect.what === 'workflow'))
      this.#nonResumable.set(id, effect.do)
    // Cancelling the execution must not stop its compensation and its `finally`.
    const scope = this.#effects.scope(work, { isShielded: this.#machine.isShielded })
    if (this.#open.has(id)) this.#open.set(id, scope)
  }

  async #do(effect: Effect, step: StepRef): Promise<Json> {
    if (effect.do === 'call') return this.#effects.call({ ...effect, step })
    if (effect.do === 'await') return this.#effects.wait(effect.what, effect.details, step)
    const durationMs = Math.max(0, effect.untilMs - this.#effects.nowMs())
    await this.#effects.sleep(durationMs, step, { limits: effect.limits })
    return null
  }

  #complete(result: EffectResult): void {
    const { id } = result
    if (this.#settling.has(id)) {
      this.#settle(id, result)
      return
    }
    this.#afterPause(() => {
      // It may have been cancelled during the pause.
      if (this.#settling.has(id)) this.#settle(id, result)
      else if (this.#close(id)) this.#proceed(this.#machine.completeEffect(result))
    })
  }

  /** Handles an error of an effect that is not a FlowError: a cancellation, or a failure of the platform. */
  #fail(id: number, error: unknown): void {
    if (this.#settling.has(id)) {
      if (this.#effects.isCancellation?.(error) === true) this.#settle(id, undefined)
      else this.#abort(error)
      return
    }
    if (!this.#close(id)) return
    if (this.#effects.isCancellation?.(error) === true) this.cancel()
    else this.#abort(error)
  }

  #abort(error: unknown): void {
    for (const { cancel } of this.#open.values()) cancel()
    this.#open.clear()
    this.#reject(error)
  }
}
