/**
 * Runs flows on fake effects: calls answer from a table, time passes only while all tasks wait, and cancelled
 * work rejects, as in Temporal.
 */

import { AsyncLocalStorage } from 'node:async_hooks'
import { type Catalogue, compile } from '../../../flows-dsl/compile/compile.ts'
import { type ErrorKind, FlowError } from '../../../flows-dsl/errors.ts'
import type { FlowIR, Json, JsonObject } from '../../../flows-dsl/ir.ts'
import {
  type CallRequest,
  Driver,
  type Effects,
  type FlowResult,
  runFlow,
} from '../../../flows-dsl/machine/driver.ts'
import type { Simulated, Simulation } from '../../../flows-dsl/simulator/types.ts'
import type { StepEvent, StepRef } from '../../../flows-dsl/tasks/task.ts'

export const CATALOGUE: Catalogue = {
  'collection.create': { description: 'Create a document', required: ['name', 'document'], optional: [] },
  'collection.get': { description: 'Read a document', required: ['name', 'id'], optional: [] },
  'event.publish': { description: 'Publish an event', required: ['topic'], optional: ['data'] },
}

/**
 * Answer of a call: a value (`gives` if it has options), the next of a list of values (`next`), or an error
 * (`fails`); `after` so many milliseconds.
 */
type Answers = Readonly<Record<string, Json>>

/** One case: input, answers of the environment, expected output and entered tasks. */
export interface Case {
  readonly input: Json
  readonly answers?: Answers
  readonly output?: Json
  readonly error?: JsonObject
  /** Names of the tasks in the order they are entered; `-name` for one that is skipped. */
  readonly steps: readonly string[]
  readonly calls?: readonly JsonObject[]
  readonly waits?: readonly number[]
  readonly stepsMax?: number
  /** Results of `random`, one after the other; 0.5 by default. */
  readonly random?: number
  /** Names of the tasks that were waiting when they were cancelled. */
  readonly cancelled?: readonly string[]
}

/** One case of the simulator: its mocks, and the expected result as far as stated. */
export interface SimulatedCase extends Simulation {
  /** `completed` by default, `faulted` if there is an error. */
  readonly status?: Simulated['status']
  readonly output?: Json
  readonly error?: JsonObject
  readonly compensation?: JsonObject
  readonly steps?: readonly string[]
  /** Requests of the steps to the outside. */
  readonly asks?: readonly JsonObject[]
  readonly duration_ms?: number
  /** A part of the error of an invalid simulation. */
  readonly invalid?: string
}

export function isSimulated(one: Case | SimulatedCase): one is SimulatedCase {
  return ['mocks', 'events', 'decisions', 'options'].some((key) => key in one)
}

export interface Trace {
  readonly result: FlowResult
  readonly steps: readonly string[]
  readonly calls: readonly JsonObject[]
  readonly waits: readonly number[]
  readonly events: readonly StepEvent[]
  readonly cancelled: readonly string[]
  /** Summaries of the steps that slept. */
  readonly sleeps: readonly string[]
}

export const START_MS = Date.UTC(2026, 0, 2, 3, 4, 5)
export const INFO = { id: 'run-1', started_at: new Date(START_MS).toISOString() }

/** @throws Error with the diagnostics if the source does not compile */
export function compiled(source: string, catalogue: Catalogue = CATALOGUE): FlowIR {
  const { ir, diagnostics } = compile(source, { catalogue })
  if (ir === undefined) throw new Error(diagnostics.map((f) => `${f.message}\n${f.excerpt}`).join('\n'))
  return ir
}

/** Rejection of pending work that is cancelled; no FlowError, so no flow catches it. */
class Cancelled extends Error {}

interface Pending {
  readonly dueMs: number
  readonly done: () => void
}

/** An environment with virtual time. As in Temporal, a scope knows the work that waits within it. */
export class World implements Effects {
  readonly calls: JsonObject[] = []
  readonly waits: number[] = []
  readonly sleeps: string[] = []
  readonly events: StepEvent[] = []
  readonly cancelled: string[] = []
  readonly pending = new Set<Pending>()
  readonly #case: Pick<Case, 'answers' | 'random'>
  readonly #scopes = new AsyncLocalStorage<AbortController>()
  readonly #counts = new Map<string, number>()
  #nowMs = START_MS

  constructor(testCase: Pick<Case, 'answers' | 'random'> = {}) {
    this.#case = testCase
  }

  nowMs(): number {
    return this.#nowMs
  }

  random(): number {
    return this.#case.random ?? 0.5
  }

  record(event: StepEvent): void {
    this.events.push(event)
  }

  isCancellation(error: unknown): boolean {
    return error instanceof Cancelled
  }

  scope(work: () => Promise<void>): { cancel(): void } {
    const inner = new AbortController()
    const outer = this.#scopes.getStore()?.signal
    if (outer?.aborted) inner.abort()
    outer?.addEventListener('abort', () => inner.abort())
    void this.#scopes.run(inner, work)
    return { cancel: () => inner.abort() }
  }

