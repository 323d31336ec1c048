/** Creates or removes a tenant or workspace in named steps. */

import {
  ActivityFailure,
  ApplicationFailure,
  continueAsNew,
  proxyActivities,
  workflowInfo,
} from '@temporalio/workflow'
import type { Activities } from '../../activities/contract.ts'
import { isLongStep, type ProvisionInput, QUEUES, type StepFailure } from '../../core/work.ts'
import { ARCHIVE_LIMITS } from '../../features/archives/limits.ts'
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

/** The same for a step that reads or writes a whole archive, and waits within its attempt (features/tenants/provisioning.ts). */
const archiveActivity = (summary: string, waitMs: number) =>
  proxyActivities<Activities>({
    taskQueue: QUEUES.archives,
    startToCloseTimeout: ARCHIVE_LIMITS.attemptMs + waitMs,
    heartbeatTimeout: ARCHIVE_LIMITS.heartbeatMs,
    summary,
    retry: { ...RETRIES.build, maximumAttempts: ARCHIVE_LIMITS.attemptsMax },
  }).provisionStep

/** Retried without limit: a failure must be recorded, however long the database is unavailable. */
const { provisionFailed } = proxyActivities<Activities>({
  taskQueue: QUEUES.provisioning,
  startToCloseTimeout: '30s',
  retry: RETRIES.record,
})

/** @throws ApplicationFailure if a step failed, so that the Temporal UI shows the workflow as failed */
export async function provision(input: ProvisionInput): Promise<void> {
  const begin = input.begin_at === undefined ? 0 : input.steps.indexOf(input.begin_at)
  for (const step of input.steps.slice(begin)) {
    const failure = await runStep(input, step)
    if (failure === undefined) continue
    await provisionFailed(input, [failure, ...(await undoUpTo(input, step))])
    throw ApplicationFailure.nonRetryable(`Step ${step} failed`, 'provisioning_failed', step)
  }
}

/** @returns why it failed for good; undefined if it succeeded */
async function runStep(input: ProvisionInput, step: string): Promise<StepFailure | undefined> {
  const { target, step_wait_ms: waitMs = TENANT_LIMITS.provisioningStepMs } = input
  const subject = input.kind === 'tenant' ? target.tenantId : target.workspaceId
  const summary = `${step} of ${subject}`
  const run = isLongStep(step) ? archiveActivity(summary, waitMs) : stepActivity(summary, waitMs)
  try {
    while (await run(input, step))
      // Temporal ends a workflow whose history grows too long.
      if (workflowInfo().continueAsNewSuggested)
        await continueAsNew<typeof provision>({ ...input, begin_at: step })
    return undefined
  } catch (error) {
    if (!(error instanceof ActivityFailure)) throw error
    return { name: step, ...reasonOf(error) }
  }
}

/**
 * Undoes a step that failed, which may have had its effect, and those before it, the last one first.
 * @returns why some could not be undone; the others are
 */
async function undoUpTo(input: ProvisionInput, failed: string): Promise<StepFailure[]> {
  const begun = input.steps.slice(0, input.steps.indexOf(failed) + 1)
  const failures: StepFailure[] = []
  for (const step of begun.reverse()) {
    const undo = input.undo?.[step]
    const failure = undo === undefined ? undefined : await runStep(input, undo)
    if (failure !== undefined) failures.push(failure)
  }
  return failures
}

/** The problem of the last attempt, as the interceptor of activities has made a failure of it. */
function reasonOf({ cause }: ActivityFailure): { code: string; detail: string } {
  const last = cause instanceof ApplicationFailure ? cause : cause?.cause
  if (last instanceof ApplicationFailure) return { code: last.type ?? 'internal', detail: last.message }
  return { code: 'dependency_unavailable', detail: 'The step has waited for too long.' }
}
