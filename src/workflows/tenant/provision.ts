/** Provisioning as a durable workflow: named steps in order; if one cannot be done, the record says so. */

import { ActivityFailure, ApplicationFailure, proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../../activities/contract.ts'
import { type ProvisionInput, QUEUES } from '../../core/work.ts'

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
