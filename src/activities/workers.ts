/** Creates the workers of the process, one per task queue, and tells which of them polls no more. */

import { availableParallelism, hostname } from 'node:os'
import { Worker, type WorkerOptions } from '@temporalio/worker'
import { PartFailure } from '../app/health.ts'
import { QUEUES } from '../core/work.ts'
import { ARCHIVE_LIMITS } from '../features/archives/limits.ts'
import { COLLECTION_LIMITS } from '../features/collections/limits.ts'
import { FLOW_LIMITS } from '../features/flows/limits.ts'
import { FUNCTION_LIMITS } from '../features/functions/limits.ts'
import type { IdleQueue } from '../infra/health-report.ts'
import { INFRA_LIMITS } from '../infra/limits.ts'

/** Names this process among the pollers of a queue. In containers of several machines, process ids are alike. */
export const IDENTITY = `${process.pid}@${hostname()}`

export interface QueueWorker {
  readonly queue: string
  readonly worker: Worker
  readonly createdMs: number
  /** Activities at a time; with so many it polls for no more. */
  readonly slots: number
}

/** The default of the SDK. */
const ACTIVITIES_AT_ONCE = 100

/** @param shared options of all workers @param forWorkflows further ones of those that run workflows */
export function createWorkers(
  shared: Omit<WorkerOptions, 'taskQueue'>,
  { workflowBundle, sinks }: Pick<WorkerOptions, 'workflowBundle' | 'sinks'>,
): Promise<readonly QueueWorker[]> {
  const create = async (
    queue: string,
    options: Partial<WorkerOptions>,
    slots = ACTIVITIES_AT_ONCE,
  ): Promise<QueueWorker> => {
    const own = { identity: IDENTITY, taskQueue: queue, maxConcurrentActivityTaskExecutions: slots }
    const worker = await Worker.create({ ...shared, ...options, ...own } as WorkerOptions)
    return { queue, slots, worker, createdMs: performance.now() }
  }
  const functions = availableParallelism() * FUNCTION_LIMITS.slotsPerCore * FUNCTION_LIMITS.activitiesPerSlot
  return Promise.all([
    create(QUEUES.flows, {
      ...{ workflowBundle, sinks },
      maxConcurrentLocalActivityExecutions: FLOW_LIMITS.localCallsAtOnceMax,
    } as Partial<WorkerOptions>),
    create(QUEUES.provisioning, { workflowBundle } as Partial<WorkerOptions>),
    create(QUEUES.calls, {}),
    create(QUEUES.functions, {}, functions),
    create(QUEUES.indexes, {}, COLLECTION_LIMITS.indexBuildsMax),
    create(QUEUES.archives, {}, ARCHIVE_LIMITS.runningMax),
  ])
}

/**
 * Checks that each worker runs and polls. A worker whose slots are all in use polls on purpose no more.
 * @param workers undefined until they are created
 * @param idleQueues the queues that this process has not polled for a while, as Temporal knows it
 * @throws PartFailure that names the queue
 */
export async function checkPollers(
  workers: readonly QueueWorker[] | undefined,
  idleQueues: () => Promise<readonly IdleQueue[]>,
): Promise<void> {
  if (workers === undefined) throw new PartFailure('The worker does not poll yet: it waits for Temporal.')
  const stopped = workers.find(({ worker }) => worker.getState() !== 'RUNNING')
  if (stopped !== undefined)
    throw new PartFailure(`The worker of the task queue ${stopped.queue} is ${stopped.worker.getState()}.`)
  // While Temporal is away, its own check says so.
  const idle = new Set((await idleQueues().catch(() => [])).map(({ queue }) => queue))
  const isBusy = ({ worker, slots }: QueueWorker) => worker.getStatus().numInFlightNonLocalActivities >= slots
  const isNew = ({ createdMs }: QueueWorker) => performance.now() - createdMs < INFRA_LIMITS.workerGoneMs
  const frozen = workers.find((one) => idle.has(one.queue) && !isBusy(one) && !isNew(one))
  if (frozen !== undefined)
    throw new PartFailure(
      `This worker does not poll the task queue ${frozen.queue} any more, although it has room: restart it.`,
    )
}
