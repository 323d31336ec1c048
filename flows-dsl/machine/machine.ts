/**
 * Runs a compiled flow as a state machine: an event in a state leads to another state and to commands. Nothing is
 * awaited.
 */

import { durationOf, durationText } from '../compile/duration.ts'
import { ERRORS, type ErrorObject, FinalError, FlowError } from '../errors.ts'
import type { ExecutionInfo, FlowIR, Json, JsonObject, Template } from '../ir.ts'
import { storageFlaw, toStorable } from '../storable.ts'
import type { CallbackMessage, ChildResult } from '../tasks/task.ts'
import { Approvals } from './approvals.ts'
import { Compensator } from './compensation.ts'
import type { HeldDecision } from './data-patch.ts'
import { type Patch, patch } from './data-patch.ts'
import { Handlers } from './handlers.ts'
import { MachineContext } from './machine-context.ts'
import type { Command, EffectOutcome, EffectResult, Environment, FlowResult, FlowState } from './state.ts'
import { Tasks } from './task-lifecycle.ts'
import { hasUnsettled, keepAnswer, settleCall } from './unsettled-calls.ts'

/** Versions of the interpreter's rules that this build runs. A change of meaning gets a new number; an execution keeps its own. */
const SEMANTICS: readonly number[] = [1]

/** The state of an execution before its first task. */
export function newState({ semantics }: FlowIR, input: Json, info: ExecutionInfo): FlowState {
  const nothing = {
    frames: {},
    nextId: 1,
    steps: 0,
    entered: {},
    events: [],
    knownEventIds: [],
    completed: [],
  }
  return { snapshot: 1, semantics, info, input, ...nothing }
}

/**
 * One execution of a flow. Owns the state that it is given, and changes it in place. It awaits nothing: each method returns the
 * commands that its host carries out, and takes the result of one as the next call.
 * @example
 * ```ts
 * const machine = new Machine(ir, newState(ir, { name: 'Ada' }, info), environment)
 * for (const command of machine.begin())
 *   if ('begin' in command) machine.completeEffect({ id: command.id, output: 'the result of command.begin' })
 * machine.result?.status // 'completed'
 * ```
 */
export class Machine {
  readonly #context: MachineContext
  readonly #tasks: Tasks
  readonly #compensator: Compensator
  readonly #handlers: Handlers
  readonly #approvals: Approvals

