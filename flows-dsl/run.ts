/** Knows how a run is carried out where effects are promises: the machine decides, this waits. */

import type { RunInfo } from './descriptors.ts'
import { FlowError } from './errors.ts'
import type { FlowIR, Json, JsonObject } from './ir.ts'
import type { Release } from './machine/hold.ts'
import { Machine, newState } from './machine/machine.ts'
import type { Patch } from './machine/patch.ts'
import type { Effect, RunResult } from './machine/state.ts'
import type { Command, Happening } from './machine/surroundings.ts'
import type { StepEvent, StepRef } from './tasks/task.ts'

export type { RunResult } from './machine/state.ts'

/** A function of the catalogue, or `http`, with arguments that hold no expressions any more. */
export interface CallRequest {
  readonly function: string
  readonly arguments: JsonObject
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
  record(event: StepEvent): void
  nowMs(): number
  /** From 0 to below 1, the same at each replay. */
  random(): number
  /**
   * Begins the work, which never rejects, before it answers. `cancel` makes every call and sleep that is pending
   * or begun within it reject. What is shielded is not cancelled with the run.
   */
  scope(work: () => Promise<void>, options?: { isShielded: boolean }): { cancel(): void }
  /** Whether that is how an effect of a run that is cancelled rejects: then it undoes what it must, and ends so. */
  isCancellation?(error: unknown): boolean
}

/**
 * Runs a flow to its end.
 * @returns its output, or the error it faulted with, `instance` filled in
 * @throws what an effect has thrown that is no FlowError
 */
export function runFlow(ir: FlowIR, input: Json, effects: Effects, info: RunInfo): Promise<RunResult> {
  return new Drive(ir, input, effects, info).toEnd()
}

/** Carries out commands and tells the machine what came of them, one after the other. */
export class Drive {
  readonly #effects: Effects
  readonly #machine: Machine
  readonly #open = new Map<number, { cancel(): void }>()
  #resolve: (result: RunResult) => void = () => {}
  #reject: (error: unknown) => void = () => {}
  #isCancelled = false
  #isHeld = false

  constructor(ir: FlowIR, input: Json, effects: Effects, info: RunInfo) {
    this.#effects = effects
    this.#machine = new Machine(ir, newState(ir, input, info), effects)
  }

  toEnd(): Promise<RunResult> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
      this.#carryOut(this.#machine.begin())
    })
  }

  /** A CloudEvent has come. */
  event(event: JsonObject): void {
    this.#turn(() => this.#carryOut(this.#machine.event(event)))
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
    this.#turn(() => this.#carryOut(this.#machine.release(step, decision)))
    return undefined
  }

  /** Somebody mends the data of the run. @returns why that is refused, if it is */
  patch(what: Patch): string | undefined {
    return this.#machine.patch(what)
  }

  /** Whether steps wait for somebody to decide about their errors. */
  get isHeld(): boolean {
    return this.#isHeld
  }

  get isCancelled(): boolean {
    return this.#isCancelled
  }

  /** Gives the run up; it undoes what it must and ends cancelled. */
  cancel(): void {
    this.#isCancelled = true
    this.#turn(() => this.#carryOut(this.#machine.cancel()))
  }

  #turn(work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#giveUp(error)
    }
  }

  #carryOut(commands: readonly Command[]): void {
    for (const command of commands) {
      const { id } = command
      if ('begin' in command) this.#begin(id, command.begin, command.step)
      else {
        this.#open.get(id)?.cancel()
        this.#open.delete(id)
      }
    }
    const { result } = this.#machine
    const isHeld = Object.keys(this.#machine.held()).length > 0
    if (isHeld !== this.#isHeld) this.#effects.held?.(isHeld)
    this.#isHeld = isHeld
    if (result !== undefined) this.#resolve(result)
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
    const scope = this.#effects.scope(work, { isShielded: this.#isCancelled })
    if (this.#open.has(id)) this.#open.set(id, scope)
  }

  async #do(effect: Effect, step: StepRef): Promise<Json> {
    if (effect.do === 'call') {
      return this.#effects.call({ function: effect.function, arguments: effect.arguments, step })
    }
    if (effect.do === 'await') return this.#effects.wait(effect.what, effect.details, step)
    const durationMs = Math.max(0, effect.untilMs - this.#effects.nowMs())
    await this.#effects.sleep(durationMs, step, { limits: effect.limits })
    return null
  }

  #tell(happening: Happening): void {
    if (!this.#open.delete(happening.id)) return
    this.#turn(() => this.#carryOut(this.#machine.happened(happening)))
  }

  /** What an effect has thrown that is no error of the flow. */
  #thrown(id: number, error: unknown): void {
    if (!this.#open.delete(id)) return
    if (this.#effects.isCancellation?.(error) === true) this.cancel()
    else this.#giveUp(error)
  }

  #giveUp(error: unknown): void {
    for (const { cancel } of this.#open.values()) cancel()
    this.#open.clear()
    this.#reject(error)
  }
}
