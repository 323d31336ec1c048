/** Runs one task: `if`, its data pipeline, the transitions of its type, its end (OWS 1.0 "Data Flow"). */

import { durationOf, durationText } from '../compile/duration.ts'
import { ERRORS, FinalError, FlowError, OUTCOME_UNKNOWN } from '../errors.ts'
import type { Json, TaskNode } from '../ir.ts'
import type { Child, ChildResult, Message, TaskResult, Transition } from '../tasks/task.ts'
import { Children, Extensions, Lists, type TaskEntry } from './children.ts'
import { type HeldDecision, holdTask, shouldHold } from './data-patch.ts'
import { type MachineContext, taskContextOf } from './machine-context.ts'
import type { CompletedTask, FlowState, Frame, TaskFrame } from './state.ts'
import { typeOf } from './task-index.ts'
import { hasOpenCall } from './unsettled-calls.ts'

const RUN_STEPS_MAX = 10_000
/** A turn has the thread of all tenants, so `limits.tasks` does not raise this. */
const TURN_STEPS_MAX = RUN_STEPS_MAX
/** Key of the child that the machine itself adds to a task: its timer. */
const TIMEOUT = '$timeout'

/** Handles the end of frames without a parent, and completed tasks that can be compensated. */
interface MachineEvents {
  ended(ended: ChildResult): void
  /** @param context `$context` of the frame, if it has its own */
  failed(key: string, error: FlowError, context?: Json): void
  completed(undo: CompletedTask): void
}

export class Tasks {
  readonly lists: Lists
  readonly #machine: MachineContext
  readonly #events: MachineEvents
  readonly #children: Children
  readonly #extensions: Extensions

