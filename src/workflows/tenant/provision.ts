/** Creates or removes a tenant or workspace in named steps. */

import { ActivityFailure, ApplicationFailure, proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../../activities/contract.ts'
import { type ProvisionInput, QUEUES } from '../../core/work.ts'
import { TENANT_LIMITS } from '../../features/tenants/limits.ts'
import { RETRIES } from '../retries.ts'

/** The activity of a step, with a summary for the Temporal UI: it waits as long as a server may be away. */
const stepActivity = (summary: string, waitMs: number) =>
  proxyActivities<Activities>({
    taskQueue: QUEUES.provisioning,
    startToCloseTimeout: '30s',
    scheduleToCloseTimeout: waitMs,
    summary,
    retry: RETRIES.provision,
  }).provisionStep

/** Retried without limit: a failure must be recorded, however long the database is unavailable. */
const { provisionFailed } = proxyActivities<Activities>({
  taskQueue: QUEUES.provisioning,
  startToCloseTimeout: '30s',
  retry: RETRIES.record,
})

/** @throws ApplicationFailure if a step failed, so that the Temporal UI shows the workflow as failed */
export async function provision(input: ProvisionInput): Promise<void> {
  const { target, steps, step_wait_ms: waitMs = TENANT_LIMITS.provisioningStepMs } = input
  const subject = input.kind === 'tenant' ? target.tenantId : target.workspaceId
  for (const step of steps) {
    try {
      const run = stepActivity(`${step} of ${subject}`, waitMs)
      while (await run(input, step));
    } catch (error) {
      if (!(error instanceof ActivityFailure)) throw error
      await provisionFailed(input, { name: step, ...reasonOf(error) })
      throw ApplicationFailure.nonRetryable(`Step ${step} failed`, 'provisioning_failed', step)
    }
  }
}

/** The problem of the last attempt, as the interceptor of activities has made a failure of it. */
function reasonOf({ cause }: ActivityFailure): { code: string; detail: string } {
  const last = cause instanceof ApplicationFailure ? cause : cause?.cause
  if (last instanceof ApplicationFailure) return { code: last.type ?? 'internal', detail: last.message }
  return { code: 'dependency_unavailable', detail: 'The step has waited for too long.' }
}
