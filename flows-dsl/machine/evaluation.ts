/** Evaluates expressions with the variables of a task, within the budget between two effects. */

import { type Budget, measure, newBudget, STEPS_MAX } from '../budget.ts'
import { ERRORS, FlowError } from '../errors.ts'
import {
  describeFlow,
  type FlowIR,
  fill,
  type Json,
  type JsonObject,
  type TaskNode,
  type Template,
  timeOf,
} from '../ir.ts'
import { evaluate, isTrue } from '../jq/evaluate.ts'
import type { Expression } from '../jq/expression.ts'
import { schemaErrors } from '../json-schema/validate.ts'
import type { Frames } from './frames.ts'
import type { Frame, RunState, Surroundings, TaskFrame } from './state.ts'

const ERRORS_SAID_MAX = 5
/** A second of evaluation in a turn, at most. */
const SHARES_MAX = 9

export class Evaluation {
  readonly #constants: JsonObject
  readonly #frames: Frames
  readonly #nowMs: () => number
  readonly #budget: Budget
  #spent = 0
  /** How often this turn the steps were filled up again. */
  #shares = 0

  constructor(ir: FlowIR, state: RunState, frames: Frames, surroundings: Surroundings) {
    this.#frames = frames
    this.#nowMs = () => surroundings.nowMs()
    this.#budget = { ...newBudget(), steps: STEPS_MAX }
    this.#constants = {
      workflow: describeFlow(ir, state.input, state.info),
      runtime: { name: 'tenon', version: '1', metadata: {} },
      secrets: { ...state.info.secrets },
    }
  }

  /** The thread is given back while effects are awaited, so evaluation may cost as much again. */
  refill(): void {
    this.#shares = 0
    this.#fill()
  }

  /** Sees to it that one of many who hear the same does not use up what the others need, as far as that goes. */
  share(): void {
    if (this.#budget.steps > STEPS_MAX / 2 || this.#shares >= SHARES_MAX) return
    this.#shares += 1
    this.#fill()
  }

  get isSpent(): boolean {
    return this.#budget.steps < 0
  }

  #fill(): void {
    this.#spent += STEPS_MAX - this.#budget.steps
    this.#budget.steps = STEPS_MAX
  }

  /** Steps of evaluation in all turns. */
  get spent(): number {
    return this.#spent + STEPS_MAX - this.#budget.steps
  }

  /** What the flow's own filters see. */
  ofFlow(context: Json): JsonObject {
    return { ...this.#constants, context }
  }

  /** What a frame sees; `more` comes before all else. */
  of(frame: Frame, more: JsonObject = {}): JsonObject {
    const { context } = this.#frames.memoryOf(frame)
    return { ...this.#constants, ...this.#frames.variablesOf(frame), context, ...more }
  }

  /** `$task` (OWS 1.0 "Task Descriptor"). */
  about({ name, pointer }: TaskNode, { startedMs, raw, input }: TaskFrame): JsonObject {
    return { name, reference: pointer, startedAt: timeOf(startedMs), input: input ?? raw }
  }

  /** What the template yields; the data as it is where there is none. @throws FlowError (expression) */
  filter(template: Template | undefined, dot: Json, variables: JsonObject): Json {
    if (template === undefined) return dot
    const value = fill(template, (expression) =>
      evaluate(expression, dot, this.#around(variables), this.#budget),
    )
    measure(value, this.#budget)
    return value
  }

  /** @throws FlowError (expression) */
  test(condition: Expression, dot: Json, variables: JsonObject): boolean {
    return isTrue(evaluate(condition, dot, this.#around(variables), this.#budget))
  }

  #around(variables: JsonObject) {
    return { variables, nowMs: this.#nowMs() }
  }

  /** The same value, if it is as the schema says. @throws FlowError (validation), with the pointers of what is not */
  checked(schema: Json | undefined, value: Json, what: string): Json {
    const errors = schema === undefined ? [] : schemaErrors(schema, value, this.#budget)
    if (errors.length === 0) return value
    const said = errors
      .slice(0, ERRORS_SAID_MAX)
      .map(({ pointer, message }) => `${pointer || 'it'} ${message}`)
    const more = errors.length > said.length ? `; and ${errors.length - said.length} more` : ''
    throw new FlowError(ERRORS.validation, `${what} is not as its schema says: ${said.join('; ')}${more}.`)
  }

  /** Refuses what many together have made too large. @throws FlowError (expression) */
  bounded(value: Json): Json {
    measure(value, this.#budget)
    return value
  }
}
