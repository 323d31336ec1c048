/** The state that all parts of the machine share (state, frames, agenda, commands), and the interface that it offers to task types. */

import type { FlowIR, Json, JsonObject, TaskNode } from '../ir.ts'
import { clip } from '../json.ts'
import { taskType } from '../tasks/index.ts'
import type { StepEvent, StepRef, TaskContext } from '../tasks/task.ts'
import { Evaluation } from './evaluation.ts'
import { Inbox } from './event-inbox.ts'
import { Frames } from './frames.ts'
import type { Command, Effect, EffectFrame, Environment, FlowState, Frame, TaskFrame } from './state.ts'
import { TaskIndex } from './task-index.ts'
import { keepCallsBelow } from './unsettled-calls.ts'

const SUMMARY_BYTES_MAX = 200
/** Tasks that are entered before the execution pauses: about 0.1 s of work, and less than the time limit of an activation on a busy machine. */
const SLICE_TASKS_MAX = 1_000

export class MachineContext {
  readonly ir: FlowIR
  readonly state: FlowState
  readonly nodes: TaskIndex
  readonly frames: Frames
  readonly inbox: Inbox
  readonly evaluation: Evaluation
  readonly environment: Environment
  /** How many tasks were entered in this turn, and since the last pause. */
  enteredInTurn = 0
  enteredInSlice = 0
  /** A stack of work that runs before the machine waits again; the last entry runs first. */
  readonly #agenda: (() => unknown)[] = []
  #commands: Command[] = []

  constructor(ir: FlowIR, state: FlowState, environment: Environment) {
    this.ir = ir
    this.state = state
    this.environment = environment
    this.nodes = new TaskIndex(ir)
    this.frames = new Frames(state)
    this.inbox = new Inbox(state, this.frames)
    this.evaluation = new Evaluation(ir, state, this.frames, environment)
  }

  /**
   * Runs `work` and everything it schedules, until all tasks wait or a pause is due.
   * @returns the commands for the driver, in order
   */
  run(work: () => void): Command[] {
    if (!this.isBusy) {
      this.evaluation.resetBudget()
      this.enteredInTurn = 0
    }
    this.#commands = []
    work()
    this.#runAgenda()
    return this.#commands
  }

  /** Goes on after a pause. @param isOpen the execution has not ended */
  resume(isOpen: boolean): Command[] {
    this.enteredInSlice = 0
    this.#commands = []
    if (isOpen) this.#runAgenda()
    return this.#commands
  }

  /** True if a turn has not ended: it goes on after a pause. */
  get isBusy(): boolean {
    return this.#agenda.length > 0
  }

  /** True if so many tasks were entered that others need the thread. Counted, not measured, so it is the same in each replay. */
  get isPauseDue(): boolean {
    return this.enteredInSlice >= SLICE_TASKS_MAX
  }

