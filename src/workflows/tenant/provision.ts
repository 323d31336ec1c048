/** Provisions tenants and workspaces in named steps. */

import { ActivityFailure, ApplicationFailure, proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../../activities/contract.ts'
import { type ProvisionInput, QUEUES } from '../../core/work.ts'
import { RETRIES } from '../retries.ts'

/** Activities with a summary for the Temporal UI. */
function activities(summary: string, attempts: number) {
  return proxyActivities<Activities>({
    taskQueue: QUEUES.provisioning,
    startToCloseTimeout: '30s',
    summary,
    retry: { ...RETRIES.record, maximumAttempts: attempts },
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