  constructor(machine: MachineContext, events: MachineEvents) {
    this.#machine = machine
    this.#events = events
    const enter = (node: TaskNode, at: TaskEntry) => this.#enter(node, at)
    this.lists = new Lists(machine, { enter, ended: (list, how) => this.ended(list, how) })
    this.#children = new Children(machine, this.lists, enter)
    this.#extensions = new Extensions(machine, this.#children, {
      start: (node, task) => this.#start(node, task),
      complete: (node, task, done) => this.#complete(node, task, done),
    })
  }

  /** Passes the result of a frame, which is closed already, to its parent. */
  ended(frame: Frame, how: Omit<ChildResult, 'key'>): void {
    const { branchContext: memory, key, parent } = frame
    const context = memory?.isExported ? { context: memory.context } : {}
    const ended: ChildResult = { key, ...how, ...context }
    const task = this.#machine.frames.get(parent)
    if (task?.is !== 'task') {
      this.#events.ended(ended)
      return
    }
    const node = this.#machine.nodes.at(task.pointer)
    this.#attempt(task, () => {
      if (key === TIMEOUT) throw tookTooLong(node, hasOpenCall(this.#machine, task))
      if (task.extension !== undefined) return this.#extensions.ended(node, task, ended)
      const move = typeOf(node).onChildEnd?.(
        node.body,
        task.taskState,
        ended,
        taskContextOf(this.#machine, node, task),
      )
      if (move !== undefined) this.#move(node, task, move)
    })
  }

  /** Passes the error of a frame, which is closed already, to its parent. */
  failed(frame: Frame, error: FlowError): void {
    const { key, parent } = frame
    const above = this.#machine.frames.get(parent)
    if (above?.is === 'list') {
      this.#machine.frames.close(above)
      this.failed(above, error)
      return
    }
    if (above?.is !== 'task') {
      this.#events.failed(key, error, frame.branchContext?.context)
      return
    }
    const node = this.#machine.nodes.at(above.pointer)
    this.#attempt(above, () => {
      const type = typeOf(node)
      if (type.onChildError === undefined || error instanceof FinalError || above.extension !== undefined)
        throw error
      this.#move(
        node,
        above,
        type.onChildError(
          node.body,
          above.taskState,
          { key, error },
          taskContextOf(this.#machine, node, above),
        ),
      )
    })
  }

  /** Delivers a message to a task that waits. @returns whether it was consumed, or why it was rejected */
  deliver(task: TaskFrame, message: Message): boolean | string {
    const node = this.#machine.nodes.at(task.pointer)
    const type = typeOf(node)
    if (type.onMessage === undefined || task.extension !== undefined || task.held !== undefined) return false
    // If the task faults with the message, it has consumed it.
    let outcome: boolean | string = true
    this.#attempt(task, () => {
      const answer = type.onMessage?.(
        node.body,
        task.taskState,
        message,
        taskContextOf(this.#machine, node, task),
      )
      outcome = typeof answer === 'string' ? answer : answer !== undefined
      if (answer !== undefined && typeof answer !== 'string') this.#move(node, task, answer)
    })
    return outcome
  }

  #enter(node: TaskNode, at: TaskEntry): void {
    const { ir, state, frames, environment } = this.#machine
    const { pointer } = node
    const iteration = state.entered[pointer] ?? 0
    state.entered[pointer] = iteration + 1
    const startedMs = environment.nowMs()
    const frame = { ...at, is: 'task', pointer, iteration, startedMs, taskState: null } as const
    const task = frames.add<TaskFrame>(frame)
    this.#attempt(task, () => {
      state.steps += 1
      this.#machine.enteredInTurn += 1
      this.#machine.enteredInSlice += 1
      const stepsMax = state.info.stepsMax ?? ir.limits?.tasks ?? RUN_STEPS_MAX
      if (state.steps > stepsMax) throw tooManySteps(stepsMax, state.entered, pointer)
      if (this.#machine.enteredInTurn > TURN_STEPS_MAX) throw tooManyAtOnce(pointer)
      if (!this.#matchesIf(node, task)) return this.#skip(task)
      this.#machine.record(task, { phase: 'started' })
      this.#begin(node, task)
    })
  }

  #begin(node: TaskNode, task: TaskFrame): void {
    const { evaluation } = this.#machine
    const variables = evaluation.variablesOf(task, { task: evaluation.taskDescriptor(node, task) })
    const raw = evaluation.validate(node.input?.schema, task.raw, 'The input')
    task.input = evaluation.checkStorable(evaluation.filter(node.input?.from, raw, variables), 'The input')
    this.#extensions.begin(node, task)
  }

  #matchesIf(node: TaskNode, task: TaskFrame): boolean {
    if (node.if === undefined) return true
    const { evaluation } = this.#machine
    const about = { input: task.raw, task: evaluation.taskDescriptor(node, task) }
    return evaluation.test(node.if, task.raw, evaluation.variablesOf(task, about))
  }

  #skip(task: TaskFrame): void {
    this.#machine.record(task, { phase: 'skipped' })
    this.#machine.frames.close(task)
    this.#proceed(task, task.raw, 'continue')
  }

  #start(node: TaskNode, task: TaskFrame): void {
    const move = typeOf(node).start(node.body, taskContextOf(this.#machine, node, task))
    const timeoutMs = this.#timeoutOf(node, task)
    if (timeoutMs !== undefined && !('done' in move)) {
      const summary = `at most ${durationText(timeoutMs)}`
      this.#children.plan(task, [{ key: TIMEOUT, sleepMs: timeoutMs, limits: true, summary }])
    }
    this.#move(node, task, timeoutMs === undefined ? move : withTimeout(move, timeoutMs))
  }

  #timeoutOf(node: TaskNode, task: TaskFrame): number | undefined {
    const { timeoutMs } = node
    if (timeoutMs === undefined || typeof timeoutMs === 'number') return timeoutMs
    const { input = null } = task
    const { evaluation } = this.#machine
    const variables = evaluation.variablesOf(task, { input, task: evaluation.taskDescriptor(node, task) })
    return durationOf(timeoutMs, '`timeout.after`', 1, (template) =>
      evaluation.filter(template, input, variables),
    )
  }

  #move(node: TaskNode, task: TaskFrame, move: Transition): void {
    if ('done' in move) {
      this.#machine.cancelChildren(task)
      this.#extensions.end(node, task, move)
      return
    }
    for (const child of move.start ?? []) this.#checkRequest(child)
    task.taskState = move.taskState
    for (const key of move.cancel ?? []) this.#children.cancel(task, key)
    this.#children.plan(task, move.start ?? [])
  }

  /** The record shows what a task asks of its environment. @throws FlowError (validation) if it cannot be stored */
  #checkRequest(child: Child): void {
    if ('call' in child) this.#machine.evaluation.checkStorable(child.arguments, 'The arguments of the call')
    else if ('await' in child)
      this.#machine.evaluation.checkStorable(child.details, 'The request of the task')
  }

  /** `output.as` → `export.as` → `then`. */
  #complete(node: TaskNode, task: TaskFrame, { done, next, context, took, approvers }: TaskResult): void {
    const { evaluation, frames } = this.#machine
    const { input = null, iteration, pointer } = task
    const memory = frames.branchContextOf(task)
    if (context !== undefined) Object.assign(memory, { context, isExported: true })
    const variables = evaluation.variablesOf(task, {
      input,
      task: { ...evaluation.taskDescriptor(node, task), output: done },
    })
    const filtered = evaluation.filter(node.output?.as, done, variables)
    const output = evaluation.validate(node.output?.schema, filtered, 'The output')
    evaluation.checkStorable(output, 'The output')
    if (node.export !== undefined) {
      const exported = evaluation.filter(node.export.as, output, { ...variables, output })
      evaluation.validate(node.export.schema, exported, 'The exported value')
      evaluation.checkStorable(exported, 'The exported value')
      Object.assign(memory, { context: exported, isExported: true })
    }
    const answer = typeOf(node).returnsEffectResult ? { answer: done } : {}
    this.#machine.record(task, { phase: 'completed', output, ...answer, ...(took !== undefined && { took }) })
    if (approvers !== undefined) this.#rememberApproval(task, approvers)
    if (node.compensate !== undefined) {
      const scope = { variables: frames.variablesOf(task), context: memory.context }
      this.#events.completed({ pointer, iteration, data: { input, output }, ...scope })
    }
    delete task.called
    this.#machine.cancelFrame(task)
    this.#proceed(task, output, next ?? node.next ?? 'continue')
  }

  /** Remembers a granted approval, in case data change later. */
  #rememberApproval(task: TaskFrame, approvers: readonly string[]): void {
    const { state, frames } = this.#machine
    const { pointer, iteration } = task
    state.grantedApprovals ??= []
    state.grantedApprovals.push({ pointer, iteration, ...frames.locate(task), approvers })
  }

  /** Goes on after a task, which is closed already: with the next task of its list, or with the task whose branch it is. */
  #proceed(task: TaskFrame, output: Json, next: string): void {
    const above = this.#machine.frames.get(task.parent)
    if (above?.is === 'list') {
      this.lists.follow(above, output, next)
      return
    }
    this.ended(task, { output, ...((next === 'exit' || next === 'end') && { left: next }) })
  }

  /** Runs `work` for a task. A FlowError faults the task, or holds it if `onFault: hold` applies. */
  #attempt(task: TaskFrame, work: () => void): void {
    try {
      work()
    } catch (error) {
      if (!(error instanceof FlowError)) throw error
      const located = error.at(task.pointer)
      this.#machine.cancelChildren(task)
      if (shouldHold(this.#machine, task, located)) holdTask(this.#machine, task, located)
      else this.#fault(task, located)
    }
  }

  #fault(task: TaskFrame, error: FlowError): void {
    this.#machine.record(task, { phase: 'faulted', error: error.toObject() })
    this.#machine.cancelFrame(task)
    this.failed(task, error)
  }

  /** Goes on with a held task as an operator decided; one that is not held does not change. */
  release(task: TaskFrame, decision: HeldDecision): void {
    const { held } = task
    if (held === undefined) return
    delete task.held
    const node = this.#machine.nodes.at(task.pointer)
    if ('skip' in decision) {
      this.#machine.record(task, { phase: 'skipped', output: decision.skip })
      this.#machine.cancelFrame(task)
      this.#proceed(task, decision.skip, node.next ?? 'continue')
    } else if ('retry' in decision) {
      this.#machine.record(task, { phase: 'retried' })
      this.#attempt(task, () => this.#begin(node, task))
    } else this.#fault(task, FlowError.from(held))
  }
}

