/** Simulates a flow: the interpreter of real executions with given answers and virtual time; computes which tasks were covered. */

import { ERRORS, FlowError, OUTCOME_UNKNOWN, REJECTED } from '../errors.ts'
import type { FlowIR, Json, JsonObject, TaskNode } from '../ir.ts'
import { flowEnded, flowStarted, type LifecycleEvent, taskEvent } from '../lifecycle-events.ts'
import { Machine, newState } from '../machine/machine.ts'
import type { Command, Effect, EffectOutcome } from '../machine/state.ts'
import { TaskIndex, typeOf } from '../machine/task-index.ts'
import { AWAIT_CALLBACK, callbackName, OPEN_CALLBACK } from '../tasks/call.ts'
import type { StepEvent, StepRef } from '../tasks/task.ts'
import { Clock, MockAnswers, missingAnswer, parseDelay, requestOf, type TimedAnswer } from './mocks.ts'
import { checkPlanned, unknownTask, unusedMocks } from './simulation-names.ts'
import {
  type Coverage,
  type MissingAnswer,
  type Mocks,
  type PlannedDecision,
  type Simulated,
  type Simulation,
  SimulationInvalid,
  type TraceEntry,
} from './types.ts'

const START = '2026-01-01T00:00:00.000Z'
/** Before the year 10000, because later times cannot be written in ISO 8601. */
const START_MS_MAX = Date.UTC(10_000, 0)
/** For all expressions of a simulation together: some seconds. */
const EVALUATION_STEPS_MAX = 10_000_000
const TRACE_MAX = 20_000
const TRACE_CHARS_MAX = 4_194_304
/** For all values, including those that do not fit: measuring takes time, too. */
const MEASURED_CHARS_MAX = 16 * TRACE_CHARS_MAX
/** History events of an execution: at its start and end, for each effect, and for each workflow task. */
const EVENTS = { run: 5, call: 3, sleep: 2, await: 6, turn: 4 } as const

/** An input of the simulated execution at a time. */
type ScheduledInput =
  | { readonly effect: number; readonly result: TimedAnswer['result'] }
  | { readonly event: JsonObject }
  | { readonly decision: PlannedDecision }

/**
 * Runs a simulation to its end: in virtual time, with the answers that it is given in place of calls.
 * @throws SimulationInvalid
 * @example
 * ```ts
 * const { status, output, trace } = simulate(ir, { input: { name: 'Ada' } })
 * ```
 */
export function simulate(ir: FlowIR, simulation: Simulation): Simulated {
  return new SimulatedRun(ir, simulation).run()
}

class SimulatedRun {
  readonly #ir: FlowIR
  readonly #machine: Machine
  readonly #clock: Clock<ScheduledInput>
  readonly #tasks: TaskIndex
  readonly #mocks: Mocks
  readonly #answers: MockAnswers
  readonly #startMs: number
  readonly #trace: TraceEntry[] = []
  /** The trace index of the last start of each step. */
  readonly #traceIndexes = new Map<string, number>()
  readonly #missing = new Map<number, MissingAnswer>()
  /** Calls and sub-flows among those without an answer. */
  readonly #missingCalls = new Set<number>()
  readonly #open = new Map<number, Effect>()
  /** Calls that were cancelled and whose outcome is awaited, since they can be compensated. */
  readonly #settling = new Set<number>()
  /** Open timers that are timeouts. */
  readonly #limits = new Set<number>()
  /** Decisions without a time that no task waits for yet. */
  readonly #early: PlannedDecision[] = []
  readonly #lifecycle: LifecycleEvent[] | undefined
  #events: number = EVENTS.run
  #remainingChars = TRACE_CHARS_MAX
  #measuredChars = 0

