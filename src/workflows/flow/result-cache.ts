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
export class ResultCache {
  readonly #from: string | undefined
  readonly #left: Map<string, ReusedResult>
  readonly #used = new Set<string>()
  #isReached = false

  constructor(given: RunReuse | undefined) {
    this.#from = given?.from
    this.#left = new Map(Object.entries(given?.results ?? {}))
  }

  /** What a run that goes on elsewhere is to take over still; nothing where that is over. */
  get remaining(): RunReuse | undefined {
    if (this.#from === undefined || this.#isReached) return undefined
    return { from: this.#from, results: Object.fromEntries(this.#left) }
  }

  /** A step has begun. */
  stepEntered({ path }: StepRef): void {
    if (path === this.#from) this.#isReached = true
  }

  /** The outside has answered for itself. */
  effectEnded(): void {
    if (this.#isReached) this.#left.clear()
  }

  /** Whether what came of a step last was taken over. */
  isReused({ path }: StepRef): boolean {
    return this.#used.has(path)
  }

  /** The execution of the flow that a step ran, if that flow is not run again. */
  childOf({ path }: StepRef): string | undefined {
    return this.#left.get(path)?.child
  }

  /**
   * What a step was answered, once; undefined where it is to ask.
   * @param digest of what the step asks about: people have decided on that alone
   * @throws FlowError what it has faulted with
   */
  take({ path, pointer }: StepRef, digest?: string): Json | undefined {
    const reused = this.#left.get(path)
    this.#left.delete(path)
    if (reused === undefined || (reused.digest !== undefined && reused.digest !== digest)) {
      this.#used.delete(path)
      return undefined
    }
    this.#used.add(path)
    if ('output' in reused) return reused.output
    const error = reused.error as unknown as ErrorObject
    throw new FlowError(error, error.detail, pointer)
  }

  /** Whether the time for which a step sleeps has passed in that run: a `wait`, or before another attempt of a `try`. */
  skipsSleep(step: StepRef): boolean {
    if (step.kind === 'wait') return this.take(step) !== undefined
    if (step.kind !== 'try') return false
    const again = repeatedPathPrefix(step.path, 'try')
    return [...this.#left.keys()].some((path) => path.startsWith(again))
  }
}
