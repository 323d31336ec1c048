/** Makes a bulk change as a durable workflow: step by step, as long as its activity has more to do. */

import {
  ActivityFailure,
  ApplicationFailure,
  continueAsNew,
  proxyActivities,
  sleep,
  workflowInfo,
} from '@temporalio/workflow'
import type { Activities } from '../../activities/contract.ts'
import { type BulkChangeInput, QUEUES } from '../../core/work.ts'
import { COLLECTION_LIMITS } from '../../features/collections/limits.ts'
import { RETRIES } from '../retries.ts'
import { workFailureOf } from './work-failure.ts'

/** A step waits while a server is away. */
const { changeDocuments } = proxyActivities<Activities>({
  taskQueue: QUEUES.calls,
  startToCloseTimeout: '2m',
  heartbeatTimeout: COLLECTION_LIMITS.indexHeartbeatMs,
  scheduleToCloseTimeout: COLLECTION_LIMITS.bulkStepMs,
  summary: 'change documents',
  retry: RETRIES.provision,
})

/** Retried without limit: a failure must be recorded, however long the database is unavailable. */
const { failBulkChange } = proxyActivities<Activities>({
  taskQueue: QUEUES.calls,
  startToCloseTimeout: '30s',
  summary: 'record the failure',
  retry: RETRIES.record,
})

/** @throws ApplicationFailure if the change has failed, so that the Temporal UI shows the workflow as failed */
export async function bulkChange(input: BulkChangeInput): Promise<void> {
  try {
    for (let progress = await changeDocuments(input); progress !== 'ended'; ) {
      // However long it lasts: the limit of a step is about servers.
      if (progress === 'suspended')
        await sleep(COLLECTION_LIMITS.bulkSuspendedMs, { summary: 'the workspace is suspended' })
      // Temporal ends a workflow whose history grows too long.
      if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof bulkChange>(input)
      progress = await changeDocuments(input)
    }
  } catch (error) {
    if (!(error instanceof ActivityFailure)) throw error
    const failure = workFailureOf(error, 'The worker that changed the documents was lost, or took too long.')
    await failBulkChange(input, failure)
    throw ApplicationFailure.nonRetryable(failure.detail, 'bulk_change_failed')
  }
}