  /** @throws SimulationInvalid */
  constructor(ir: FlowIR, simulation: Simulation) {
    checkPlanned(simulation)
    const { input = {}, mocks = {}, recorded = {}, events = [], decisions = [], options = {} } = simulation
    const { start = START, random = 0.5, id = 'simulation', started_by, lifecycle = false } = options
    this.#startMs = Date.parse(start)
    if (!(Math.abs(this.#startMs) < START_MS_MAX))
      throw new SimulationInvalid('/options/start', 'Not a time (RFC 3339).')
    this.#ir = ir
    this.#clock = new Clock(this.#startMs)
    this.#tasks = new TaskIndex(ir)
    this.#mocks = mocks
    this.#answers = new MockAnswers({ ...recorded, ...mocks })
    const info = {
      id,
      started_at: new Date(this.#startMs).toISOString(),
      ...(started_by !== undefined && { started_by }),
      secrets: Object.fromEntries((ir.secrets ?? []).map((name) => [name, `secret ${name}`])),
    }
    if (lifecycle) this.#lifecycle = []
    this.#machine = new Machine(ir, newState(ir, input, info), {
      nowMs: () => this.#clock.nowMs,
      random: () => random,
      record: (event) => {
        this.#recordLifecycle(taskEvent({ document: ir.document, info }, event))
        this.#record(event)
      },
    })
    for (const [index, { event, after }] of events.entries())
      this.#schedule(after, `/events/${index}`, { event })
    for (const [index, decision] of decisions.entries())
      this.#schedule(decision.after, `/decisions/${index}`, { decision })
  }

  /** @throws SimulationInvalid */
  run(): Simulated {
    this.#recordLifecycle(flowStarted(this.#run, this.#clock.nowMs))
    this.#execute(this.#machine.begin())
    while (this.#machine.result === undefined) {
      if (this.#machine.stepsUsed > EVALUATION_STEPS_MAX)
        throw new SimulationInvalid('', 'The expressions of the flow take too long to be simulated.')
      const isOpen = (id: number) => this.#open.has(id) || this.#settling.has(id)
      const next = this.#clock.next((one) => !('effect' in one) || isOpen(one.effect))
      if (next === undefined || this.#isTimeoutOfMissing(next)) return this.#simulated()
      this.#apply(next)
      this.#decideEarly()
    }
    this.#recordLifecycle(flowEnded(this.#run, this.#clock.nowMs, this.#machine.result))
    return this.#simulated()
  }

  /** Tests if a timeout ends a call only because the simulation has no answer for it. */
  #isTimeoutOfMissing(input: ScheduledInput): boolean {
    return 'effect' in input && this.#limits.has(input.effect) && this.#missingCalls.size > 0
  }

  /** @throws SimulationInvalid if a decision is left for a task that never waited for one */
  #simulated(): Simulated {
    const [early] = this.#early
    if (early !== undefined && this.#missingCalls.size === 0)
      throw this.#nothingWaits(early, 'Nothing has waited for a decision there')
    const { result } = this.#machine
    const held = this.#machine.held()
    const isHeld = Object.keys(held).length > 0
    const { status, ...outcome } = result ?? {
      status: isHeld ? ('suspended' as const) : ('waiting' as const),
    }
    const wanted = [...this.#missing.values()]
    const unused = unusedMocks(this.#tasks, this.#mocks, this.#answers.used)
    return {
      status,
      ...outcome,
      ...(result === undefined && wanted.length > 0 && { wanted }),
      ...(unused.length > 0 && { unused }),
      ...(isHeld && { held }),
      trace: this.#trace,
      coverage: coverageOf(this.#ir, this.#trace),
      duration_ms: this.#clock.nowMs - this.#startMs,
      history_events: this.#events,
      ...(this.#lifecycle !== undefined && { lifecycle: this.#lifecycle }),
    } as Simulated
  }

  get #run() {
    return { document: this.#ir.document, info: this.#machine.state.info }
  }

  #recordLifecycle(event: LifecycleEvent | undefined): void {
    if (event === undefined || this.#lifecycle === undefined || this.#lifecycle.length >= TRACE_MAX) return
    this.#lifecycle.push(event)
  }

  #schedule(after: Json | undefined, at: string, input: ScheduledInput): void {
    const afterMs = after === undefined ? 0 : parseDelay(after, `${at}/after`)
    this.#clock.schedule(this.#startMs + afterMs, input)
  }

  #apply(input: ScheduledInput): void {
    if ('effect' in input) {
      this.#events += EVENTS.turn
      if (this.#settling.delete(input.effect)) this.#execute(this.#machine.settle(input.effect, input.result))
      else if (this.#open.delete(input.effect))
        this.#execute(this.#machine.completeEffect({ id: input.effect, ...input.result }))
    } else if ('event' in input) {
      this.#events += EVENTS.turn + 1
      this.#execute(this.#machine.event(input.event))
    } else if (!this.#decide(input.decision)) {
      if (input.decision.after !== undefined)
        throw this.#nothingWaits(input.decision, 'Nothing waits for a decision there at that time')
      this.#early.push(input.decision)
    }
  }

  #nothingWaits({ task }: PlannedDecision, what: string): SimulationInvalid {
    const unknown = unknownTask(task, this.#tasks.all())
    const hint = 'Without `after`, a decision is made as soon as the task waits for it.'
    return new SimulationInvalid('/decisions', unknown ?? `${task}: ${what}. ${hint}`)
  }

  /** Makes the decisions that the tasks wait for now. */
  #decideEarly(): void {
    for (let index = 0; index < this.#early.length; ) {
      const decision = this.#early[index]
      if (decision !== undefined && this.#decide(decision)) this.#early.splice(index, 1)
      else index += 1
    }
  }

  /** @returns whether a task has waited for the decision @throws SimulationInvalid if the task refuses it */
  #decide({ task, decision }: PlannedDecision): boolean {
    const open = Object.values(this.#machine.state.frames).filter((frame) => frame.is === 'task')
    const named = open.filter(({ pointer }) => pointer === task || pointer.endsWith(`/${task}`))
    if (named.length === 0) return false
    const [refused] = named.flatMap(({ pointer, iteration }) => {
      const decided = this.#machine.decide(`${pointer}#${iteration}`, decision)
      this.#execute(decided.commands)
      return decided.refused ?? []
    })
    this.#events += EVENTS.turn + 1
    if (refused !== undefined) throw new SimulationInvalid('/decisions', `${task}: ${refused}`)
    return true
  }

  /** Carries out the commands, and those that follow from what they cancel, to the end of the turn. */
  #execute(commands: readonly Command[]): void {
    const begun = new Set<number>()
    const settled: (readonly [id: number, outcome: EffectOutcome | undefined])[] = []
    for (const command of commands) {
      const { id } = command
      if ('begin' in command) {
        begun.add(id)
        this.#begin(id, command.begin, command.step)
      } else settled.push(...this.#cancel(command, begun.has(id)))
    }
    for (const [id, outcome] of settled) this.#execute(this.#machine.settle(id, outcome))
    if (this.#machine.isBusy) this.#execute(this.#machine.resume())
  }

  /**
   * @param isUnsent it began in the same turn, which an execution carries out as a whole
   * @returns the outcome, if the machine waits for one and it is known
   */
  #cancel(
    { id, settles }: Extract<Command, { cancel: unknown }>,
    isUnsent: boolean,
  ): (readonly [id: number, outcome: EffectOutcome | undefined])[] {
    const effect = this.#open.get(id)
    this.#open.delete(id)
    const isMissing = this.#missing.delete(id)
    this.#missingCalls.delete(id)
    if (settles !== true) return []
    const call = isUnsent || isMissing || effect?.do !== 'call' ? undefined : effect
    if (call?.finishes !== true) return [[id, call && { error: cancelled() }]]
    this.#settling.add(id)
    return []
  }

  #begin(id: number, effect: Effect, step: StepRef): void {
    this.#open.set(id, effect)
    this.#events += EVENTS[effect.do]
    if (effect.do === 'sleep') {
      if (effect.limits) this.#limits.add(id)
      this.#clock.schedule(effect.untilMs, { effect: id, result: { output: null } })
      return
    }
    if (effect.do === 'await' && effect.what === OPEN_CALLBACK) {
      const output = { id: String(id), url: `https://callback.example/${step.name}/${step.iteration}` }
      this.#clock.schedule(this.#clock.nowMs, { effect: id, result: { output } })
      return
    }
    if (effect.do === 'await' && effect.what === AWAIT_CALLBACK) {
      this.#answer(id, this.#answers.named(callbackName(step.name)), missingAnswer(effect, step))
      return
    }
    this.#recordRequest(step, requestOf(effect))
    this.#answer(id, this.#answerTo(step), missingAnswer(effect, step))
    if (this.#missing.has(id) && (effect.do === 'call' || effect.what === 'workflow'))
      this.#missingCalls.add(id)
  }

  #answerTo(step: StepRef): TimedAnswer | undefined {
    const node = this.#tasks.at(step.pointer)
    return this.#answers.next(step, ...(typeOf(node).answeredBy?.(node.body) ?? []))
  }

  #answer(id: number, answer: TimedAnswer | undefined, missing: MissingAnswer): void {
    if (answer === undefined) this.#missing.set(id, missing)
    else this.#clock.schedule(this.#clock.nowMs + answer.afterMs, { effect: id, result: answer.result })
  }

  #record({ step, at_ms: _now, ...what }: StepEvent): void {
    const { pointer, iteration, name, kind } = step
    if (this.#trace.length >= TRACE_MAX) return
    if (what.phase === 'started' || what.phase === 'retried')
      this.#traceIndexes.set(`${pointer}#${iteration}`, this.#trace.length)
    const at = new Date(this.#clock.nowMs).toISOString()
    const { output, answer: _given, input: _input, ...rest } = what
    const recorded = output === undefined ? {} : this.#fits(output) ? { output } : ({ cut: true } as const)
    this.#trace.push({ at, pointer, iteration, name, kind, ...rest, ...recorded })
  }

  /** Tests if a value fits into the trace, and reserves its size. */
  #fits(value: Json): boolean {
    if (this.#measuredChars > MEASURED_CHARS_MAX) return false
    const chars = JSON.stringify(value).length
    this.#measuredChars += chars
    if (chars > this.#remainingChars) return false
    this.#remainingChars -= chars
    return true
  }

  /** Adds the request of a step to the trace entry of its start. */
  #recordRequest({ pointer, iteration }: StepRef, asks: JsonObject): void {
    const index = this.#traceIndexes.get(`${pointer}#${iteration}`)
    const entry = index === undefined ? undefined : this.#trace[index]
    if (index === undefined || entry === undefined) return
    this.#trace[index] = { ...entry, ...(this.#fits(asks) ? { asks } : { cut: true }) }
  }
}

/** The outcome of a call that an execution ends when it is cancelled. */
const cancelled = () =>
  new FlowError(
    { ...ERRORS.communication, code: OUTCOME_UNKNOWN },
    'The call was cancelled before its answer arrived.',
  )

/** The coverage of a flow. @param traces of one simulation, or of all cases of a flow */
export function coverageOf(ir: FlowIR, ...traces: readonly (readonly TraceEntry[])[]): Coverage {
  const entered = new Set<string>()
  const outcomesSeen = new Set<string>()
  for (const { pointer, phase, took, kind, error } of traces.flat()) {
    if (phase === 'skipped') outcomesSeen.add(`${pointer}: skipped`)
    else entered.add(pointer)
    if (phase === 'started') outcomesSeen.add(`${pointer}: entered`)
    if (took !== undefined) outcomesSeen.add(`${pointer}: ${took}`)
    // With `onReject: fault` a rejection is an error, and the step has taken nothing.
    if (kind === 'approve' && error?.type === REJECTED.type) outcomesSeen.add(`${pointer}: rejected`)
  }
  const nodes = new TaskIndex(ir).all()
  const pointers = nodes.map(({ pointer }) => pointer)
  const outcomes = nodes.flatMap(outcomesOf)
  const missedTasks = pointers.filter((one) => !entered.has(one))
  const missedWays = outcomes.filter((one) => !outcomesSeen.has(one))
  return {
    tasks: { entered: pointers.length - missedTasks.length, total: pointers.length, missed: missedTasks },
    ways: { taken: outcomes.length - missedWays.length, total: outcomes.length, missed: missedWays },
  }
}

function outcomesOf(node: TaskNode): string[] {
  const conditional = node.if === undefined ? [] : ['entered', 'skipped']
  const outcomes = typeOf(node).outcomes?.(node.body) ?? []
  return [...conditional, ...outcomes].map((outcome) => `${node.pointer}: ${outcome}`)
}
