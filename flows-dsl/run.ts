/** Knows how a compiled flow runs. Deterministic: time, calls and randomness come only from the effects. */

import { ERRORS, type ErrorObject, FlowError } from './errors.ts'
import { type Budget, measure, newBudget, STEPS_MAX } from './expression/budget.ts'
import { evaluate, isTrue } from './expression/evaluate.ts'
import type { Expression } from './expression/expression.ts'
import type { FlowIR, Json, JsonObject, TaskNode, Template } from './ir.ts'
import { clip } from './json.ts'
import { taskType } from './tasks/index.ts'
import type { Effects, Outcome, Running, StepEvent, StepRef, TaskType } from './tasks/task.ts'
import { fill } from './template.ts'

type Variables = JsonObject

/** What `$workflow` says of the run. `started_at` is an ISO 8601 time. */
export interface RunInfo {
  readonly id: string
  readonly started_at: string
  readonly flow?: { readonly id: string; readonly name: string; readonly version: number }
  /** Tasks entered before the run is taken for an endless loop. */
  readonly stepsMax?: number
}

export type RunResult =
  | { readonly status: 'completed'; readonly output: Json }
  | { readonly status: 'faulted'; readonly error: ErrorObject }

const RUN_STEPS_MAX = 10_000
const SUMMARY_BYTES_MAX = 200

/**
 * Runs a flow to its end.
 * @returns its output, or the error it faulted with, `instance` filled in
 * @throws whatever the effects throw that is no FlowError, such as a cancellation
 */
export async function runFlow(ir: FlowIR, input: Json, effects: Effects, info: RunInfo): Promise<RunResult> {
  try {
    return { status: 'completed', output: await new Run(ir, input, effects, info).toEnd() }
  } catch (error) {
    if (!(error instanceof FlowError)) throw error
    return { status: 'faulted', error: error.toObject() }
  }
}

/** The state of one run: `$context`, how often each task was entered, and what evaluation may still cost. */
class Run {
  readonly #ir: FlowIR
  readonly #input: Json
  readonly #effects: Effects
  readonly #stepsMax: number
  readonly #constants: Variables
  readonly #entered = new Map<string, number>()
  readonly #budget: Budget = newBudget()
  #context: Json = {}
  #steps = 0

