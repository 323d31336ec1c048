/** Reads the state of the platform's task queues from Temporal: their backlog, and when a worker asked for work last. */

import type { Connection } from '@temporalio/client'
import { optionalTsToMs } from '@temporalio/common/lib/time.js'
import proto from '@temporalio/proto'
import { QUEUES } from '../../core/work.ts'

const { TASK_QUEUE_TYPE_ACTIVITY: ACTIVITIES, TASK_QUEUE_TYPE_WORKFLOW: WORKFLOWS } =
  proto.temporal.api.enums.v1.TaskQueueType
/** Queues of workflows; all have activities, too. A worker polls for each by itself. */
const WITH_WORKFLOWS: readonly string[] = [QUEUES.flows, QUEUES.provisioning]

export interface TaskQueueState {
  readonly queue: string
  /** Milliseconds since 1970: the last poll, of workflows or of activities, whichever is earlier; 0 if Temporal remembers none. */
  readonly lastPollMs: number
  /** Tasks that no worker has taken, as Temporal estimates, and the age of the oldest in milliseconds. */
  readonly backlog: number
  readonly backlogAgeMs: number
}

/** @param identity the only worker whose polls count; by default, those of all @throws errors of the service */
export function describeTaskQueues(
  { workflowService }: Pick<Connection, 'workflowService'>,
  namespace: string,
  identity?: string,
): Promise<TaskQueueState[]> {
  const describe = async (name: string, taskQueueType: proto.temporal.api.enums.v1.TaskQueueType) =>
    workflowService.describeTaskQueue({ namespace, taskQueue: { name }, taskQueueType, reportStats: true })
  return Promise.all(
    Object.values(QUEUES).map(async (queue) => {
      const types = WITH_WORKFLOWS.includes(queue) ? [WORKFLOWS, ACTIVITIES] : [ACTIVITIES]
      const described = await Promise.all(types.map((type) => describe(queue, type)))
      return {
        queue,
        lastPollMs: Math.min(...described.map((one) => lastPollMs(one, identity))),
        backlog: described.reduce((sum, { stats }) => sum + Number(stats?.approximateBacklogCount ?? 0), 0),
        // Servers before 1.25 tell no statistics.
        backlogAgeMs: Math.max(
          ...described.map(({ stats }) => optionalTsToMs(stats?.approximateBacklogAge) ?? 0),
        ),
      }
    }),
  )
}

function lastPollMs(
  { pollers }: proto.temporal.api.workflowservice.v1.IDescribeTaskQueueResponse,
  only: string | undefined,
): number {
  const counted = (pollers ?? []).filter(({ identity }) => only === undefined || identity === only)
  return Math.max(0, ...counted.map(({ lastAccessTime }) => optionalTsToMs(lastAccessTime) ?? 0))
}
