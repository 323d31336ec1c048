/** Finds the task queues of the platform that no worker polls: what is in them stands still. */

import type { Connection } from '@temporalio/client'
import { tsToMs } from '@temporalio/common/lib/time.js'
import proto from '@temporalio/proto'
import { QUEUES } from '../../core/work.ts'
import { INFRA_LIMITS } from '../limits.ts'

const { TASK_QUEUE_TYPE_ACTIVITY: ACTIVITIES, TASK_QUEUE_TYPE_WORKFLOW: WORKFLOWS } =
  proto.temporal.api.enums.v1.TaskQueueType
/** Queues of workflows; all have activities, too. A worker polls for each by itself. */
const WITH_WORKFLOWS: readonly string[] = [QUEUES.flows, QUEUES.provisioning]

export interface IdleQueue {
  readonly queue: string
  /** The last time that a worker asked for work, RFC 3339; null if Temporal remembers none, which it does for five minutes. */
  readonly since: string | null
  /** The finding and the next step, in sentences. */
  readonly detail: string
}

/**
 * @param goneMs the age of the last poll at which its worker counts as gone. A poll of a live worker lasts up to a minute, so a
 *   worker that restarts within seconds is none
 * @throws errors of the service
 */
export async function findIdleQueues(
  { workflowService }: Pick<Connection, 'workflowService'>,
  namespace: string,
  goneMs: number = INFRA_LIMITS.workerGoneMs,
): Promise<IdleQueue[]> {
  const found = await Promise.all(
    Object.values(QUEUES).map(async (name) => {
      const hasWorkflows = WITH_WORKFLOWS.includes(name)
      const types = hasWorkflows ? [WORKFLOWS, ACTIVITIES] : [ACTIVITIES]
      const polls = types.map(async (taskQueueType) => {
        const taskQueue = { name }
        return lastPollMs(await workflowService.describeTaskQueue({ namespace, taskQueue, taskQueueType }))
      })
      const lastMs = Math.min(...(await Promise.all(polls)))
      return Date.now() - lastMs < goneMs ? [] : [idleQueue(name, lastMs)]
    }),
  )
  return found.flat()
}

/** Milliseconds since 1970; 0 if Temporal remembers none. */
const lastPollMs = ({ pollers }: proto.temporal.api.workflowservice.v1.IDescribeTaskQueueResponse): number =>
  Math.max(0, ...(pollers ?? []).map(({ lastAccessTime }) => tsToMs(lastAccessTime ?? undefined)))

function idleQueue(queue: string, lastMs: number): IdleQueue {
  const since = lastMs === 0 ? null : new Date(lastMs).toISOString()
  const polls =
    since === null ? `polls the task queue ${queue}` : `has polled the task queue ${queue} since ${since}`
  const detail = `No worker ${polls}: its work stands still. Start a worker (\`npm start\` on one machine, else \`node dist/worker.mjs\`), and look into the log of the last one.`
  return { queue, since, detail }
}