  constructor(ir: FlowIR, input: Json, effects: Effects, info: RunInfo) {
    this.#ir = ir
    this.#input = input
    this.#effects = effects
    this.#stepsMax = info.stepsMax ?? RUN_STEPS_MAX
    this.#constants = {
      workflow: describeFlow(ir, input, info),
      runtime: { name: 'tenon', version: '1', metadata: {} },
    }
  }

  async toEnd(): Promise<Json> {
    const { input, output, do: tasks } = this.#ir
    const from = placed('/input/from', () => this.#filter(input?.from, this.#input, this.#variables({})))
    const last = await this.#list(tasks, from)
    return placed('/output/as', () => this.#filter(output?.as, last.output, this.#variables({})))
  }

  /** Runs a list from its first task until one leaves it (OWS 1.0 "Flow Directive"). */
  async #list(tasks: readonly TaskNode[], input: Json): Promise<{ output: Json; ended: boolean }> {
    let output = input
    let index = 0
    for (let task = tasks[index]; task !== undefined; task = tasks[index]) {
      const outcome = await this.#task(task, output)
      output = outcome.output
      const next = outcome.next ?? 'continue'
      if (next === 'exit' || next === 'end') return { output, ended: next === 'end' }
      index = next === 'continue' ? index + 1 : tasks.findIndex(({ name }) => name === next)
    }
    return { output, ended: false }
  }

  /**
   * The life of one task: `if` on the raw input, then the pipeline. A task that is skipped goes on to the
   * next.
   */
  async #task(node: TaskNode, raw: Json): Promise<Outcome> {
    const step = this.#enter(node)
    try {
      const startedAt = timeOf(this.#effects.nowMs())
      const task = { name: node.name, reference: node.pointer, startedAt, input: raw }
      if (node.if !== undefined && !this.#test(node.if, raw, this.#variables({ input: raw, task }))) {
        this.#record({ step, phase: 'skipped' })
        return { output: raw }
      }
      this.#record({ step, phase: 'started' })
      const outcome = await this.#pipeline(node, raw, task, step)
      this.#record({ step, phase: 'completed', output: outcome.output })
      return outcome
    } catch (error) {
      if (!(error instanceof FlowError)) throw error
      const placed = error.at(node.pointer)
      this.#record({ step, phase: 'faulted', error: placed.toObject() })
      throw placed
    }
  }

  /** `input.from` → run → `output.as` → `export.as` → `then` (OWS 1.0 "Data Flow"). */
  async #pipeline(node: TaskNode, raw: Json, about: JsonObject, step: StepRef): Promise<Outcome> {
    const input = this.#filter(node.input?.from, raw, this.#variables({ task: about }))
    const before = this.#variables({ input, task: { ...about, input } })
    const outcome = await typeOf(node.kind).run(node.body, input, this.#running(step, before))
    const task = { ...about, input, output: outcome.output }
    const output = this.#filter(node.output?.as, outcome.output, this.#variables({ input, task }))
    if (node.export !== undefined) {
      this.#context = this.#filter(node.export.as, output, this.#variables({ input, output, task }))
    }
    const next = outcome.next ?? node.next
    return next === undefined ? { output } : { output, next }
  }

  #variables(more: Variables): Variables {
    return { ...this.#constants, context: this.#context, ...more }
  }

  #running(step: StepRef, variables: Variables): Running {
    const effects = this.#effects
    return {
      step,
      evaluate: (template, dot) => this.#template(template, dot, variables),
      test: (condition, dot) => this.#test(condition, dot, variables),
      call: (name, args) => this.#awaited(effects.call({ function: name, arguments: args, step })),
      sleep: (durationMs) => this.#awaited(effects.sleep(durationMs, step)),
      tasks: (nodes, input) => this.#list(nodes, input),
    }
  }

  /** The thread of the workflow is given back while it waits, so evaluation may cost as much again. */
  async #awaited<T>(effect: Promise<T>): Promise<T> {
    const result = await effect
    this.#budget.steps = STEPS_MAX
    return result
  }

  #enter({ pointer, name, kind, body }: TaskNode): StepRef {
    const iteration = this.#entered.get(pointer) ?? 0
    this.#entered.set(pointer, iteration + 1)
    if (++this.#steps > this.#stepsMax) {
      const detail = `The run has entered more than ${this.#stepsMax} tasks; does \`then\` lead in a circle?`
      throw new FlowError(ERRORS.runtime, detail, pointer)
    }
    const summary = clip(`${name}: ${typeOf(kind).summary(body)}`, SUMMARY_BYTES_MAX)
    return { pointer, name, kind, iteration, summary }
  }

  #record(event: Omit<StepEvent, 'at_ms'>): void {
    this.#effects.record({ ...event, at_ms: this.#effects.nowMs() })
  }

  #filter(template: Template | undefined, dot: Json, variables: Variables): Json {
    return template === undefined ? dot : this.#template(template, dot, variables)
  }

  #test(condition: Expression, dot: Json, variables: Variables): boolean {
    return isTrue(evaluate(condition, dot, variables, this.#budget))
  }

  #template(template: Template, dot: Json, variables: Variables): Json {
    const value = fill(template, (expression) => evaluate(expression, dot, variables, this.#budget))
    measure(value, this.#budget)
    return value
  }
}

/** A compiled flow holds no kinds that are not there, unless an older worker is given a newer flow. */
function typeOf(kind: string): TaskType {
  const type = taskType(kind)
  if (type === undefined)
    throw new FlowError(ERRORS.configuration, `There is no kind of task \`${kind}\` here.`)
  return type
}

/** Says where an error came from that no task has placed. */
function placed<T>(instance: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw error instanceof FlowError ? error.at(instance) : error
  }
}

/** The workflow descriptor; `definition` has the document only, since a run carries the compiled form. */
function describeFlow({ document }: FlowIR, input: Json, { id, started_at }: RunInfo): JsonObject {
  return { id, definition: { document: { ...document } }, input, startedAt: timeOf(Date.parse(started_at)) }
}

/** A date and time descriptor (OWS 1.0 "Runtime expression arguments"). */
function timeOf(ms: number): JsonObject {
  const epoch = { seconds: Math.floor(ms / 1000), milliseconds: ms }
  return { iso8601: new Date(ms).toISOString(), epoch }
}
