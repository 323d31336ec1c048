/** Suspending and resuming as a durable workflow: the state, then all that has to hear of it, however often it takes. */

import { proxyActivities, sleep } from '@temporalio/workflow'
import type { Activities } from '../../activities/contract.ts'
import { LIMITS } from '../../core/limits.ts'
import { QUEUES, type SuspensionInput } from '../../core/work.ts'

/** Without limit: who was suspended is held, and who was resumed goes on, however long a server is away. */
const { changeStanding, tellRuns, turnStorage } = proxyActivities<Activities>({
  taskQueue: QUEUES.provisioning,
  startToCloseTimeout: '10m',
  heartbeatTimeout: LIMITS.functionHeartbeatMs,
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '10s' },
})

/** Several at once do no harm: each tells what stands when it tells it, and runs know which is the later. */
export async function suspension(input: SuspensionInput): Promise<void> {
  const { target, to } = input
  await changeStanding(input)
  await Promise.all([tellRuns(target, 'all'), turnStorage(target)])
  if (to === 'active') return
  // Runs that were started meanwhile, by who had not heard of it yet.
  await sleep(LIMITS.keyCacheMs)
  await tellRuns(target, 'unheld')
}
