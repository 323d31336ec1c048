/** Drives the machine where effects are promises: the machine decides, the driver waits. */

import { STEPS_MAX } from '../budget.ts'
import { FlowError } from '../errors.ts'
import type { FlowIR, Json, JsonObject, RunInfo } from '../ir.ts'
import type { StepEvent, StepRef } from '../tasks/task.ts'
import type { Patch, Release } from './data-patch.ts'
import { Machine, newState } from './machine.ts'
import {
  type Command,
  type Effect,
  type Happening,
  pack,
  type RunResult,
  type RunState,
  type Snapshot,
  unpack,
} from './state.ts'

export type { RunResult, Snapshot } from './state.ts'

/** How a drive has ended: with the run, or before it, to be gone on with elsewhere. */
export type Driven = RunResult | { readonly status: 'moved'; readonly snapshot: Snapshot }

/** A function of the catalogue, or `http`, with arguments that hold no expressions any more. */
export interface CallRequest extends Omit<Extract<Effect, { readonly do: 'call' }>, 'do'> {
  readonly step: StepRef
}

/** The whole world of a flow. A FlowError that is thrown here faults the flow; all else passes through. */
export interface Effects {
  call(request: CallRequest): Promise<Json>
  /** @param options.limits it is to end other work: of time for which that may not go on, nothing is counted */
  sleep(durationMs: number, step: StepRef, options?: { limits: boolean }): Promise<void>
  /** Waits for what the outside tells the run (`events`, `approval`), for ever, or answers it (`workflow`). */
  wait(what: string, details: JsonObject, step: StepRef): Promise<Json>
  /** Whether steps wait for somebody to decide about their errors; told when that changes. */
  held?(isHeld: boolean): void
  /** Whether nothing may begin until an approval is given again; told when that changes. */
  askedAgain?(isAskedAgain: boolean): void
  /** A collision-resistant digest of a value, the same for equal values; absent where none is wanted. */
  digest?(value: Json): string
  record(event: StepEvent): void
  /**
   * What has happened gave the run nothing to begin: it goes on waiting for what is open.
   * @param isWaiting whether that is the world, or a time, and no call
   */
  rests?(isWaiting: boolean): void
  nowMs(): number
  /** From 0 to below 1, the same at each replay. */
  random(): number
  /**
   * Begins the work, which never rejects, before it answers. `cancel` makes every call and sleep that is pending
   * or begun within it reject. What is shielded, as what undoes something, is not cancelled with the run.
   */
  scope(work: () => Promise<void>, options?: { isShielded: boolean }): { cancel(): void }
  /** Whether the run should go on elsewhere; asked when something has happened. */
  isFull?(): boolean
  /** Resolves when nothing that was recorded is lost with this place; asked before the run goes on elsewhere. */
  settled?(): Promise<void>
  /**
   * Resolves when others have had the thread. It is asked for after so many steps of expressions, at the same place of each replay;
   * until then nothing that has happened is told to the machine.
   */
  pause?(): Promise<void>
  /** Whether that is how an effect of a run that is cancelled rejects: then it undoes what it must, and ends so. */
  isCancellation?(error: unknown): boolean
}

/** So many steps of expressions a run takes before it pauses: as many as one turn of it may take (`STEPS_MAX`). */
const PAUSE_STEPS = STEPS_MAX

/**
 * Runs a flow to its end.
 * @returns its output, or the error it faulted with, `instance` filled in
 * @throws what an effect has thrown that is no FlowError
 */
export function runFlow(ir: FlowIR, input: Json, effects: Effects, info: RunInfo): Promise<RunResult> {
  return Drive.of(ir, input, effects, info).toEnd() as Promise<RunResult>
}

/** Carries out commands and tells the machine what came of them, one after the other. */
export class Drive {
  readonly #effects: Effects
  readonly #machine: Machine
  readonly #isContinued: boolean
  readonly #open = new Map<number, { cancel(): void }>()
  /** Of those that are open, what cannot be begun again elsewhere: calls, and flows that are waited for. */
  readonly #bound = new Map<number, Effect['do']>()
  #resolve: (result: Driven) => void = () => {}
  #reject: (error: unknown) => void = () => {}
  /** What has happened while the run pauses, in that order. */
  readonly #late: (() => void)[] = []
  #isPausing = false
  /** Steps of expressions that were taken when it paused last. */
  #spent = 0
  #isCancelled = false
  #isHeld = false
  #isAskedAgain = false
  /** Nothing is begun any more: it goes on elsewhere when what is bound has ended. */
  #isMoving = false
  #isLeaving = false