/** Tells calls for how long they are waited for. */
function withTimeout(move: Transition, timeoutMs: number): Transition {
  if ('done' in move || move.start === undefined) return move
  return { ...move, start: move.start.map((child) => ('call' in child ? { ...child, timeoutMs } : child)) }
}

function tooManyAtOnce(pointer: string): FinalError {
  const detail = `The execution has entered more than ${TURN_STEPS_MAX} tasks without a call or a wait.`
  return new FinalError(ERRORS.runtime, detail, pointer)
}

function tooManySteps(stepsMax: number, entered: FlowState['entered'], pointer: string): FinalError {
  const [most, count] = Object.entries(entered).reduce((a, b) => (b[1] > a[1] ? b : a))
  const detail = `The execution has entered more than ${stepsMax} tasks, most of them at ${most} (×${count}). Does \`then\` form a loop? If not, raise \`limits.tasks\`, or run parts as flows of their own.`
  return new FinalError(ERRORS.runtime, detail, pointer)
}

/** @param isSent a call of the task is under way, which may change something */
function tookTooLong({ timeoutMs = 0, pointer }: TaskNode, isSent: boolean): FlowError {
  const limit = typeof timeoutMs === 'number' ? durationText(timeoutMs) : 'its timeout'
  const detail = `The task took longer than ${limit}.`
  if (!isSent) return new FlowError(ERRORS.timeout, detail, pointer)
  return new FlowError(
    { ...ERRORS.timeout, code: OUTCOME_UNKNOWN },
    `${detail} The call may have had its effect.`,
    pointer,
  )
}
