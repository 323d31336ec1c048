/** Builds indexes as a durable workflow: one after the other; one that fails does not stop the others. */

import { ActivityFailure, ApplicationFailure, proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../../activities/contract.ts'
import { LIMITS } from '../../core/limits.ts'
import { type IndexBuildInput, type Json, QUEUES, type WorkFailure } from '../../core/work.ts'

/** Of its own: builds may take hours, and nobody's workspace waits for them. */
const RETRY = { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '30s' } as const
const BUILD_ATTEMPTS = 8

/** @throws ApplicationFailure where one could not be built, so that the run is red in the Temporal UI */
export async function indexBuild(input: IndexBuildInput): Promise<void> {
  const failed: string[] = []
  for (const name of input.indexes) {
    try {
      await building(name).buildIndex(input, name)
    } catch (error) {
      if (!(error instanceof ActivityFailure)) throw error
      failed.push(name)
      await recording(name).indexFailed(input, name, failureOf(error))
    }
  }
  if (failed.length > 0)
    throw ApplicationFailure.nonRetryable(`${failed.join(', ')} could not be built`, 'index_failed')
}

/** However large the collection is: as long as the worker says that it lives. */
const building = (name: string) =>
  proxyActivities<Activities>({
    taskQueue: QUEUES.indexes,
    startToCloseTimeout: LIMITS.indexBuildMs,
    heartbeatTimeout: LIMITS.indexHeartbeatMs,
    summary: `build ${name}`,
    retry: { ...RETRY, maximumAttempts: BUILD_ATTEMPTS },
  })

/** Without limit: what failed must be recorded, however long the database is away. */
const recording = (name: string) =>
  proxyActivities<Activities>({
    taskQueue: QUEUES.indexes,
    startToCloseTimeout: '2m',
    summary: `${name} failed`,
    retry: RETRY,
  })

function failureOf({ cause }: ActivityFailure): WorkFailure {
  if (!(cause instanceof ApplicationFailure))
    return { code: 'run_cut_off', detail: 'The worker that built the index was lost, again and again.' }
  const members = cause.details?.[1] as { [name: string]: Json } | undefined
  return { ...members, code: cause.type ?? 'internal', detail: cause.message }
}
