/** Provisions tenants and workspaces in named steps, and propagates suspensions and resumptions. */

import { ActivityFailure, ApplicationFailure, proxyActivities, sleep } from '@temporalio/workflow'
import type { Activities } from '../../activities/contract.ts'
import { LIMITS } from '../../core/limits.ts'
import { type ProvisionInput, QUEUES, type SuspensionInput } from '../../core/work.ts'

/** Activities with a summary for the Temporal UI. */
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
/** Unlimited: a failure must be recorded, however long the database is unavailable. */
const RECORD_ATTEMPTS = Number.POSITIVE_INFINITY

/** @throws ApplicationFailure if a step failed, so that the Temporal UI shows the workflow as failed */
export async function provision(input: ProvisionInput): Promise<void> {
  const target = input.kind === 'tenant' ? input.target.tenantId : input.target.workspaceId
  for (const step of input.steps) {
    try {
      await activities(`${step} of ${target}`, STEP_ATTEMPTS).provisionStep(input, step)
    } catch (error) {
      if (!(error instanceof ActivityFailure)) throw error
      await activities(`${step} failed`, RECORD_ATTEMPTS).provisionFailed(input, `The step ${step} failed.`)
      throw ApplicationFailure.nonRetryable(`Step ${step} failed`, 'provisioning_failed', step)
    }
  }
}

/** Retried without limit: a suspension or resumption must reach all executions, however long a server is unavailable. */
const { changeState, signalExecutions, syncStorageAccess } = proxyActivities<Activities>({
  taskQueue: QUEUES.provisioning,
  startToCloseTimeout: '10m',
  heartbeatTimeout: LIMITS.functionHeartbeatMs,
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '10s' },
})

/** Concurrent runs are safe: each signals the state that it reads then, and executions ignore an older state by its `seq`. */
export async function suspension(input: SuspensionInput): Promise<void> {
  const { target, to } = input
  await changeState(input)
  await Promise.all([signalExecutions(target, 'all'), syncStorageAccess(target)])
  if (to === 'active') return
  // Until their cached state expires, other processes may start executions; these are signalled now.
  await sleep(LIMITS.keyCacheMs)
  await signalExecutions(target, 'unheld')
}
