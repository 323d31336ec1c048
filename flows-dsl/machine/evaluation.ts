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
import { storageFlaw } from '../storable.ts'
import type { Frames } from './frames.ts'
import type { Environment, FlowState, Frame, TaskFrame, UnsettledCall } from './state.ts'

const ERRORS_LISTED_MAX = 5
/** Limits the evaluation of one turn to about a second. */
const REFILLS_MAX = 9

export class Evaluation {
  readonly #constants: JsonObject
  readonly #frames: Frames
  readonly #nowMs: () => number
  readonly #budget: Budget
  #stepsBefore = 0
  /** Values that were found to be storable: tasks pass them on by reference. */
  readonly #storable = new WeakSet<object>()
  /** How often the budget was refilled in this turn. */
  #refills = 0

  constructor(ir: FlowIR, state: FlowState, frames: Frames, environment: Environment) {
    this.#frames = frames
    this.#nowMs = () => environment.nowMs()
    this.#budget = { ...newBudget(), steps: STEPS_MAX }
    this.#constants = {
      workflow: describeFlow(ir, state.input, state.info),
      runtime: { name: 'tenon', version: '1', metadata: {} },
      secrets: { ...state.info.secrets },
    }
  }

  /** Starts a turn with a full budget: while effects are awaited, other executions have the thread. */
  resetBudget(): void {
    this.#refills = 0
    this.#fill()
  }

  /** Refills the budget between the tasks that one event is offered to, so that none uses up the steps of the others. */
  refillShare(): void {
    if (this.#budget.steps > STEPS_MAX / 2 || this.#refills >= REFILLS_MAX) return
    this.#refills += 1
    this.#fill()
  }

  get isBudgetExhausted(): boolean {
    return this.#budget.steps < 0
  }

  #fill(): void {
    this.#stepsBefore += STEPS_MAX - this.#budget.steps
    this.#budget.steps = STEPS_MAX
  }

  /** Evaluation steps of all turns together. */
  get stepsUsed(): number {
    return this.#stepsBefore + STEPS_MAX - this.#budget.steps
  }

  /** The variables of the flow's own filters. */
  flowVariables(context: Json): JsonObject {
    return { ...this.#constants, context }
  }

  /** The variables of a frame; those in `more` hide all others. */
  variablesOf(frame: Frame, more: JsonObject = {}): JsonObject {
    const { context } = this.#frames.branchContextOf(frame)
    return { ...this.#constants, ...this.#frames.variablesOf(frame), context, ...more }
  }

  /** `$task` (OWS 1.0 "Task Descriptor"). */
  taskDescriptor({ name, pointer }: TaskNode, { startedMs, raw, input }: TaskFrame): JsonObject {
    return { name, reference: pointer, startedAt: timeOf(startedMs), input: input ?? raw }
  }

  /** The variables of `output.as` of a task whose call was cancelled, when its outcome is known. */
  variablesOfSettled({ name, pointer }: TaskNode, call: UnsettledCall): JsonObject {
    const { input, startedMs, variables, context } = call
    const task = { name, reference: pointer, startedAt: timeOf(startedMs), input }
    return { ...this.#constants, ...variables, context, input, task }
  }

  /** The value of the template, or `dot` without one. @throws FlowError (expression) */
  filter(template: Template | undefined, dot: Json, variables: JsonObject): Json {
    if (template === undefined) return dot
    const value = fill(template, (expression) =>
      evaluate(expression, dot, this.#scope(variables), this.#budget),
    )
    measure(value, this.#budget)
    return value
  }

  /** @throws FlowError (expression) */
  test(condition: Expression, dot: Json, variables: JsonObject): boolean {
    return isTrue(evaluate(condition, dot, this.#scope(variables), this.#budget))
  }

  #scope(variables: JsonObject) {
    return { variables, nowMs: this.#nowMs() }
  }

  /** Returns the value. @throws FlowError (validation) that lists pointers and violations, if it violates the schema */
  validate(schema: Json | undefined, value: Json, what: string): Json {
    const errors = schema === undefined ? [] : schemaErrors(schema, value, this.#budget)
    if (errors.length === 0) return value
    const listed = errors
      .slice(0, ERRORS_LISTED_MAX)
      .map(({ pointer, message }) => `${pointer || 'it'} ${message}`)
    const more = errors.length > listed.length ? `; and ${errors.length - listed.length} more` : ''
    throw new FlowError(ERRORS.validation, `${what} does not match its schema: ${listed.join('; ')}${more}.`)
  }

  /** Returns the value. @throws FlowError (expression) if it exceeds the size that a turn may produce */
  checkSize(value: Json): Json {
    measure(value, this.#budget)
    return value
  }

  /**
   * Returns the value. @throws FlowError (validation) if the record of the execution cannot store it, (runtime) if it is too large
   * @param what the subject of the error's detail, such as `The output`
   */
  checkStorable(value: Json, what: string): Json {
    const isContainer = typeof value === 'object' && value !== null
    if (isContainer && this.#storable.has(value)) return value
    const flaw = storageFlaw(value)
    if (flaw !== undefined) throw new FlowError(flaw.kind, `${what} cannot be stored: it ${flaw.reason}.`)
    if (isContainer) this.#storable.add(value)
    return value
  }
}
