/** Reuses recorded results of an earlier execution in a rerun, instead of repeating its effects. */

import { type ErrorObject, FlowError } from '../../../flows-dsl/errors.ts'
import type { Json } from '../../../flows-dsl/ir.ts'
import { repeatedPathPrefix } from '../../../flows-dsl/machine/frames.ts'
import type { StepRef } from '../../../flows-dsl/tasks/task.ts'
import type { ExecutionReuse, ReusedResult } from '../../core/execution.ts'

/**
 * With `from`, reuse ends with the first effect that completes after that step has started. Until then, steps that run
 * concurrently with it get recorded results, too. Afterwards no step does, even if a newer version orders steps differently.
 * Without `from`, every step that has a recorded result gets it.
 */
export class ResultCache {
  readonly #from: string | undefined
  readonly #results: Map<string, ReusedResult>
  readonly #used = new Set<string>()
  #isReached = false

  constructor(reuse: ExecutionReuse | undefined) {
    this.#from = reuse?.from
    this.#results = new Map(Object.entries(reuse?.results ?? {}))
  }

  /** The state for continue-as-new; undefined if no result will be reused. */
  get remaining(): ExecutionReuse | undefined {
    if (this.#isReached || this.#results.size === 0) return undefined
    return {
      ...(this.#from !== undefined && { from: this.#from }),
      results: Object.fromEntries(this.#results),
    }
  }

  /** Called for each event of a step, so also when it starts. */
  stepEntered({ path }: StepRef): void {
    if (path === this.#from) this.#isReached = true
  }

  /** Called when an effect ends that was not taken from the cache. */
  effectEnded(): void {
    if (this.#isReached) this.#results.clear()
  }

  /** True if the last result of a step was reused. */
  isReused({ path }: StepRef): boolean {
    return this.#used.has(path)
  }

  /** The execution that the step ran as a sub-flow, if its result can be reused. */
  childOf({ path }: StepRef): string | undefined {
    return this.#results.get(path)?.child
  }

  /**
   * Takes the recorded result of a step, which can be taken once. Undefined if the step must carry out its effect.
   * @param digest the digest of the step's data; a decision of people is reused only for equal data
   * @throws FlowError the recorded error
   */
  take({ path, pointer }: StepRef, digest?: string): Json | undefined {
    const reused = this.#results.get(path)
    this.#results.delete(path)
    if (reused === undefined || (reused.digest !== undefined && reused.digest !== digest)) {
      this.#used.delete(path)
      return undefined
    }
    this.#used.add(path)
    if ('output' in reused) return reused.output
    const error = reused.error as unknown as ErrorObject
    throw new FlowError(error, error.detail, pointer)
  }

  /** True if a step need not sleep: a `wait` with a recorded result, or a `try` whose next attempts have recorded results. */
  skipsSleep(step: StepRef): boolean {
    if (step.kind === 'wait') return this.take(step) !== undefined
    if (step.kind !== 'try') return false
    const prefix = repeatedPathPrefix(step.path, 'try')
    return [...this.#results.keys()].some((path) => path.startsWith(prefix))
  }
}
