/**
 * Runs a compiled flow as a state machine: an event in a state leads to another state and to commands. Nothing is
 * awaited.
 */

import { durationText } from '../compile/duration.ts'
import { ERRORS, type ErrorObject, FinalError, FlowError } from '../errors.ts'
import type { FlowIR, Json, JsonObject, RunInfo } from '../ir.ts'
import type { Ended } from '../tasks/task.ts'
import { Approvals } from './approvals.ts'
import { Undoing } from './compensation.ts'
import type { Release } from './data-patch.ts'
import { type Patch, patch } from './data-patch.ts'
import { Desk } from './machine-context.ts'
import type { Command, Happening, RunResult, RunState, Surroundings } from './state.ts'
import { Tasks } from './task-lifecycle.ts'

/** Rules that this folder knows. What changes the meaning of a flow makes a new number; runs keep the one they have. */
const SEMANTICS: readonly number[] = [1]

/** The state of a run that has not begun. */
export function newState({ semantics }: FlowIR, input: Json, info: RunInfo): RunState {
  const nothing = { frames: {}, nextId: 1, steps: 0, entered: {}, events: [], heard: [], undos: [] }
  return { snapshot: 1, semantics, info, input, ...nothing }
}

/** One run of one flow. The state it is given is its own from then on, and changes in place. */
export class Machine {
  readonly #desk: Desk
  readonly #tasks: Tasks
  readonly #undoing: Undoing
  readonly #approvals: Approvals

