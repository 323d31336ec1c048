/** Simulates a flow: the interpreter of real executions with given answers and virtual time; computes which tasks were covered. */

import type { FlowIR, Json, JsonObject, TaskNode } from '../ir.ts'
import { flowEnded, flowStarted, type LifecycleEvent, taskEvent } from '../lifecycle-events.ts'
import { Machine, newState } from '../machine/machine.ts'
import type { Command, Effect } from '../machine/state.ts'
import { TaskIndex, typeOf } from '../machine/task-index.ts'
import type { StepEvent, StepRef } from '../tasks/task.ts'
import { type Answered, Answers, afterOf, asked, Clock, wantedBy } from './mocks.ts'
import {
  type Coverage,
  type PlannedDecision,
  type Simulated,
  type Simulation,
  SimulationInvalid,
  type TraceEntry,
  type Wanted,
} from './types.ts'

const START = '2026-01-01T00:00:00.000Z'
/** Before the year 10000: no time is left to pass at the end of those that can be written. */
const START_MS_MAX = Date.UTC(10_000, 0)
/** Of all expressions together: some seconds. */
const EVALUATION_STEPS_MAX = 10_000_000
const TRACE_MAX = 20_000
const TRACE_CHARS_MAX = 4_194_304
/** Of all values, those included that turn out not to fit: to find that out takes time too. */
const WEIGHED_CHARS_MAX = 16 * TRACE_CHARS_MAX
/** What a run writes into its history: at its start and end, for each effect, and each time it goes on. */
const EVENTS = { run: 5, call: 3, sleep: 2, await: 6, turn: 4 } as const

/** Something that happens at a time. */
type Coming =
  | { readonly effect: number; readonly how: Answered['how'] }
  | { readonly event: JsonObject }
  | { readonly decision: PlannedDecision }

/** Runs a simulation to its end. @throws SimulationInvalid */
export function simulate(ir: FlowIR, simulation: Simulation): Simulated {
  const run = new SimulatedRun(ir, simulation)
  while (run.proceed());
  return run.simulated()
}

/** A simulation under way. */
class SimulatedRun {
  readonly #ir: FlowIR
  readonly #machine: Machine
  readonly #clock: Clock<Coming>
  readonly #answers: Answers
  readonly #startMs: number
  readonly #trace: TraceEntry[] = []
  /** Where in the trace each step has begun last. */
  readonly #lines = new Map<string, number>()
  readonly #wanted = new Map<number, Wanted>()
  readonly #open = new Set<number>()
  readonly #lifecycle: LifecycleEvent[] | undefined
  #events: number = EVENTS.run
  #roomChars = TRACE_CHARS_MAX
  #weighedChars = 0
  #isBegun = false

