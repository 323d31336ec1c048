/** Waits until everything is done that the last event of an activation has caused. */

import { CancellationScope, condition } from '@temporalio/workflow'

/** The SDK evaluates a condition when it is made, and again when no promise of the workflow can go on (`condition`). */
export function settled(): Promise<void> {
  let evaluations = 0
  return CancellationScope.nonCancellable(() => condition(() => evaluations++ > 0))
}
