/** Checks which polls a task queue needs, on answers of Temporal: a worker that polls for one of two is hard to come by. */

import type { Connection } from '@temporalio/client'
import { msToTs } from '@temporalio/common/lib/time.js'
import proto from '@temporalio/proto'
import { expect, test } from 'vitest'
import { QUEUES } from '../../../src/core/work.ts'
import { findIdleQueues } from '../../../src/infra/temporal/idle-queues.ts'

const { TASK_QUEUE_TYPE_ACTIVITY: ACTIVITIES, TASK_QUEUE_TYPE_WORKFLOW: WORKFLOWS } =
  proto.temporal.api.enums.v1.TaskQueueType
const { flows, provisioning, ...others } = QUEUES

interface Asked {
  readonly taskQueueType: proto.temporal.api.enums.v1.TaskQueueType
}

/** The queues that are idle if workers poll for one type alone. */
async function idleWith(polled: Asked['taskQueueType']): Promise<string[]> {
  const describeTaskQueue = async ({ taskQueueType }: Asked) => ({
    pollers: taskQueueType === polled ? [{ lastAccessTime: msToTs(Date.now()) }] : [],
  })
  const connection = { workflowService: { describeTaskQueue } } as unknown as Connection
  return (await findIdleQueues(connection, 'default')).map(({ queue }) => queue).toSorted()
}

test('queue of workflows and activities: polled for one of them: is idle', async () => {
  expect(await idleWith(ACTIVITIES)).toEqual([flows, provisioning].toSorted())
  expect(await idleWith(WORKFLOWS)).toEqual([flows, provisioning, ...Object.values(others)].toSorted())
})