  #runAgenda(): void {
    while (!this.isPauseDue) {
      const next = this.#agenda.pop()
      if (next === undefined) return
      next()
    }
  }

  /** Puts work, in this order, before all that is on the agenda already. */
  scheduleNext(...works: readonly (() => unknown)[]): void {
    this.#agenda.push(...works.toReversed())
  }

  startEffect(at: { readonly parent: number; readonly key: string }, effect: Effect): void {
    this.#commands.push(this.startCommand(this.frames.add<EffectFrame>({ ...at, is: 'effect', effect })))
  }

  /** The command that starts an effect. */
  startCommand(frame: EffectFrame): Command {
    const { id, effect } = frame
    const task = this.frames.enclosingTask(frame)
    const step = task === undefined ? this.#flowStep() : this.step(task)
    const what = effect.do === 'sleep' ? effect.summary : undefined
    const summary = what === undefined ? step.summary : clip(`${step.name}: ${what}`, SUMMARY_BYTES_MAX)
    return { begin: effect, id, step: { ...step, summary } }
  }

  /**
   * Closes a frame that is no longer needed, and cancels the effects below it.
   * @param owner see {@link keepCallsBelow}
   */
  cancelFrame(frame: Frame | undefined, owner?: TaskFrame): void {
    if (frame === undefined) return
    keepCallsBelow(this, frame, owner)
    const { unsettled = {} } = this.state
    for (const { id, effect } of this.frames.close(frame)) {
      const settles = unsettled[id] === undefined ? {} : ({ settles: true } as const)
      this.#commands.push({ cancel: effect.do, id, ...settles })
    }
  }

  /** Cancels what a task has started; the step of the task itself is recorded by the caller. */
  cancelChildren(task: TaskFrame): void {
    for (const id of [...task.children]) this.cancelFrame(this.frames.get(id), task)
  }

  /** Closes everything, also what was scheduled before a pause and has not begun, such as handlers. */
  cancelAll(): void {
    this.#agenda.length = 0
    for (const frame of this.frames.roots()) this.cancelFrame(frame)
  }

  record(task: TaskFrame, what: Omit<StepEvent, 'step' | 'at_ms'>): void {
    this.recordAt({ ...task, ...this.frames.locate(task), input: task.input ?? task.raw }, what)
  }

  /** The same for a task that has been cancelled. */
  recordAt(
    entry: Parameters<MachineContext['stepAt']>[0] & { readonly input: Json },
    what: Omit<StepEvent, 'step' | 'at_ms'>,
  ): void {
    const { environment } = this
    environment.record({
      step: this.stepAt(entry),
      at_ms: environment.nowMs(),
      input: entry.input,
      ...what,
    })
  }

  step(task: TaskFrame): StepRef {
    return this.stepAt({ ...task, ...this.frames.locate(task) })
  }

  /** The same for a task that may have ended. */
  stepAt(
    entry: Pick<StepRef, 'pointer' | 'iteration' | 'path' | 'breadcrumbs'> & { callPath?: string },
  ): StepRef {
    const { pointer, iteration, path, breadcrumbs, callPath = path } = entry
    const { name, kind, body } = this.nodes.at(pointer)
    const summary = clip(`${name}: ${taskType(kind)?.summary(body) ?? kind}`, SUMMARY_BYTES_MAX)
    return { pointer, name, kind, iteration, path, callPath, breadcrumbs, summary }
  }

  #flowStep(): StepRef {
    const { name } = this.ir.document
    return {
      pointer: '',
      name,
      kind: 'flow',
      iteration: 0,
      path: '',
      callPath: '',
      breadcrumbs: '',
      summary: name,
    }
  }
}

export function taskContextOf(machine: MachineContext, node: TaskNode, task: TaskFrame): TaskContext {
  const { state, ir, evaluation, environment } = machine
  const { input = null } = task
  // Built on first use and once: an event is offered to many tasks, few of which evaluate anything.
  let base: JsonObject | undefined
  const variables = (more?: JsonObject): JsonObject => {
    base ??= evaluation.variablesOf(task, { input, task: evaluation.taskDescriptor(node, task) })
    return more === undefined ? base : { ...base, ...more }
  }
  return {
    get step() {
      return machine.step(task)
    },
    input,
    run: {
      id: state.info.id,
      document: ir.document,
      ...(state.info.started_by !== undefined && { startedBy: state.info.started_by }),
      changedBy: state.changedBy ?? [],
    },
    evaluate: (template, dot, more) => evaluation.filter(template, dot, variables(more)),
    test: (condition, dot, more) => evaluation.test(condition, dot, variables(more)),
    checkSize: (value) => evaluation.checkSize(value),
    validate: (schema, value, what) => evaluation.validate(schema, value, what),
    isBudgetExhausted: () => evaluation.isBudgetExhausted,
    digest: (shown) => {
      if (environment.digest === undefined) return {}
      const { id = null, version = null } = state.info.flow ?? {}
      const { context } = machine.frames.branchContextOf(task)
      const data = { input, context, variables: machine.frames.variablesOf(task), given: state.input }
      return { digest: environment.digest({ shown, ...data, flow: { id, version } }) }
    },
    nowMs: () => environment.nowMs(),
    random: () => environment.random(),
    recordRetry: () => machine.record(task, { phase: 'retried' }),
    takeBuffered: (take) => machine.inbox.offerBuffered(task, take),
  }
}
