/** Applies a suspension, resumption or restoration: records the state, then signals executions. */

import { proxyActivities, sleep } from '@temporalio/workflow'
import type { Activities } from '../../activities/contract.ts'
import { QUEUES, type SuspensionInput } from '../../core/work.ts'
import { FUNCTION_LIMITS } from '../../features/functions/limits.ts'
import { INFRA_LIMITS } from '../../infra/limits.ts'
import { RETRIES } from '../retries.ts'

/** Retried without limit: the new state must reach every execution, even if a server is unavailable for days. */
const { changeState, signalExecutions } = proxyActivities<Activities>({
  taskQueue: QUEUES.provisioning,
  startToCloseTimeout: '10m',
  heartbeatTimeout: FUNCTION_LIMITS.heartbeatMs,
  retry: RETRIES.record,
})

/**
 * Several of these workflows may run for one tenant. Each signals the state that it reads from the database at that moment,
 * and an execution ignores a state whose `seq` is lower than the last one that it received.
 */
export async function suspension(input: SuspensionInput): Promise<void> {
  const { target, to } = input
  await changeState(input)
  await signalExecutions(target, 'all')
  if (to !== 'suspended') return
  // Other processes start executions until their cached state expires; signals those executions too.
  await sleep(INFRA_LIMITS.credentialCacheMs)
  await signalExecutions(target, 'active')
}