  private constructor(ir: FlowIR, state: RunState, effects: Effects, isContinued: boolean) {
    this.#effects = effects
    this.#isContinued = isContinued
    this.#machine = new Machine(ir, state, effects)
    this.#isCancelled = state.undoing !== undefined && 'cancelled' in state.undoing.because
    this.#isHeld = this.#isHolding()
    this.#isAskedAgain = this.#machine.isAskedAgain
  }

  /** A run that has not begun. */
  static of(ir: FlowIR, input: Json, effects: Effects, info: RunInfo): Drive {
    return new Drive(ir, newState(ir, input, info), effects, false)
  }

  /** A run that has moved here. */
  static from(ir: FlowIR, snapshot: Snapshot, effects: Effects): Drive {
    return new Drive(ir, unpack(snapshot), effects, true)
  }

  /** Runs to the end, or until the run has to go on elsewhere (`isFull`). */
  toEnd(): Promise<Driven> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
      // What was heard on the way here may have begun something already.
      const pending = () => this.#machine.pending().filter(({ id }) => !this.#open.has(id))
      this.#carryOut(this.#isContinued ? pending() : this.#machine.begin())
      this.#pauseIfDue()
    })
  }

  /** Time for which nothing could go on does not count for what limits other work. */
  postpone(durationMs: number): void {
    this.#machine.postpone(durationMs)
  }

  /** A CloudEvent has come. */
  event(event: JsonObject): void {
    this.#inTurn(() => this.#happened(this.#machine.event(event)))
  }

  /** Somebody decides for a step that waits for it, by `pointer#iteration`. @returns why it is refused, if it is */
  decide(step: string, decision: JsonObject): string | undefined {
    let refusal: string | undefined
    this.#turn(() => {
      const { commands, refused } = this.#machine.decide(step, decision)
      refusal = refused
      this.#carryOut(commands)
    })
    return refusal
  }

  /** Somebody decides about a step that is held. @returns why that is refused, if it is */
  release(step: string, decision: Release): string | undefined {
    if (this.#machine.held()[step] === undefined)
      return 'The step does not wait for a decision about its error.'
    const refused = 'skip' in decision ? this.#machine.supply(step, decision.by) : undefined
    if (refused !== undefined) return refused
    this.#tellAskedAgain()
    this.#turn(() => this.#carryOut(this.#machine.release(step, decision)))
    return undefined
  }

  /** Somebody mends the data of the run. @returns why that is refused, if it is */
  patch(what: Patch): string | undefined {
    const refused = this.#machine.patch(what)
    this.#tellAskedAgain()
    return refused
  }

  /** Whether steps wait for somebody to decide about their errors, and whether it was given up. */
  get standing(): { readonly isHeld: boolean; readonly isCancelled: boolean } {
    return { isHeld: this.#isHeld, isCancelled: this.#isCancelled }
  }

  /** Gives the run up; it undoes what it must and ends cancelled. */
  cancel(): void {
    this.#isCancelled = true
    this.#turn(() => this.#carryOut(this.#machine.cancel()))
  }

  #turn(work: () => void): void {
    try {
      work()
      this.#pauseIfDue()
    } catch (error) {
      this.#giveUp(error)
    }
  }

  /** The same, after the pause if there is one: many things may happen at once, each with a turn of its own. */
  #inTurn(work: () => void): void {
    if (this.#isPausing) this.#late.push(work)
    else this.#turn(work)
  }

  #pauseIfDue(): void {
    if (this.#machine.spent - this.#spent < PAUSE_STEPS) return
    if (this.#isPausing || this.#machine.result !== undefined) return
    const paused = this.#effects.pause?.()
    if (paused === undefined) return
    this.#isPausing = true
    const goOn = () => {
      this.#isPausing = false
      this.#spent = this.#machine.spent
      for (let next = this.#late.shift(); next !== undefined; next = this.#late.shift()) {
        this.#turn(next)
        if (this.#isPausing) return
      }
    }
    paused.then(goOn).catch(this.#reject)
  }

  #carryOut(commands: readonly Command[]): void {
    for (const command of commands) {
      const { id } = command
      if ('cancel' in command) {
        this.#open.get(id)?.cancel()
        this.#close(id)
      } else if (!this.#isMoving) this.#begin(id, command.begin, command.step)
    }
    const { result } = this.#machine
    const isHeld = this.#isHolding()
    if (isHeld !== this.#isHeld) this.#effects.held?.(isHeld)
    this.#isHeld = isHeld
    this.#tellAskedAgain()
    if (result !== undefined) this.#resolve(result)
    else if (this.#isMoving && this.#bound.size === 0) this.#move()
    else if (commands.length === 0) this.#effects.rests?.(![...this.#bound.values()].includes('call'))
  }

  /** What came of something that has happened: it may have been the last thing that happened here. */
  #happened(commands: readonly Command[]): void {
    const awaited = [...this.#bound.values()].includes('await')
    // Another flow may take weeks: nobody stands still until it has ended.
    if (!this.#isMoving && !awaited && this.#effects.isFull?.() === true) this.#isMoving = true
    this.#carryOut(commands)
  }

  /** What is still open here, such as a timer, ends with the place; it is begun again from the state. */
  #move(): void {
    if (this.#isLeaving) return
    this.#isLeaving = true
    const leave = () => {
      // What was heard meanwhile is in the state too; from now on nothing is heard here.
      for (const work of this.#late.splice(0)) work()
      if (this.#machine.result !== undefined) return
      this.#resolve({ status: 'moved', snapshot: pack(this.#machine.state) })
      this.#open.clear()
    }
    const settled = this.#effects.settled?.() ?? Promise.resolve()
    settled.then(leave).catch(this.#reject)
  }

  #tellAskedAgain(): void {
    const { isAskedAgain } = this.#machine
    if (isAskedAgain === this.#isAskedAgain) return
    this.#isAskedAgain = isAskedAgain
    this.#effects.askedAgain?.(isAskedAgain)
  }

  #isHolding(): boolean {
    return Object.keys(this.#machine.held()).length > 0
  }

  /** @returns whether it was open */
  #close(id: number): boolean {
    this.#bound.delete(id)
    return this.#open.delete(id)
  }

  #begin(id: number, effect: Effect, step: StepRef): void {
    const work = async (): Promise<void> => {
      try {
        const output = await this.#do(effect, step)
        this.#tell({ id, output })
      } catch (error) {
        if (error instanceof FlowError) this.#tell({ id, error })
        else this.#thrown(id, error)
      }
    }
    // Before it begins: what ends at once has to be open.
    this.#open.set(id, { cancel: () => {} })
    if (effect.do === 'call' || (effect.do === 'await' && effect.what === 'workflow'))
      this.#bound.set(id, effect.do)
    // Whatever it is undone for, nobody keeps a run from undoing.
    const scope = this.#effects.scope(work, { isShielded: this.#machine.state.undoing !== undefined })
    if (this.#open.has(id)) this.#open.set(id, scope)
  }

  async #do(effect: Effect, step: StepRef): Promise<Json> {
    if (effect.do === 'call') return this.#effects.call({ ...effect, step })
    if (effect.do === 'await') return this.#effects.wait(effect.what, effect.details, step)
    const durationMs = Math.max(0, effect.untilMs - this.#effects.nowMs())
    await this.#effects.sleep(durationMs, step, { limits: effect.limits })
    return null
  }

  #tell(happening: Happening): void {
    this.#inTurn(() => {
      if (this.#close(happening.id)) this.#happened(this.#machine.happened(happening))
    })
  }

  /** What an effect has thrown that is no error of the flow. */
  #thrown(id: number, error: unknown): void {
    if (!this.#close(id)) return
    if (this.#effects.isCancellation?.(error) === true) this.cancel()
    else this.#giveUp(error)
  }

  #giveUp(error: unknown): void {
    for (const { cancel } of this.#open.values()) cancel()
    this.#open.clear()
    this.#reject(error)
  }
}
