/** Finds the task queues of the platform that no worker polls: what is in them stands still. */

import type { Connection } from '@temporalio/client'
import { tsToMs } from '@temporalio/common/lib/time.js'
import proto from '@temporalio/proto'
import { QUEUES } from '../../core/work.ts'
import type { IdleQueue } from '../health-report.ts'
import { INFRA_LIMITS } from '../limits.ts'

const { TASK_QUEUE_TYPE_ACTIVITY: ACTIVITIES, TASK_QUEUE_TYPE_WORKFLOW: WORKFLOWS } =
  proto.temporal.api.enums.v1.TaskQueueType
/** Queues of workflows; all have activities, too. A worker polls for each by itself. */
const WITH_WORKFLOWS: readonly string[] = [QUEUES.flows, QUEUES.provisioning]

interface IdleOptions {
  /** Milliseconds: the age of the last poll at which its worker counts as gone. A poll of a live worker lasts up to a minute. */
  readonly goneMs?: number
  /** The only worker whose polls count. Default: those of all. */
  readonly identity?: string | undefined
}

/** A worker that restarts within seconds is none. @throws errors of the service */
export async function findIdleQueues(
  { workflowService }: Pick<Connection, 'workflowService'>,
  namespace: string,
  { goneMs = INFRA_LIMITS.workerGoneMs, identity }: IdleOptions = {},
): Promise<IdleQueue[]> {
  const found = await Promise.all(
    Object.values(QUEUES).map(async (name) => {
      const hasWorkflows = WITH_WORKFLOWS.includes(name)
      const types = hasWorkflows ? [WORKFLOWS, ACTIVITIES] : [ACTIVITIES]
      const polls = types.map(async (taskQueueType) => {
        const taskQueue = { name }
        const described = await workflowService.describeTaskQueue({ namespace, taskQueue, taskQueueType })
        return lastPollMs(described, identity)
      })
      const lastMs = Math.min(...(await Promise.all(polls)))
      return Date.now() - lastMs < goneMs ? [] : [idleQueue(name, lastMs)]
    }),
  )
  return found.flat()
}

/** Milliseconds since 1970; 0 if Temporal remembers none. */
function lastPollMs(
  { pollers }: proto.temporal.api.workflowservice.v1.IDescribeTaskQueueResponse,
  only: string | undefined,
): number {
  const counted = (pollers ?? []).filter(({ identity }) => only === undefined || identity === only)
  return Math.max(0, ...counted.map(({ lastAccessTime }) => tsToMs(lastAccessTime ?? undefined)))
}

function idleQueue(queue: string, lastMs: number): IdleQueue {
  const since = lastMs === 0 ? null : new Date(lastMs).toISOString()
  const polls =
    since === null ? `polls the task queue ${queue}` : `has polled the task queue ${queue} since ${since}`
  const detail = `No worker ${polls}: its work stands still. Start a worker (\`npm start\` on one machine, else \`node dist/worker.mjs\`), and look into the log of the last one.`
  return { queue, since, detail }
}
