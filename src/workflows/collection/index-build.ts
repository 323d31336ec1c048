/** Builds indexes as a durable workflow, one after the other; a failed one does not stop the others. */

import { ActivityFailure, ApplicationFailure, proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../../activities/contract.ts'
import { type IndexBuildInput, QUEUES } from '../../core/work.ts'
import { COLLECTION_LIMITS } from '../../features/collections/limits.ts'
import { RETRIES } from '../retries.ts'
import { workFailureOf } from './work-failure.ts'

const BUILD_ATTEMPTS = 8
const LOST = 'The worker that built the index was lost, or took too long.'

/** @throws ApplicationFailure if an index could not be built, so that the Temporal UI shows the workflow as failed */
export async function indexBuild(input: IndexBuildInput): Promise<void> {
  const failed: string[] = []
  for (const name of input.indexes) {
    try {
      await buildActivities(name).buildIndex(input, name)
    } catch (error) {
      if (!(error instanceof ActivityFailure)) throw error
      failed.push(name)
      await failureActivities(name).indexFailed(input, name, workFailureOf(error, LOST))
    }
  }
  if (failed.length > 0)
    throw ApplicationFailure.nonRetryable(`${failed.join(', ')} could not be built`, 'index_failed')
}

/** On a queue of its own, since a build may take hours. Heartbeats show that its worker is alive. */
const buildActivities = (name: string) =>
  proxyActivities<Activities>({
    taskQueue: QUEUES.indexes,
    startToCloseTimeout: COLLECTION_LIMITS.indexBuildMs,
    heartbeatTimeout: COLLECTION_LIMITS.indexHeartbeatMs,
    summary: `build ${name}`,
    retry: { ...RETRIES.build, maximumAttempts: BUILD_ATTEMPTS },
  })

/** Retried without limit: a failure must be recorded, however long the database is unavailable. */
const failureActivities = (name: string) =>
  proxyActivities<Activities>({
    taskQueue: QUEUES.indexes,
    startToCloseTimeout: '2m',
    summary: `${name} failed`,
    retry: RETRIES.build,
  })