  /** @throws FlowError (configuration) where the state is of a run by other rules */
  constructor(ir: FlowIR, state: RunState, surroundings: Surroundings) {
    if (!SEMANTICS.includes(state.semantics)) {
      throw new FlowError(ERRORS.configuration, `Runs of semantics ${state.semantics} are not run here.`)
    }
    this.#desk = new Desk(ir, state, surroundings)
    this.#tasks = new Tasks(this.#desk, {
      ended: (ended) => this.#ended(ended),
      failed: (key, error) => this.#failed(key, error),
      completed: (undo) => this.#undoing.note(undo),
    })
    this.#undoing = new Undoing(this.#desk, this.#tasks.lists, (result) => this.#end(result))
    this.#approvals = new Approvals(this.#desk, (error) => this.#rejected(error))
  }

  /** Plain JSON; of this moment, if it is copied. */
  get state(): RunState {
    return this.#desk.state
  }

  /** How it has ended. One that has come to its end on data that wait for an approval has not. */
  get result(): RunResult | undefined {
    return this.isAskedAgain ? undefined : this.state.result
  }

  /** Whether nothing may begin until an approval is given again. */
  get isAskedAgain(): boolean {
    return this.#approvals.isAskedAgain
  }

  /** Steps that expressions have taken so far. */
  get spent(): number {
    return this.#desk.evaluation.spent
  }

  /** Nothing of the flow goes on any more; what is to be undone may. */
  get #isOver(): boolean {
    return this.result !== undefined || this.state.undoing !== undefined
  }

  /** Begins the run. @returns what is to be done */
  begin(): Command[] {
    const { evaluation, ir } = this.#desk
    return this.#desk.turn(() => {
      const memory = { context: {}, isExported: false }
      this.#desk.soon(() => this.#limit())
      this.#placed('/input/schema', () => evaluation.checked(ir.input?.schema, this.state.input, 'The input'))
      if (this.#isOver) return
      this.#placed('/input/from', () => {
        const data = evaluation.filter(ir.input?.from, this.state.input, evaluation.ofFlow({}))
        const list = { parent: 0, key: 'flow', of: '', list: 'do', data, memory }
        this.#desk.soon(() => this.#tasks.lists.open(list))
      })
    })
  }

  /** An effect has ended. What nobody waits for any more changes nothing. @returns what is to be done */
  happened(happening: Happening): Command[] {
    return this.#desk.turn(() => {
      const frame = this.#desk.frames.get(happening.id)
      if (frame?.is !== 'effect') return
      this.#desk.frames.close(frame)
      if ('error' in happening) this.#tasks.failed(frame, happening.error)
      else this.#tasks.ended(frame, { output: happening.output })
    })
  }

  /** Gives the run up; what was completed and can be undone is undone first. @returns what is to be done */
  cancel(): Command[] {
    return this.#desk.turn(() => {
      if (this.#isOver) return
      delete this.state.result
      this.#desk.dropAll()
      this.#undoing.begin({ cancelled: true })
    })
  }

  /**
   * A CloudEvent has come. Every task that waits for such takes it; it is kept for those that begin to wait later and
   * may take it too. One that has come before, by `source` and `id`, changes nothing. @returns what is to be done
   */
  event(event: JsonObject): Command[] {
    return this.#desk.turn(() => {
      const { inbox, evaluation } = this.#desk
      if (this.result !== undefined || !inbox.isNew(event)) return
      inbox.offer(event, (task) => {
        evaluation.share()
        return this.#tasks.told(task, { event }) === true
      })
    })
  }

  /**
   * Somebody has decided something for a step that waits for it, by `pointer#iteration`.
   * @returns what is to be done, and why the decision is refused, if it is
   */
  decide(step: string, decision: JsonObject): { readonly commands: Command[]; readonly refused?: string } {
    const answers: (boolean | string)[] = []
    const commands = this.#desk.turn(() => {
      const again = this.#approvals.decide(step, decision)
      if (again !== undefined) {
        answers.push(again.refused ?? true)
        return
      }
      const task = this.#desk.frames.entry(step)
      if (task !== undefined) answers.push(this.#tasks.told(task, { decision }))
    })
    const [answer = false] = answers
    if (answer === true) return { commands }
    return { commands, refused: answer === false ? 'Nothing waits for a decision there.' : answer }
  }

  /** The steps that wait for somebody to decide about their errors, by `pointer#iteration`. */
  held(): Record<string, ErrorObject> {
    const held = this.#desk.frames.tasks().filter((task) => task.held !== undefined)
    return Object.fromEntries(
      held.map(({ pointer, iteration, held: error }) => [`${pointer}#${iteration}`, error as ErrorObject]),
    )
  }

  /** Goes on with a step that is held; one that is not changes nothing. @returns what is to be done */
  release(step: string, decision: Release): Command[] {
    return this.#desk.turn(() => {
      const task = this.#desk.frames.entry(step)
      if (task !== undefined) this.#tasks.release(task, decision)
    })
  }

  /** Prepares that a held step goes on with an output by hand. @returns why that is refused, if it is */
  supply(step: string, by: string | undefined): string | undefined {
    const task = this.#desk.frames.entry(step)
    if (task !== undefined && this.#desk.nodes.at(task.pointer).kind === 'approve')
      return 'An approval is decided by those who may, not skipped: retry the step, or cancel the execution.'
    let refused: string | undefined
    this.#desk.turn(() => {
      refused = this.#approvals.changed(by)
    })
    return refused
  }

  /**
   * Changes what the tasks that come will see: `$context`, and what a step that is held gets when it is tried again.
   * @returns why it is refused, if it is; nothing is changed then
   */
  patch(what: Patch): string | undefined {
    let refused: string | undefined
    this.#desk.turn(() => {
      refused = patch(this.#desk, what, () => this.#approvals.changed(what.by))
    })
    return refused
  }

  /** Time for which nothing may go on does not count for what limits other work. @param durationMs of that time */
  postpone(durationMs: number): void {
    for (const frame of Object.values(this.state.frames)) {
      if (frame.is === 'effect' && frame.effect.do === 'sleep' && frame.effect.limits)
        frame.effect.untilMs += durationMs
    }
  }

  /** The effects that are open: what a run that goes on elsewhere has to begin again. */
  pending(): Command[] {
    const open = Object.values(this.state.frames).filter((frame) => frame.is === 'effect')
    return open.map((frame) => this.#desk.beginning(frame))
  }

  /** A flow's own limit cannot be caught, nor put off. */
  #limit(): void {
    const { timeoutMs } = this.#desk.ir
    if (timeoutMs === undefined || this.#isOver) return
    const untilMs = this.#desk.surroundings.nowMs() + timeoutMs
    const summary = `at most ${durationText(timeoutMs)}`
    this.#desk.ask({ parent: 0, key: 'timeout' }, { do: 'sleep', untilMs, limits: true, summary })
  }

  #ended(ended: Ended): void {
    if (ended.key === 'flow') this.#completed(ended)
    else if (ended.key === 'timeout') this.#failed('flow', tookTooLong(this.#desk.ir))
    else this.#undoing.next(ended.key)
  }

  #failed(key: string, error: FlowError): void {
    if (key !== 'flow') {
      this.#undoing.failed(error)
      return
    }
    this.#desk.dropAll()
    this.#undoing.begin({ error: error.toObject() })
  }

  #completed({ output, context = {} }: Ended): void {
    const { evaluation, ir } = this.#desk
    this.#placed('/output/as', () => {
      const result = evaluation.filter(ir.output?.as, output, evaluation.ofFlow(context))
      this.#placed('/output/schema', () => {
        evaluation.checked(ir.output?.schema, result, 'The output')
        this.#end({ status: 'completed', output: result })
      })
    })
  }

  /** Does something of the flow's own; an error there has the place. */
  #placed(instance: string, work: () => unknown): void {
    try {
      work()
    } catch (error) {
      if (!(error instanceof FlowError)) throw error
      this.#failed('flow', error.at(instance))
    }
  }

  /** An approval that was asked for again: also where the run had come to its end meanwhile. */
  #rejected(error: FlowError): void {
    delete this.state.result
    this.#failed('flow', error)
  }

  #end(result: RunResult): void {
    this.#desk.dropAll()
    this.state.result = result
  }
}

function tookTooLong({ timeoutMs = 0 }: FlowIR): FinalError {
  return new FinalError(ERRORS.timeout, `The flow took longer than ${durationText(timeoutMs)}.`, '/timeout')
}
