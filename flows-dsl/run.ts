/** Knows how a compiled flow runs. Deterministic: time, calls and randomness come only from the effects. */

import { Branch, Branches } from './branches.ts'
import { describeFlow, type RunInfo, timeOf } from './descriptors.ts'
import { durationText } from './duration.ts'
import { ERRORS, type ErrorObject, FinalError, FlowError } from './errors.ts'
import { type Budget, measure, newBudget, STEPS_MAX } from './expression/budget.ts'
import { evaluate, isTrue } from './expression/evaluate.ts'
import type { Expression } from './expression/expression.ts'
import type { FlowIR, Json, JsonObject, TaskNode, Template } from './ir.ts'
import { clip } from './json.ts'
import { taskType } from './tasks/index.ts'
import type { Effects, Ending, Outcome, Running, StepEvent, StepRef, TaskType } from './tasks/task.ts'
import { fill } from './template.ts'

type Variables = JsonObject

/** Where a task runs: its branch, and the variables of the tasks around it, such as `$item`. */
interface Frame {
  readonly branch: Branch
  readonly locals: Variables
}

/** One entry into one task; `about` is `$task`. */
interface Entry {
  readonly node: TaskNode
  readonly step: StepRef
  readonly frame: Frame
  readonly about: JsonObject
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

/** The state of one run: how often each task was entered, and what evaluation may still cost. */
class Run {
  readonly #ir: FlowIR
  readonly #input: Json
  readonly #effects: Effects
  readonly #info: RunInfo
  readonly #stepsMax: number
  readonly #constants: Variables
  readonly #branches: Branches
  readonly #entered = new Map<string, number>()
  readonly #budget: Budget = newBudget()
  #steps = 0

  constructor(ir: FlowIR, input: Json, effects: Effects, info: RunInfo) {
    this.#ir = ir
    this.#input = input
    this.#effects = effects
    this.#info = info
    this.#stepsMax = info.stepsMax ?? RUN_STEPS_MAX
    this.#branches = new Branches(effects)
    this.#constants = {
      workflow: describeFlow(ir, input, info),
      runtime: { name: 'tenon', version: '1', metadata: {} },
    }
  }

  async toEnd(): Promise<Json> {
    const { input, output, do: tasks } = this.#ir
    const frame: Frame = { branch: new Branch({ context: {}, isExported: false }), locals: {} }
    const from = placed('/input/from', () => this.#filter(input?.from, this.#input, this.#variables(frame)))
    const last = await this.#list(tasks, from, frame)
    return placed('/output/as', () => this.#filter(output?.as, last.output, this.#variables(frame)))
  }

  /** Runs a list from its first task until one leaves it (OWS 1.0 "Flow Directive"). */
  async #list(tasks: readonly TaskNode[], input: Json, frame: Frame): Promise<Ending> {
    let output = input
    let index = 0
    for (let task = tasks[index]; task !== undefined; task = tasks[index]) {
      const outcome = await this.#task(task, output, frame)
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
  async #task(node: TaskNode, raw: Json, frame: Frame): Promise<Outcome> {
    const step = this.#enter(node)
    try {
      const startedAt = timeOf(this.#effects.nowMs())
      const task = { name: node.name, reference: node.pointer, startedAt, input: raw }
      if (node.if !== undefined && !this.#test(node.if, raw, this.#variables(frame, { input: raw, task }))) {
        this.#record({ step, phase: 'skipped' })
        return { output: raw }
      }
      this.#record({ step, phase: 'started' })
      const outcome = await this.#pipeline({ node, step, frame, about: task }, raw)
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
  async #pipeline(entry: Entry, raw: Json): Promise<Outcome> {
    const { node, frame, about } = entry
    const input = this.#filter(node.input?.from, raw, this.#variables(frame, { task: about }))
    const running = this.#running(entry, { input, task: { ...about, input } })
    const outcome = await typeOf(node.kind).run(node.body, input, running)
    const task = { ...about, input, output: outcome.output }
    const output = this.#filter(node.output?.as, outcome.output, this.#variables(frame, { input, task }))
    if (node.export !== undefined) {
      const variables = this.#variables(frame, { input, output, task })
      const context = this.#filter(node.export.as, output, variables)
      Object.assign(frame.branch.memory, { context, isExported: true })
    }
    const next = outcome.next ?? node.next
    return next === undefined ? { output } : { output, next }
  }

  #variables({ branch, locals }: Frame, more: Variables = {}): Variables {
    return { ...this.#constants, ...locals, context: branch.memory.context, ...more }
  }

  #running({ step, frame }: Entry, about: Variables): Running {
    const effects = this.#effects
    const { branch } = frame
    const inner = (more: Variables): Frame => ({ branch, locals: { ...frame.locals, ...more } })
    const list = (nodes: readonly TaskNode[], input: Json) => (to: Branch) =>
      this.#list(nodes, input, { ...frame, branch: to })
    return {
      step,
      run: { id: this.#info.id, document: this.#ir.document },
      nowMs: () => effects.nowMs(),
      random: () => effects.random(),
      evaluate: (template, dot) => this.#template(template, dot, this.#variables(frame, about)),
      test: (condition, dot, more = {}) => this.#test(condition, dot, this.#variables(inner(more), about)),
      call: (name, args) => this.#awaited(effects.call({ function: name, arguments: args, step }), branch),
      sleep: (durationMs, what) => this.#awaited(effects.sleep(durationMs, stepFor(step, what)), branch),
      tasks: (nodes, input, more = {}) => this.#list(nodes, input, inner(more)),
      tasksWithin: (limitMs, nodes, input) =>
        this.#branches.first([list(nodes, input), this.#alarm(limitMs, step)], branch),
      branches: async (nodes, input, { compete }) => {
        const works = nodes.map((node) => (to: Branch) => this.#task(node, input, { ...frame, branch: to }))
        const ending = await this.#branches.fork(works, compete, branch)
        measure(ending.output, this.#budget)
        return ending
      },
    }
  }

  /** Work that lasts so long and fails. */
  #alarm(limitMs: number, step: StepRef): (branch: Branch) => Promise<never> {
    const limit = durationText(limitMs)
    return async (branch) => {
      const most = stepFor(step, `at most ${limit}`)
      await this.#awaited(this.#effects.sleep(limitMs, most, { limits: true }), branch)
      throw new FlowError(ERRORS.timeout, `It took longer than ${limit}.`, step.pointer)
    }
  }

  /** The thread of the workflow is given back while it waits, so evaluation may cost as much again. */
  async #awaited<T>(effect: Promise<T>, branch: Branch): Promise<T> {
    try {
      return await this.#branches.outside(effect, branch)
    } finally {
      if (!branch.isAbandoned) this.#budget.steps = STEPS_MAX
    }
  }

  #enter({ pointer, name, kind, body }: TaskNode): StepRef {
    const iteration = this.#entered.get(pointer) ?? 0
    this.#entered.set(pointer, iteration + 1)
    if (++this.#steps > this.#stepsMax) {
      const detail = `The run has entered more than ${this.#stepsMax} tasks; does \`then\` lead in a circle?`
      throw new FinalError(ERRORS.runtime, detail, pointer)
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

/** The same step, with what is done for it at the moment. */
function stepFor(step: StepRef, what: string | undefined): StepRef {
  return what === undefined ? step : { ...step, summary: clip(`${step.name}: ${what}`, SUMMARY_BYTES_MAX) }
}