  sleep(durationMs: number, step: StepRef): Promise<void> {
    this.waits.push(durationMs)
    this.sleeps.push(step.summary)
    return this.#wait(durationMs, step)
  }

  /** Executions get no input here: the simulator covers that. */
  wait(what: string): Promise<Json> {
    return Promise.reject(new TypeError(`Nobody here answers ${what}.`))
  }

  async call({ function: name, arguments: args, step }: CallRequest): Promise<Json> {
    const count = this.#counts.get(name) ?? 0
    this.#counts.set(name, count + 1)
    this.calls.push({ function: name, arguments: args })
    const answer = nextOf(this.#case.answers?.[name] ?? null, count)
    await this.#wait(special(answer).after ?? 0, step)
    return answerOf(answer)
  }

  #wait(durationMs: number, step: StepRef): Promise<void> {
    const signal = this.#scopes.getStore()?.signal
    if (signal?.aborted) return Promise.reject(new Cancelled())
    if (durationMs === 0) return Promise.resolve()
    return new Promise((resolve, reject) => {
      const pending = { dueMs: this.#nowMs + durationMs, done: resolve }
      this.pending.add(pending)
      signal?.addEventListener('abort', () => {
        if (!this.pending.delete(pending)) return
        this.cancelled.push(step.name)
        reject(new Cancelled())
      })
    })
  }

  /** Advances time until the work has ended; everything due at one time is done at once. */
  async until<T>(work: Promise<T>): Promise<T> {
    let isOver = false
    const end = () => {
      isOver = true
    }
    void work.then(end, end)
    for (;;) {
      await new Promise(setImmediate)
      if (isOver) return work
      if (this.pending.size === 0) throw new Error('The flow waits for nothing.')
      this.#nowMs = Math.min(...[...this.pending].map(({ dueMs }) => dueMs))
      for (const one of this.pending) {
        if (one.dueMs > this.#nowMs) continue
        this.pending.delete(one)
        one.done()
      }
    }
  }
}

/** Runs a flow that went through JSON, as a compiled flow does on its way to a worker. */
export async function trace(
  source: string,
  testCase: Pick<Case, 'input' | 'answers' | 'stepsMax' | 'random'>,
): Promise<Trace> {
  const ir: FlowIR = JSON.parse(JSON.stringify(compiled(source)))
  const world = new World(testCase)
  const info = { ...INFO, ...(testCase.stepsMax !== undefined && { stepsMax: testCase.stepsMax }) }
  const result = await world.until(runFlow(ir, testCase.input, world, info))
  if (world.pending.size > 0) throw new Error('The flow has ended and something still waits.')
  const { events, calls, waits, cancelled, sleeps } = world
  const entered = events.filter(({ phase }) => phase === 'started' || phase === 'skipped')
  const steps = entered.map(({ phase, step }) => (phase === 'skipped' ? `-${step.name}` : step.name))
  return { result, steps, calls, waits, events, cancelled, sleeps }
}

/** Runs a flow that continues as new, from the text of its snapshot, after each event. */
export async function movedTrace(
  source: string,
  testCase: Pick<Case, 'input' | 'answers' | 'stepsMax' | 'random'>,
): Promise<Pick<Trace, 'result' | 'steps' | 'calls'> & { readonly moves: number }> {
  const ir: FlowIR = JSON.parse(JSON.stringify(compiled(source)))
  const world = new World(testCase)
  const full = Object.assign(world, { shouldContinueAsNew: () => true })
  const info = { ...INFO, ...(testCase.stepsMax !== undefined && { stepsMax: testCase.stepsMax }) }
  let moves = 0
  const run = async (): Promise<FlowResult> => {
    let drive = Driver.start(ir, testCase.input, full, info)
    for (;;) {
      const driven = await drive.run()
      if (driven.status !== 'continued') return driven
      moves += 1
      drive = Driver.resume(ir, JSON.parse(JSON.stringify(driven.snapshot)), full)
    }
  }
  const result = await world.until(run())
  const entered = world.events.filter(({ phase }) => phase === 'started' || phase === 'skipped')
  const steps = entered.map(({ phase, step }) => (phase === 'skipped' ? `-${step.name}` : step.name))
  return { result, steps, calls: world.calls, moves }
}

interface Special {
  readonly next?: Json[]
  readonly gives?: Json
  readonly fails?: ErrorKind & { detail: string }
  readonly after?: number
}

function special(answer: Json): Special {
  return typeof answer === 'object' && answer !== null && !Array.isArray(answer) ? (answer as Special) : {}
}

function nextOf(answer: Json, count: number): Json {
  const { next } = special(answer)
  return next === undefined ? answer : (next[count] ?? null)
}

function answerOf(answer: Json): Json {
  const { gives, fails } = special(answer)
  if (fails !== undefined) throw new FlowError(fails, fails.detail)
  return gives === undefined ? answer : gives
}
