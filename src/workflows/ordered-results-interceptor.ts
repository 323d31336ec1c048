/** Delivers results of local activities one by one, since a replay may deliver results together that first came apart. */

import { CancellationScope, condition, type WorkflowInterceptorsFactory } from '@temporalio/workflow'

/**
 * The history has the order in which local activities ended, but not which results the workflow got in one activation: a
 * replay delivers as many together as it can. Delivered one by one, they have the same effect in both cases, such as which
 * branch wins and which changes share a record.
 */
export const interceptors: WorkflowInterceptorsFactory = () => {
  let last: Promise<void> = Promise.resolve()
  const waitForTurn = () => {
    const turn = last
    last = turn.then(flushMicrotasks)
    return turn
  }
  const inOrder = <T>(work: Promise<T>): Promise<T> =>
    work.then(
      (result) => waitForTurn().then(() => result),
      (error) =>
        waitForTurn().then(() => {
          throw error
        }),
    )
  return { outbound: [{ scheduleLocalActivity: (input, next) => inOrder(next(input)) }] }
}

/** Resolves once all pending promise reactions have run: the SDK evaluates a condition when it is created, and again then. */
export function flushMicrotasks(): Promise<void> {
  let evaluations = 0
  return CancellationScope.nonCancellable(() => condition(() => evaluations++ > 0))
}
