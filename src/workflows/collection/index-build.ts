/** Builds indexes as a durable workflow, one after the other; a failed one does not stop the others. */

import { ActivityFailure, ApplicationFailure, proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../../activities/contract.ts'
import { type IndexBuildInput, type Json, QUEUES, type WorkFailure } from '../../core/work.ts'
import { COLLECTION_LIMITS } from '../../features/collections/limits.ts'

const RETRY = { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '30s' } as const
const BUILD_ATTEMPTS = 8

/** @throws ApplicationFailure if an index could not be built, so that the Temporal UI shows the workflow as failed */
export async function indexBuild(input: IndexBuildInput): Promise<void> {
  const failed: string[] = []
  for (const name of input.indexes) {
    try {
      await buildActivities(name).buildIndex(input, name)
    } catch (error) {
      if (!(error instanceof ActivityFailure)) throw error
      failed.push(name)
      await failureActivities(name).indexFailed(input, name, failureOf(error))
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
    retry: { ...RETRY, maximumAttempts: BUILD_ATTEMPTS },
  })

/** Retried without limit: a failure must be recorded, however long the database is unavailable. */
const failureActivities = (name: string) =>
  proxyActivities<Activities>({
    taskQueue: QUEUES.indexes,
    startToCloseTimeout: '2m',
    summary: `${name} failed`,
    retry: RETRY,
  })

function failureOf({ cause }: ActivityFailure): WorkFailure {
  if (!(cause instanceof ApplicationFailure))
    return { code: 'run_cut_off', detail: 'The worker that built the index was lost, or took too long.' }
  const members = cause.details?.[1] as { [name: string]: Json } | undefined
  return { ...members, code: cause.type ?? 'internal', detail: cause.message }
}