  /** @throws SimulationInvalid */
  constructor(ir: FlowIR, { input = {}, mocks = {}, events = [], decisions = [], options = {} }: Simulation) {
    const { start = START, random = 0.5, started_by, lifecycle = false } = options
    this.#startMs = Date.parse(start)
    if (!(Math.abs(this.#startMs) < START_MS_MAX))
      throw new SimulationInvalid('/options/start', 'Not a time (RFC 3339).')
    this.#ir = ir
    this.#clock = new Clock(this.#startMs)
    this.#answers = new Answers(mocks)
    const info = {
      id: 'simulation',
      started_at: new Date(this.#startMs).toISOString(),
      ...(started_by !== undefined && { started_by }),
      secrets: Object.fromEntries((ir.secrets ?? []).map((name) => [name, `secret ${name}`])),
    }
    if (lifecycle) this.#lifecycle = []
    this.#machine = new Machine(ir, newState(ir, input, info), {
      nowMs: () => this.#clock.nowMs,
      random: () => random,
      record: (event) => {
        this.#tell(taskEvent({ document: ir.document, info }, event))
        this.#record(event)
      },
    })
    for (const [index, { event, after }] of events.entries()) this.#plan(after, `/events/${index}`, { event })
    for (const [index, decision] of decisions.entries())
      this.#plan(decision.after, `/decisions/${index}`, { decision })
  }

  /** Does what happens next. @returns whether more may follow */
  proceed(): boolean {
    if (!this.#isBegun) {
      this.#isBegun = true
      this.#tell(flowStarted(this.#run, this.#clock.nowMs))
      this.#carryOut(this.#machine.begin())
      return true
    }
    const { result } = this.#machine
    if (result !== undefined) {
      this.#tell(flowEnded(this.#run, this.#clock.nowMs, result))
      return false
    }
    if (this.#machine.stepsUsed > EVALUATION_STEPS_MAX)
      throw new SimulationInvalid('', 'The expressions of the flow take too long to be simulated.')
    const coming = this.#clock.next((one) => !('effect' in one) || this.#open.has(one.effect))
    if (coming === undefined) return false
    this.#happen(coming)
    return true
  }

  simulated(): Simulated {
    const { result } = this.#machine
    const held = this.#machine.held()
    const isHeld = Object.keys(held).length > 0
    const { status, ...outcome } = result ?? {
      status: isHeld ? ('suspended' as const) : ('waiting' as const),
    }
    const wanted = [...this.#wanted.values()]
    return {
      status,
      ...outcome,
      ...(result === undefined && wanted.length > 0 && { wanted }),
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

  #tell(event: LifecycleEvent | undefined): void {
    if (event === undefined || this.#lifecycle === undefined || this.#lifecycle.length >= TRACE_MAX) return
    this.#lifecycle.push(event)
  }

  #plan(after: Json | undefined, at: string, coming: Coming): void {
    const afterMs = after === undefined ? 0 : afterOf(after, `${at}/after`)
    this.#clock.plan(this.#startMs + afterMs, coming)
  }

  #happen(coming: Coming): void {
    if ('effect' in coming) {
      if (!this.#open.delete(coming.effect)) return
      this.#events += EVENTS.turn
      this.#carryOut(this.#machine.completeEffect({ id: coming.effect, ...coming.how }))
    } else if ('event' in coming) {
      this.#events += EVENTS.turn + 1
      this.#carryOut(this.#machine.event(coming.event))
    } else this.#decide(coming.decision)
  }

  /** @throws SimulationInvalid where nobody waits for it, or it is refused */
  #decide({ task, decision }: PlannedDecision): void {
    const open = Object.values(this.#machine.state.frames).filter((frame) => frame.is === 'task')
    const named = open.filter(({ pointer }) => pointer === task || pointer.endsWith(`/${task}`))
    const [refused] = named.flatMap(({ pointer, iteration }) => {
      const decided = this.#machine.decide(`${pointer}#${iteration}`, decision)
      this.#carryOut(decided.commands)
      return decided.refused ?? []
    })
    this.#events += EVENTS.turn + 1
    if (named.length === 0 || refused !== undefined)
      throw new SimulationInvalid(
        '/decisions',
        `${task}: ${refused ?? 'nothing waits for a decision there.'}`,
      )
  }

  #carryOut(commands: readonly Command[]): void {
    for (const command of commands) {
      if ('begin' in command) this.#begin(command.id, command.begin, command.step)
      else {
        this.#open.delete(command.id)
        this.#wanted.delete(command.id)
      }
    }
  }

  #begin(id: number, effect: Effect, step: StepRef): void {
    this.#open.add(id)
    this.#events += EVENTS[effect.do]
    if (effect.do === 'sleep') {
      this.#clock.plan(effect.untilMs, { effect: id, how: { output: null } })
      return
    }
    this.#ask(step, asked(effect))
    const answer = this.#answers.next(step, ...namesOf(effect))
    if (answer !== undefined) {
      this.#clock.plan(this.#clock.nowMs + answer.afterMs, { effect: id, how: answer.how })
    } else this.#wanted.set(id, wantedBy(effect, step))
  }

  #record({ step, at_ms: _now, ...what }: StepEvent): void {
    const { pointer, iteration, name, kind } = step
    if (this.#trace.length >= TRACE_MAX) return
    if (what.phase === 'started' || what.phase === 'retried')
      this.#lines.set(`${pointer}#${iteration}`, this.#trace.length)
    const at = new Date(this.#clock.nowMs).toISOString()
    const { output, answer: _given, ...rest } = what
    const shown = output === undefined ? {} : this.#fits(output) ? { output } : ({ cut: true } as const)
    this.#trace.push({ at, pointer, iteration, name, kind, ...rest, ...shown })
  }

  /** Takes of the room that all values of the trace share. */
  #fits(value: Json): boolean {
    if (this.#weighedChars > WEIGHED_CHARS_MAX) return false
    const chars = JSON.stringify(value).length
    this.#weighedChars += chars
    if (chars > this.#roomChars) return false
    this.#roomChars -= chars
    return true
  }

  /** What a step asks for is put to the line that says that it has begun. */
  #ask({ pointer, iteration }: StepRef, asks: JsonObject): void {
    const line = this.#lines.get(`${pointer}#${iteration}`)
    const begun = line === undefined ? undefined : this.#trace[line]
    if (line === undefined || begun === undefined) return
    this.#trace[line] = { ...begun, ...(this.#fits(asks) ? { asks } : { cut: true }) }
  }
}

/** What an answer may be given for, besides the step: a function, a flow, whatever is waited for. */
function namesOf(effect: Exclude<Effect, { do: 'sleep' }>): string[] {
  if (effect.do === 'call') return [effect.function]
  if (effect.what !== 'workflow') return [effect.what]
  return [`${effect.details['namespace']}/${effect.details['name']}`, effect.what]
}

/** @param traces of one simulation, or of all cases of a flow */
export function coverageOf(ir: FlowIR, ...traces: readonly (readonly TraceEntry[])[]): Coverage {
  const entered = new Set<string>()
  const taken = new Set<string>()
  for (const { pointer, phase, took } of traces.flat()) {
    if (phase === 'skipped') taken.add(`${pointer}: skipped`)
    else entered.add(pointer)
    if (phase === 'started') taken.add(`${pointer}: entered`)
    if (took !== undefined) taken.add(`${pointer}: ${took}`)
  }
  const nodes = new TaskIndex(ir).all()
  return {
    tasks: countOf(
      nodes.map(({ pointer }) => pointer),
      entered,
      'entered',
    ),
    ways: countOf(nodes.flatMap(waysOf), taken, 'taken'),
  }
}

function waysOf(node: TaskNode): string[] {
  const conditional = node.if === undefined ? [] : ['entered', 'skipped']
  const ways = typeOf(node).outcomes?.(node.body) ?? []
  return [...conditional, ...ways].map((way) => `${node.pointer}: ${way}`)
}

function countOf<Key extends string>(all: readonly string[], seen: ReadonlySet<string>, key: Key) {
  const missed = all.filter((one) => !seen.has(one))
  return { [key]: all.length - missed.length, total: all.length, missed } as {
    readonly [K in Key]: number
  } & { readonly total: number; readonly missed: readonly string[] }
}
