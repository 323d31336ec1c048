/** Reuses recorded results of an earlier execution in a rerun, so that nothing outside is asked again. */

import { type ErrorObject, FlowError } from '../../../flows-dsl/errors.ts'
import type { Json } from '../../../flows-dsl/ir.ts'
import { repeatedPathPrefix } from '../../../flows-dsl/machine/frames.ts'
import type { StepRef } from '../../../flows-dsl/tasks/task.ts'
import type { ReusedResult, RunReuse } from '../../core/run.ts'

/**
 * All of it happens before the outside answers anything else: so what goes on beside the step from which the run is
 * repeated is taken over too, and nothing that follows that step, should it stand elsewhere in a newer version.
 */
export class Reuse {
  readonly #from: string | undefined
  readonly #left: Map<string, ReusedResult>
  readonly #used = new Set<string>()
  #isReached = false

  constructor(given: RunReuse | undefined) {
    this.#from = given?.from
    this.#left = new Map(Object.entries(given?.answers ?? {}))
  }

  /** What a run that goes on elsewhere is to take over still; nothing where that is over. */
  get left(): RunReuse | undefined {
    if (this.#from === undefined || this.#isReached) return undefined
    return { from: this.#from, answers: Object.fromEntries(this.#left) }
  }

  /** A step has begun. */
  entered({ place }: StepRef): void {
    if (place === this.#from) this.#isReached = true
  }

  /** The outside has answered for itself. */
  answered(): void {
    if (this.#isReached) this.#left.clear()
  }

  /** Whether what came of a step last was taken over. */
  isUsed({ place }: StepRef): boolean {
    return this.#used.has(place)
  }

  /** The execution of the flow that a step ran, if that flow is not run again. */
  childOf({ place }: StepRef): string | undefined {
    return this.#left.get(place)?.child
  }

  /**
   * What a step was answered, once; undefined where it is to ask.
   * @param digest of what the step asks about: people have decided on that alone
   * @throws FlowError what it has faulted with
   */
  take({ place, pointer }: StepRef, digest?: string): Json | undefined {
    const reused = this.#left.get(place)
    this.#left.delete(place)
    if (reused === undefined || (reused.digest !== undefined && reused.digest !== digest)) {
      this.#used.delete(place)
      return undefined
    }
    this.#used.add(place)
    if ('output' in reused) return reused.output
    const error = reused.error as unknown as ErrorObject
    throw new FlowError(error, error.detail, pointer)
  }

  /** Whether the time for which a step sleeps has passed in that run: a `wait`, or before another attempt of a `try`. */
  hasSlept(step: StepRef): boolean {
    if (step.kind === 'wait') return this.take(step) !== undefined
    if (step.kind !== 'try') return false
    const again = repeatedPathPrefix(step.place, 'try')
    return [...this.#left.keys()].some((place) => place.startsWith(again))
  }
}