  /** @throws FlowError (configuration) if the state was made by rules that this build does not run */
  constructor(ir: FlowIR, state: FlowState, environment: Environment) {
    if (!SEMANTICS.includes(state.semantics)) {
      throw new FlowError(
        ERRORS.configuration,
        `This worker does not run executions of semantics ${state.semantics}.`,
      )
    }
    this.#context = new MachineContext(ir, state, environment)
    this.#tasks = new Tasks(this.#context, {
      ended: (ended) => this.#ended(ended),
      failed: (key, error, context) => this.#failed(key, error, context),
      completed: (undo) => this.#compensator.add(undo),
    })
    this.#handlers = new Handlers(this.#context, this.#tasks.lists)
    this.#compensator = new Compensator(this.#context, this.#tasks.lists, (result) =>
      this.#handlers.end(result),
    )
    this.#approvals = new Approvals(this.#context, (error) => this.#rejected(error))
  }

  /** Plain JSON that changes in place; copy it to keep a moment. */
  get state(): FlowState {
    return this.#context.state
  }

  /** The result of an execution that has ended. */
  get result(): FlowResult | undefined {
    return this.state.result
  }

  /** True if nothing may start until an approval is granted again. */
  get isReopened(): boolean {
    return this.#approvals.isReopened
  }

  /** Evaluation steps of all expressions so far. */
  get stepsUsed(): number {
    return this.#context.evaluation.stepsUsed
  }

  /** True if cancelling the execution must not stop what runs: a compensation, or `finally`. */
  get isShielded(): boolean {
    const { compensation, ending } = this.state
    return ending === undefined ? compensation !== undefined : ending.list === 'finally'
  }

  /** True if no task under `do` runs any more; compensation and handlers may still run. */
  get #isOver(): boolean {
    const { compensation, ending } = this.state
    return this.result !== undefined || compensation !== undefined || ending !== undefined
  }

  /** Starts the execution. @returns commands for the driver */
  begin(): Command[] {
    const { evaluation, ir } = this.#context
    return this.#context.run(() => {
      const branchContext = { context: {}, isExported: false }
      let timeoutMs: number | undefined
      this.#atFlow('/timeout/after', () => {
        timeoutMs = this.#timeoutMs()
      })
      if (this.#isOver) return
      this.#context.scheduleNext(() => this.#startTimeout(timeoutMs))
      this.#atFlow('/input/schema', () =>
        evaluation.validate(ir.input?.schema, this.state.input, 'The input'),
      )
      if (this.#isOver) return
      this.#atFlow('/input/from', () => {
        const data = evaluation.filter(ir.input?.from, this.state.input, evaluation.flowVariables({}))
        const list = { parent: 0, key: 'flow', of: '', list: 'do', data, branchContext }
        this.#context.scheduleNext(() => this.#tasks.lists.open(list))
      })
    })
  }

  /** Handles the result of an effect; that of a cancelled one is ignored. @returns commands for the driver */
  completeEffect(result: EffectResult): Command[] {
    return this.#context.run(() => {
      const frame = this.#context.frames.get(result.id)
      if (frame?.is !== 'effect') return
      keepAnswer(this.#context, frame, result)
      this.#context.frames.close(frame)
      if ('error' in result) this.#tasks.failed(frame, storableError(result.error))
      else this.#tasks.ended(frame, { output: result.output })
    })
  }

  /**
   * Handles the outcome of an effect that was cancelled with `settles`.
   * @param outcome undefined if it was cancelled before it was sent
   * @returns commands for the driver
   */
  settle(id: number, outcome: EffectOutcome | undefined): Command[] {
    return this.#context.run(() => {
      settleCall(this.#context, id, outcome)
      if (hasUnsettled(this.state)) return
      this.#compensator.settled()
      this.#handlers.settled()
    })
  }

  /** True if a turn has not ended: {@link resume} goes on with it. */
  get isBusy(): boolean {
    return this.result === undefined && this.#context.isBusy
  }

  /** True if the execution should pause, so that others get the thread. */
  get isPauseDue(): boolean {
    return this.#context.isPauseDue
  }

  /** Goes on after a pause. @returns commands for the driver */
  resume(): Command[] {
    return this.#context.resume(this.isBusy)
  }

  /** Cancels the execution and compensates completed tasks. @returns commands for the driver */
  cancel(): Command[] {
    return this.#context.run(() => {
      this.#handlers.cancel()
      if (this.#isOver) return
      delete this.state.completion
      this.#keepContext(this.#openContext)
      this.#context.cancelAll()
      this.#compensator.begin({ cancelled: true })
    })
  }

  /**
   * Delivers a CloudEvent to every task that waits for it, and buffers it for tasks that wait later. A duplicate, by
   * `source` and `id`, changes nothing.
   * @returns commands for the driver
   */
  event(event: JsonObject): Command[] {
    return this.#context.run(() => {
      const { inbox, evaluation } = this.#context
      if (this.result !== undefined || !inbox.isNew(event)) return
      inbox.offer(event, (task) => {
        evaluation.refillShare()
        return this.#tasks.deliver(task, { event }) === true
      })
    })
  }

  /**
   * Delivers a decision to an approval, `pointer#iteration`.
   * @returns commands for the driver, and why the decision is refused, if it is
   */
  decide(step: string, decision: JsonObject): { readonly commands: Command[]; readonly refused?: string } {
    const answers: (boolean | string)[] = []
    const commands = this.#context.run(() => {
      const reopened = this.#approvals.decide(step, decision)
      if (reopened !== undefined) {
        answers.push(reopened.refused ?? true)
        this.#endIfGranted()
        return
      }
      const task = this.#context.frames.entry(step)
      if (task !== undefined) answers.push(this.#tasks.deliver(task, { decision }))
    })
    const [answer = false] = answers
    if (answer === true) return { commands }
    return { commands, refused: answer === false ? 'Nothing waits for a decision there.' : answer }
  }

  /** Delivers what was posted to the callback of a step, `pointer#iteration`. @returns commands for the driver */
  callback(step: string, callback: CallbackMessage): Command[] {
    return this.#context.run(() => {
      const task = this.#context.frames.entry(step)
      if (task !== undefined) this.#tasks.deliver(task, { callback })
    })
  }

  /** Errors of the held steps, by `pointer#iteration`. */
  held(): Record<string, ErrorObject> {
    const held = this.#context.frames.tasks().filter((task) => task.held !== undefined)
    return Object.fromEntries(
      held.map(({ pointer, iteration, held: error }) => [`${pointer}#${iteration}`, error as ErrorObject]),
    )
  }

  /** Goes on with a held step; a step that is not held does not change. @returns commands for the driver */
  release(step: string, decision: HeldDecision): Command[] {
    return this.#context.run(() => {
      const task = this.#context.frames.entry(step)
      if (task !== undefined) this.#tasks.release(task, decision)
    })
  }

  /** Ends the wait of a `wait` task early, as if its time had passed. @returns commands for the driver; undefined if none waits */
  endWait(step: string): Command[] | undefined {
    const task = this.#context.frames.entry(step)
    const timer =
      task && this.#context.nodes.at(task.pointer).kind === 'wait' && this.#context.frames.child(task, 'wait')
    if (!timer) return undefined
    return this.#context.run(() => {
      this.#context.cancelFrame(timer)
      this.#tasks.ended(timer, { output: null })
    })
  }

  /** Checks that a held step may be skipped with an output by hand, and reopens approvals. @returns the reason if not */
  checkSkip(step: string, who: Pick<Patch, 'by' | 'people'>): string | undefined {
    const task = this.#context.frames.entry(step)
    if (task !== undefined && this.#context.nodes.at(task.pointer).kind === 'approve')
      return 'An approval is decided by those who may, not skipped: retry the step, or cancel the execution.'
    let refused: string | undefined
    this.#context.run(() => {
      refused = this.#approvals.reopen(who)
    })
    return refused
  }

  /**
   * Changes `$context`, and the input of a held step for its retry.
   * @returns why the patch is refused, if it is; then nothing changes
   */
  patch(what: Patch): string | undefined {
    let refused: string | undefined
    this.#context.run(() => {
      refused = patch(this.#context, what, () => this.#approvals.reopen(what))
    })
    return refused
  }

  /** Extends all timeouts by the time for which the execution was paused or suspended. */
  extendTimeouts(durationMs: number): void {
    for (const frame of Object.values(this.state.frames)) {
      if (frame.is === 'effect' && frame.effect.do === 'sleep' && frame.effect.limits)
        frame.effect.untilMs += durationMs
    }
  }

  /** Commands that start all open effects again, after continue-as-new. */
  pending(): Command[] {
    const open = Object.values(this.state.frames).filter((frame) => frame.is === 'effect')
    return open.map((frame) => this.#context.startCommand(frame))
  }

  #timeoutMs(): number | undefined {
    const { evaluation, ir, state } = this.#context
    const evaluate = (template: Template) =>
      evaluation.filter(template, state.input, evaluation.flowVariables({}))
    return ir.timeoutMs === undefined ? undefined : durationOf(ir.timeoutMs, '`timeout.after`', 1, evaluate)
  }

  /** Starts the timer of the flow's own timeout, which no task can catch. */
  #startTimeout(timeoutMs: number | undefined): void {
    if (timeoutMs === undefined || this.#isOver) return
    const untilMs = this.#context.environment.nowMs() + timeoutMs
    const summary = `at most ${durationText(timeoutMs)}`
    this.#context.startEffect({ parent: 0, key: 'timeout' }, { do: 'sleep', untilMs, limits: true, summary })
  }

  #ended(ended: ChildResult): void {
    if (this.#handlers.isOwn(ended.key)) this.#handlers.ended(ended)
    else if (ended.key === 'flow') this.#completed(ended)
    else if (ended.key === 'timeout') this.#failed('flow', tookTooLong(this.#context.ir))
    else this.#compensator.next(ended.key)
  }

  #failed(key: string, error: FlowError, context?: Json): void {
    if (this.#handlers.isOwn(key)) {
      this.#handlers.failed(error)
      return
    }
    if (key !== 'flow') {
      this.#compensator.failed(error)
      return
    }
    this.#keepContext(context ?? this.#openContext)
    this.#context.cancelAll()
    this.#compensator.begin({ error: error.toObject() })
  }

  #completed({ output, context = {} }: ChildResult): void {
    const { evaluation, ir } = this.#context
    this.#atFlow('/output/as', () => {
      const result = evaluation.filter(ir.output?.as, output, evaluation.flowVariables(context))
      evaluation.checkStorable(result, 'The output of the flow')
      this.#atFlow('/output/schema', () => {
        evaluation.validate(ir.output?.schema, result, 'The output')
        this.#keepContext(context)
        this.#context.cancelAll()
        this.state.completion = { status: 'completed', output: result }
        this.#endIfGranted()
      })
    })
  }

  /** Ends an execution whose tasks have completed, unless an approval must be granted again before. */
  #endIfGranted(): void {
    const { completion } = this.state
    if (completion === undefined || this.isReopened) return
    delete this.state.completion
    this.#handlers.end(completion)
  }

  /** Runs a step of the flow's own data pipeline; a FlowError there fails the flow at `instance`. */
  #atFlow(instance: string, work: () => unknown): void {
    try {
      work()
    } catch (error) {
      if (!(error instanceof FlowError)) throw error
      this.#failed('flow', error.at(instance))
    }
  }

  /** Fails the flow after a reopened approval was rejected, even if its tasks have completed meanwhile. */
  #rejected(error: FlowError): void {
    delete this.state.completion
    this.#failed('flow', error)
  }

  /** `$context` of the flow while its tasks run. */
  get #openContext(): Json | undefined {
    return this.#context.frames.roots().find(({ key }) => key === 'flow')?.branchContext?.context
  }

  /** Keeps `$context` for the tasks under `onError` and `finally`; other flows do not need it any more. */
  #keepContext(context: Json | undefined): void {
    const { onError, finally: last } = this.#context.ir
    if (context !== undefined && (onError ?? last) !== undefined) this.state.lastContext = context
  }
}

/** The error with a response that can be stored. */
function storableError(error: FlowError): FlowError {
  const { response } = error
  if (response === undefined || storageFlaw(response as unknown as Json) === undefined) return error
  const content = toStorable(response.content)
  return new FlowError(
    { ...error.toObject(), response: { ...response, content } },
    error.message,
    error.instance,
  )
}

function tookTooLong({ timeoutMs = 0 }: FlowIR): FinalError {
  const limit = typeof timeoutMs === 'number' ? durationText(timeoutMs) : 'its timeout'
  return new FinalError(ERRORS.timeout, `The flow took longer than ${limit}.`, '/timeout')
}
