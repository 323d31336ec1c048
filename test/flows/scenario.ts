/** Knows how to run a flow on fake effects: calls answer from a table, time moves only by waiting. */

import { type Catalogue, compile } from '../../flows-dsl/compile.ts'
import { type ErrorKind, FlowError } from '../../flows-dsl/errors.ts'
import type { FlowIR, Json, JsonObject } from '../../flows-dsl/ir.ts'
import { type RunResult, runFlow } from '../../flows-dsl/run.ts'
import type { Effects, StepEvent } from '../../flows-dsl/tasks/task.ts'

export const CATALOGUE: Catalogue = {
  'collection.create': { description: 'Create a document', required: ['name', 'document'], optional: [] },
  'collection.get': { description: 'Read a document', required: ['name', 'id'], optional: [] },
  'event.publish': { description: 'Publish an event', required: ['type'], optional: ['data', 'source'] },
}

/** What a call answers: a value, the next of a list of values (`next`), or an error (`fails`). */
type Answers = Readonly<Record<string, Json>>

/** One case: what goes in, what the world answers, what must come out and which tasks are entered. */
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
}

export interface Trace {
  readonly result: RunResult
  readonly steps: readonly string[]
  readonly calls: readonly JsonObject[]
  readonly waits: readonly number[]
  readonly events: readonly StepEvent[]
}

export const START_MS = Date.UTC(2026, 0, 2, 3, 4, 5)
const INFO = { id: 'run-1', started_at: new Date(START_MS).toISOString() }

/** @throws Error with the faults, where the source does not compile */
export function compiled(source: string): FlowIR {
  const { ir, faults } = compile(source, { catalogue: CATALOGUE })
  if (ir === undefined) throw new Error(faults.map((f) => `${f.message}\n${f.excerpt}`).join('\n'))
  return ir
}

/** Runs what has gone through JSON, as a compiled flow does on its way to a worker. */
export async function trace(
  source: string,
  given: Pick<Case, 'input' | 'answers' | 'stepsMax'>,
): Promise<Trace> {
  const ir: FlowIR = JSON.parse(JSON.stringify(compiled(source)))
  const calls: JsonObject[] = []
  const waits: number[] = []
  const events: StepEvent[] = []
  let now = START_MS
  const asked = new Map<string, number>()
  const effects: Effects = {
    nowMs: () => now,
    record: (event) => void events.push(event),
    sleep: async (durationMs) => {
      waits.push(durationMs)
      now += durationMs
    },
    call: async (request) => {
      const count = asked.get(request.function) ?? 0
      asked.set(request.function, count + 1)
      calls.push({ function: request.function, arguments: request.arguments })
      return answerOf(given.answers?.[request.function] ?? null, count)
    },
  }
  const info = { ...INFO, ...(given.stepsMax !== undefined && { stepsMax: given.stepsMax }) }
  const result = await runFlow(ir, given.input, effects, info)
  const entered = events.filter(({ phase }) => phase === 'started' || phase === 'skipped')
  const steps = entered.map(({ phase, step }) => (phase === 'skipped' ? `-${step.name}` : step.name))
  return { result, steps, calls, waits, events }
}

function answerOf(answer: Json, count: number): Json {
  if (typeof answer !== 'object' || answer === null || Array.isArray(answer)) return answer
  const { next, fails } = answer as { next?: Json[]; fails?: ErrorKind & { detail: string } }
  if (next !== undefined) return answerOf(next[count] ?? null, 0)
  if (fails !== undefined) throw new FlowError(fails, fails.detail)
  return answer
}
