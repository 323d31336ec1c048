/** Finds the task queues of the platform that no worker polls: what is in them stands still. */

import type { Connection } from '@temporalio/client'
import type { IdleQueue } from '../health-report.ts'
import { INFRA_LIMITS } from '../limits.ts'
import { describeTaskQueues } from './task-queues.ts'

interface IdleOptions {
  /** Milliseconds: the age of the last poll at which its worker counts as gone. A poll of a live worker lasts up to a minute. */
  readonly goneMs?: number
  /** The only worker whose polls count. Default: those of all. */
  readonly identity?: string | undefined
}

/** A worker that restarts within seconds is none. @throws errors of the service */
export async function findIdleQueues(
  connection: Pick<Connection, 'workflowService'>,
  namespace: string,
  { goneMs = INFRA_LIMITS.workerGoneMs, identity }: IdleOptions = {},
): Promise<IdleQueue[]> {
  const queues = await describeTaskQueues(connection, namespace, identity)
  return queues
    .filter(({ lastPollMs }) => Date.now() - lastPollMs >= goneMs)
    .map(({ queue, lastPollMs }) => idleQueue(queue, lastPollMs))
}

function idleQueue(queue: string, lastMs: number): IdleQueue {
  const since = lastMs === 0 ? null : new Date(lastMs).toISOString()
  const polls =
    since === null ? `polls the task queue ${queue}` : `has polled the task queue ${queue} since ${since}`
  const detail = `No worker ${polls}: its work stands still. Start a worker (\`npm start\` on one machine, else \`node dist/worker.mjs\`), and look into the log of the last one.`
  return { queue, since, detail }
}
