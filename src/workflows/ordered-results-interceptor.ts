/** Delivers the results of local activities one by one, since a replay may bring several at once that came one by one. */

import { CancellationScope, condition, type WorkflowInterceptorsFactory } from '@temporalio/workflow'

/**
 * The history says in which order local activities ended, not which of them were told to the run together. In a replay, all
 * that can come together do; what an interpreter does with two results at once (which branch is first, what is one record)
 * has to be what it did with one after the other.
 */
export const interceptors: WorkflowInterceptorsFactory = () => {
  let last: Promise<void> = Promise.resolve()
  const turn = () => {
    const mine = last
    last = mine.then(flushMicrotasks)
    return mine
  }
  const inTurn = <T>(work: Promise<T>): Promise<T> =>
    work.then(
      (result) => turn().then(() => result),
      (error) =>
        turn().then(() => {
          throw error
        }),
    )
  return { outbound: [{ scheduleLocalActivity: (input, next) => inTurn(next(input)) }] }
}

/** The SDK evaluates a condition when it is made, and again when no promise of the workflow can go on (`condition`). */
export function flushMicrotasks(): Promise<void> {
  let evaluations = 0
  return CancellationScope.nonCancellable(() => condition(() => evaluations++ > 0))
}
