/** Provisions tenants and workspaces in named steps, and spreads suspensions and resumptions. */

import { ActivityFailure, ApplicationFailure, proxyActivities, sleep } from '@temporalio/workflow'
import type { Activities } from '../../activities/contract.ts'
import { LIMITS } from '../../core/limits.ts'
import { type ProvisionInput, QUEUES, type SuspensionInput } from '../../core/work.ts'

/** Starts one activity per step, with a line in the Temporal UI that says what it is about. */
function activities(summary: string, attempts: number) {
  return proxyActivities<Activities>({
    taskQueue: QUEUES.provisioning,
    startToCloseTimeout: '30s',
    summary,
    retry: {
      initialInterval: '200ms',
      backoffCoefficient: 2,
      maximumInterval: '10s',
      maximumAttempts: attempts,
    },
  })
}

const STEP_ATTEMPTS = 12
/** Without limit: what failed must be recorded, however long the database is away. */
const RECORD_ATTEMPTS = Number.POSITIVE_INFINITY

/** @throws ApplicationFailure where a step could not be done, so that the run is red in the Temporal UI */
export async function provision(input: ProvisionInput): Promise<void> {
  const target = input.kind === 'tenant' ? input.target.tenantId : input.target.workspaceId
  for (const step of input.steps) {
    try {
      await activities(`${step} of ${target}`, STEP_ATTEMPTS).provisionStep(input, step)
    } catch (error) {
      if (!(error instanceof ActivityFailure)) throw error
      await activities(`${step} failed`, RECORD_ATTEMPTS).provisionFailed(
        input,
        `The step ${step} could not be done.`,
      )
      throw ApplicationFailure.nonRetryable(`Step ${step} could not be done`, 'provisioning_failed', step)
    }
  }
}

/** Without limit: who was suspended is held, and who was resumed goes on, however long a server is away. */
const { changeState, signalExecutions, syncStorageAccess } = proxyActivities<Activities>({
  taskQueue: QUEUES.provisioning,
  startToCloseTimeout: '10m',
  heartbeatTimeout: LIMITS.functionHeartbeatMs,
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '10s' },
})

/** Several at once do no harm: each tells what stands when it tells it, and runs know which is the later. */
export async function suspension(input: SuspensionInput): Promise<void> {
  const { target, to } = input
  await changeState(input)
  await Promise.all([signalExecutions(target, 'all'), syncStorageAccess(target)])
  if (to === 'active') return
  // Runs that were started meanwhile, by who had not heard of it yet.
  await sleep(LIMITS.keyCacheMs)
  await signalExecutions(target, 'unheld')
}
