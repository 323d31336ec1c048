/** Runs one task: `if`, its data pipeline, the moves of its type, its end (OWS 1.0 "Data Flow"). */

import { durationText, millisecondsOf } from '../compile/duration.ts'
import { ERRORS, FinalError, FlowError } from '../errors.ts'
import type { Json, TaskNode } from '../ir.ts'
import type { Done, Ended, Message, Move } from '../tasks/task.ts'
import { type At, Children, Extensions, Lists } from './children.ts'
import { hold, isHeld, type Release } from './data-patch.ts'
import { type Desk, runningOf } from './machine-context.ts'
import type { Frame, TaskFrame, Undo } from './state.ts'
import { typeOf } from './task-index.ts'

const RUN_STEPS_MAX = 10_000
/** The one child that belongs to the machine and not to the kind of task. */
const TIMEOUT = '$timeout'

/** Hears of what nobody within the flow waits for. */
interface Top {
  ended(ended: Ended): void
  failed(key: string, error: FlowError): void
  completed(undo: Undo): void
}

export class Tasks {
  readonly lists: Lists
  readonly #desk: Desk
  readonly #top: Top
  readonly #children: Children
  readonly #extensions: Extensions

  constructor(desk: Desk, top: Top) {
    this.#desk = desk
    this.#top = top
    const enter = (node: TaskNode, at: At) => this.#enter(node, at)
    this.lists = new Lists(desk, { enter, ended: (list, how) => this.ended(list, how) })
    this.#children = new Children(desk, this.lists, enter)
    this.#extensions = new Extensions(desk, this.#children, {
      start: (node, task) => this.#start(node, task),
      complete: (node, task, done) => this.#complete(node, task, done),
    })
  }

  /** A frame, which is closed already, has ended: whoever waits for it goes on. */
  ended(frame: Frame, how: Omit<Ended, 'key'>): void {
    const { memory, key, parent } = frame
    const context = memory?.isExported ? { context: memory.context } : {}
    const ended: Ended = { key, ...how, ...context }
    const task = this.#desk.frames.get(parent)
    if (task?.is !== 'task') {
      this.#top.ended(ended)
      return
    }
    const node = this.#desk.nodes.at(task.pointer)
    this.#attempt(task, () => {
      if (key === TIMEOUT) throw tookTooLong(node)
      if (task.extension !== undefined) return this.#extensions.ended(node, task, ended)
      const move = typeOf(node).next?.(node.body, task.own, ended, runningOf(this.#desk, node, task))
      if (move !== undefined) this.#move(node, task, move)
    })
  }

  /** A frame, which is closed already, has faulted. */
  failed(frame: Frame, error: FlowError): void {
    const { key, parent } = frame
    const above = this.#desk.frames.get(parent)
    if (above?.is === 'list') {
      this.#desk.frames.close(above)
      this.failed(above, error)
      return
    }
    if (above?.is !== 'task') {
      this.#top.failed(key, error)
      return
    }
    const node = this.#desk.nodes.at(above.pointer)
    this.#attempt(above, () => {
      const type = typeOf(node)
      if (type.failed === undefined || error instanceof FinalError || above.extension !== undefined)
        throw error
      this.#move(
        node,
        above,
        type.failed(node.body, above.own, { key, error }, runningOf(this.#desk, node, above)),
      )
    })
  }

  /** Says something to a task that waits. @returns whether it was heard, or why it was refused */
  told(task: TaskFrame, message: Message): boolean | string {
    const node = this.#desk.nodes.at(task.pointer)
    const type = typeOf(node)
    if (type.told === undefined || task.extension !== undefined || task.held !== undefined) return false
    // An error that comes of it is one of the task, which has heard.
    let heard: boolean | string = true
    this.#attempt(task, () => {
      const answer = type.told?.(node.body, task.own, message, runningOf(this.#desk, node, task))
      heard = typeof answer === 'string' ? answer : answer !== undefined
      if (answer !== undefined && typeof answer !== 'string') this.#move(node, task, answer)
    })
    return heard
  }

  #enter(node: TaskNode, at: At): void {
    const { state, frames, surroundings } = this.#desk
    const { pointer } = node
    const iteration = state.entered[pointer] ?? 0
    state.entered[pointer] = iteration + 1
    const startedMs = surroundings.nowMs()
    const frame = { ...at, is: 'task', pointer, iteration, startedMs, own: null } as const
    const task = frames.add<TaskFrame>(frame)
    this.#attempt(task, () => {
      state.steps += 1
      const { stepsMax = RUN_STEPS_MAX } = state.info
      if (state.steps > stepsMax) throw endless(stepsMax, pointer)
      if (!this.#isWanted(node, task)) return this.#skip(task)
      this.#desk.record(task, { phase: 'started' })
      this.#begin(node, task)
    })
  }

  #begin(node: TaskNode, task: TaskFrame): void {
    const { evaluation } = this.#desk
    const variables = evaluation.of(task, { task: evaluation.about(node, task) })
    const raw = evaluation.checked(node.input?.schema, task.raw, 'The input')
    task.input = evaluation.filter(node.input?.from, raw, variables)
    this.#extensions.begin(node, task)
  }

  #isWanted(node: TaskNode, task: TaskFrame): boolean {
    if (node.if === undefined) return true
    const { evaluation } = this.#desk
    const about = { input: task.raw, task: evaluation.about(node, task) }
    return evaluation.test(node.if, task.raw, evaluation.of(task, about))
  }

  #skip(task: TaskFrame): void {
    this.#desk.record(task, { phase: 'skipped' })
    this.#desk.frames.close(task)
    this.#yielded(task, task.raw, 'continue')
  }

  #start(node: TaskNode, task: TaskFrame): void {
    const move = typeOf(node).start(node.body, runningOf(this.#desk, node, task))
    const timeoutMs = this.#limitOf(node, task)
    if (timeoutMs !== undefined && !('done' in move)) {
      const summary = `at most ${durationText(timeoutMs)}`
      this.#children.plan(task, [{ key: TIMEOUT, sleepMs: timeoutMs, limits: true, summary }])
    }
    this.#move(node, task, move)
  }

  #limitOf(node: TaskNode, task: TaskFrame): number | undefined {
    const { timeoutMs } = node
    if (timeoutMs === undefined || typeof timeoutMs === 'number') return timeoutMs
    const { input = null } = task
    const { evaluation } = this.#desk
    const variables = evaluation.of(task, { input, task: evaluation.about(node, task) })
    const durationMs = millisecondsOf(evaluation.filter(timeoutMs, input, variables))
    if (durationMs !== undefined) return durationMs
    throw new FlowError(ERRORS.expression, '`timeout` must yield a duration, at least 1 millisecond.')
  }

  #move(node: TaskNode, task: TaskFrame, move: Move): void {
    if ('done' in move) {
      this.#desk.dropBelow(task)
      this.#extensions.end(node, task, move)
      return
    }
    task.own = move.own
    for (const key of move.drop ?? []) this.#children.giveUp(task, key)
    this.#children.plan(task, move.begin ?? [])
  }

  /** `output.as` → `export.as` → `then`. */
  #complete(node: TaskNode, task: TaskFrame, { done, next, context, took, agreed }: Done): void {
    const { evaluation, frames } = this.#desk
    const { input = null, iteration, pointer } = task
    const memory = frames.memoryOf(task)
    if (context !== undefined) Object.assign(memory, { context, isExported: true })
    const variables = evaluation.of(task, { input, task: { ...evaluation.about(node, task), output: done } })
    const filtered = evaluation.filter(node.output?.as, done, variables)
    const output = evaluation.checked(node.output?.schema, filtered, 'The output')
    if (node.export !== undefined) {
      const exported = evaluation.filter(node.export.as, output, { ...variables, output })
      evaluation.checked(node.export.schema, exported, 'What is exported')
      Object.assign(memory, { context: exported, isExported: true })
    }
    const answer = typeOf(node).isAnswered ? { answer: done } : {}
    this.#desk.record(task, { phase: 'completed', output, ...answer, ...(took !== undefined && { took }) })
    if (agreed !== undefined) this.#agreed(task, agreed)
    if (node.compensate !== undefined) {
      const seen = { variables: frames.variablesOf(task), context: memory.context }
      this.#top.completed({ pointer, iteration, data: { input, output }, ...seen })
    }
    this.#desk.drop(task)
    this.#yielded(task, output, next ?? node.next ?? 'continue')
  }

  /** An approval was given. */
  #agreed(task: TaskFrame, approvers: readonly string[]): void {
    const { state, frames } = this.#desk
    const { pointer, iteration } = task
    state.agreed ??= []
    state.agreed.push({ pointer, iteration, ...frames.whereabouts(task), approvers })
  }

  /** A task, which is closed already, has yielded: the list it stands in goes on, or the task whose branch it is. */
  #yielded(task: TaskFrame, output: Json, next: string): void {
    const above = this.#desk.frames.get(task.parent)
    if (above?.is === 'list') {
      this.lists.follow(above, output, next)
      return
    }
    this.ended(task, { output, ...((next === 'exit' || next === 'end') && { left: next }) })
  }

  /** Does something for a task; an error of the flow faults it, or it is held. */
  #attempt(task: TaskFrame, work: () => void): void {
    try {
      work()
    } catch (error) {
      if (!(error instanceof FlowError)) throw error
      const placed = error.at(task.pointer)
      this.#desk.dropBelow(task)
      if (isHeld(this.#desk, task, placed)) hold(this.#desk, task, placed)
      else this.#fault(task, placed)
    }
  }

  #fault(task: TaskFrame, error: FlowError): void {
    this.#desk.record(task, { phase: 'faulted', error: error.toObject() })
    this.#desk.drop(task)
    this.failed(task, error)
  }

  /** Goes on with a task that is held, as somebody has decided. */
  release(task: TaskFrame, decision: Release): void {
    const { held } = task
    if (held === undefined) return
    delete task.held
    const node = this.#desk.nodes.at(task.pointer)
    if ('skip' in decision) {
      this.#desk.record(task, { phase: 'skipped', output: decision.skip })
      this.#desk.drop(task)
      this.#yielded(task, decision.skip, node.next ?? 'continue')
    } else if ('retry' in decision) {
      this.#desk.record(task, { phase: 'retried' })
      this.#attempt(task, () => this.#begin(node, task))
    } else this.#fault(task, FlowError.from(held))
  }
}

function endless(stepsMax: number, pointer: string): FinalError {
  const detail = `The run has entered more than ${stepsMax} tasks; does \`then\` lead in a circle?`
  return new FinalError(ERRORS.runtime, detail, pointer)
}

function tookTooLong({ timeoutMs = 0, pointer }: TaskNode): FlowError {
  const limit = typeof timeoutMs === 'number' ? durationText(timeoutMs) : 'its timeout'
  return new FlowError(ERRORS.timeout, `It took longer than ${limit}.`, pointer)
}
