/** Knows what expressions see, and what evaluating them may cost between two effects. */

import { describeFlow, timeOf } from '../descriptors.ts'
import { type Budget, measure, newBudget, STEPS_MAX } from '../expression/budget.ts'
import { evaluate, isTrue } from '../expression/evaluate.ts'
import type { Expression } from '../expression/expression.ts'
import type { FlowIR, Json, JsonObject, TaskNode, Template } from '../ir.ts'
import { fill } from '../template.ts'
import type { Frames } from './frames.ts'
import type { Frame, RunState, TaskFrame } from './state.ts'
import type { Surroundings } from './surroundings.ts'

export class Evaluation {
  readonly #constants: JsonObject
  readonly #frames: Frames
  readonly #clock: Pick<Surroundings, 'nowMs'>
  readonly #budget: Budget = newBudget()
  #spent = 0

  constructor(ir: FlowIR, state: RunState, frames: Frames, clock: Pick<Surroundings, 'nowMs'>) {
    this.#frames = frames
    this.#clock = clock
    this.#constants = {
      workflow: describeFlow(ir, state.input, state.info),
      runtime: { name: 'tenon', version: '1', metadata: {} },
    }
  }

  /** The thread is given back while effects are awaited, so evaluation may cost as much again. */
  refill(): void {
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
    const value = fill(template, (expression) => this.#evaluate(expression, dot, variables))
    measure(value, this.#budget)
    return value
  }

  /** @throws FlowError (expression) */
  test(condition: Expression, dot: Json, variables: JsonObject): boolean {
    return isTrue(this.#evaluate(condition, dot, variables))
  }

  /** Refuses what many together have made too large. @throws FlowError (expression) */
  bounded(value: Json): Json {
    measure(value, this.#budget)
    return value
  }

  #evaluate(expression: Expression, dot: Json, variables: JsonObject): Json {
    return evaluate(expression, dot, { variables, nowMs: this.#clock.nowMs() }, this.#budget)
  }
}
