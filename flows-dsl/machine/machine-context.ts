/** The state that all parts of the machine share (frames, agenda, commands), and the interface that it offers to task types. */

import type { FlowIR, JsonObject, TaskNode } from '../ir.ts'
import { clip } from '../json.ts'
import { taskType } from '../tasks/index.ts'
import type { StepEvent, StepRef, TaskContext } from '../tasks/task.ts'
import { Evaluation } from './evaluation.ts'
import { Inbox } from './event-inbox.ts'
import { Frames } from './frames.ts'
import type { Command, Effect, EffectFrame, Frame, RunState, Surroundings, TaskFrame } from './state.ts'
import { Nodes } from './task-index.ts'

const SUMMARY_BYTES_MAX = 200

export class Desk {
  readonly ir: FlowIR
  readonly state: RunState
  readonly nodes: Nodes
  readonly frames: Frames
  readonly inbox: Inbox
  readonly evaluation: Evaluation
  readonly surroundings: Surroundings
  /** What is to be done before anything is awaited again; the last comes first. */
  readonly #agenda: (() => unknown)[] = []
  #commands: Command[] = []

  constructor(ir: FlowIR, state: RunState, surroundings: Surroundings) {
    this.ir = ir
    this.state = state
    this.surroundings = surroundings
    this.nodes = new Nodes(ir)
    this.frames = new Frames(state)
    this.inbox = new Inbox(state, this.frames)
    this.evaluation = new Evaluation(ir, state, this.frames, surroundings)
  }

  /** Does something, and all that comes of it until everything waits. @returns what the outside is to do */
  turn(work: () => void): Command[] {
    this.evaluation.refill()
    this.#commands = []
    work()
    for (let next = this.#agenda.pop(); next !== undefined; next = this.#agenda.pop()) next()
    return this.#commands
  }

  /** Before all that is on the agenda already, in this order. */
  soon(...works: readonly (() => unknown)[]): void {
    this.#agenda.push(...works.toReversed())
  }

  ask(at: { readonly parent: number; readonly key: string }, effect: Effect): void {
    this.#commands.push(this.beginning(this.frames.add<EffectFrame>({ ...at, is: 'effect', effect })))
  }

  /** The command that begins an effect. */
  beginning(frame: EffectFrame): Command {
    const { id, effect } = frame
    const task = this.frames.taskAbove(frame)
    const step = task === undefined ? this.#flowStep() : this.step(task)
    const what = effect.do === 'sleep' ? effect.summary : undefined
    const summary = what === undefined ? step.summary : clip(`${step.name}: ${what}`, SUMMARY_BYTES_MAX)
    return { begin: effect, id, step: { ...step, summary } }
  }

  /** A frame that nobody waits for any more leaves no trace but that it had begun. */
  drop(frame: Frame | undefined): void {
    if (frame === undefined) return
    for (const { id, effect } of this.frames.close(frame)) this.#commands.push({ cancel: effect.do, id })
  }

  dropBelow({ children }: Frame): void {
    for (const id of [...children]) this.drop(this.frames.get(id))
  }

  dropAll(): void {
    for (const frame of this.frames.tops()) this.drop(frame)
  }

  record(task: TaskFrame, what: Omit<StepEvent, 'step' | 'at_ms'>): void {
    this.surroundings.record({ step: this.step(task), at_ms: this.surroundings.nowMs(), ...what })
  }

  step(task: TaskFrame): StepRef {
    return this.stepAt({ ...task, ...this.frames.whereabouts(task) })
  }

  /** The same of a task that may have ended. */
  stepAt(entry: Pick<StepRef, 'pointer' | 'iteration' | 'place' | 'around'>): StepRef {
    const { pointer, iteration, place, around } = entry
    const { name, kind, body } = this.nodes.at(pointer)
    const summary = clip(`${name}: ${taskType(kind)?.summary(body) ?? kind}`, SUMMARY_BYTES_MAX)
    return { pointer, name, kind, iteration, place, around, summary }
  }

  #flowStep(): StepRef {
    const { name } = this.ir.document
    return { pointer: '', name, kind: 'flow', iteration: 0, place: '', around: '', summary: name }
  }
}

export function runningOf(desk: Desk, node: TaskNode, task: TaskFrame): TaskContext {
  const { state, ir, evaluation, surroundings } = desk
  const { input = null } = task
  // Made where it is asked for, and once: an event is shown to many tasks of which few look at it.
  let seen: JsonObject | undefined
  const variables = (more?: JsonObject): JsonObject => {
    seen ??= evaluation.of(task, { input, task: evaluation.about(node, task) })
    return more === undefined ? seen : { ...seen, ...more }
  }
  return {
    get step() {
      return desk.step(task)
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
    bounded: (value) => evaluation.bounded(value),
    checked: (schema, value, what) => evaluation.checked(schema, value, what),
    isSpent: () => evaluation.isSpent,
    digest: (shown) => {
      if (surroundings.digest === undefined) return {}
      const { id = null, version = null } = state.info.flow ?? {}
      const { context } = desk.frames.memoryOf(task)
      const data = { input, context, variables: desk.frames.variablesOf(task), given: state.input }
      return { digest: surroundings.digest({ shown, ...data, flow: { id, version } }) }
    },
    nowMs: () => surroundings.nowMs(),
    random: () => surroundings.random(),
    retried: () => desk.record(task, { phase: 'retried' }),
    early: (take) => desk.inbox.early(task, take),
  }
}
