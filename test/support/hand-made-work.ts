/** Work that nobody's code has asked for: activities in the name of a workflow, made by hand, with any header. */

import type { Client } from '@temporalio/client'
import { defaultPayloadConverter, type Payload } from '@temporalio/common'
import proto, { type temporal } from '@temporalio/proto'
import { REF_HEADER, type TenantRef } from '../../src/core/tenant.ts'
import { withRawClient } from './temporal.ts'
import { eventually, unique } from './tenants.ts'

const { CommandType } = proto.temporal.api.enums.v1
const NAMESPACE = 'default'
const PATIENCE_MS = 40_000

type Event = temporal.api.history.v1.IHistoryEvent

export interface Task {
  readonly activity: string
  readonly queue: string
  readonly input: readonly unknown[]
  /** In whose name, by its header; undefined: there is none. */
  readonly ref: TenantRef | undefined
}

/** @returns of each task, in their order, `completed` or the type of what it failed with */
export const done = (workflowId: string, tasks: readonly Task[]): Promise<(string | undefined)[]> =>
  withRawClient((client) =>
    client.withDeadline(Date.now() + PATIENCE_MS, () => worked(client, workflowId, tasks)),
  )

async function worked(
  { workflow, workflowService: service }: Client,
  workflowId: string,
  tasks: readonly Task[],
): Promise<(string | undefined)[]> {
  const taskQueue = { name: unique('hand') }
  const start = { namespace: NAMESPACE, workflowId, requestId: workflowId, taskQueue }
  await service.startWorkflowExecution({ ...start, workflowType: { name: 'handMade' } })
  const { taskToken } = await service.pollWorkflowTaskQueue({ namespace: NAMESPACE, taskQueue })
  const commands = tasks.map(scheduling)
  await service.respondWorkflowTaskCompleted({ namespace: NAMESPACE, taskToken, commands })
  // It takes no further task: what ends during one is kept back until that is over.
  const handle = workflow.getHandle(workflowId)
  const outcomes = await eventually(async () => {
    const { events } = await handle.fetchHistory()
    const ended = new Map((events ?? []).flatMap((event) => outcomeIn(event, events ?? [])))
    return ended.size === tasks.length ? ended : undefined
  }, PATIENCE_MS)
  await handle.terminate()
  return tasks.map((_, nth) => outcomes.get(nth))
}

const payload = (value: unknown): Payload => defaultPayloadConverter.toPayload(value)

function scheduling({ activity, queue, input, ref }: Task, nth: number): temporal.api.command.v1.ICommand {
  return {
    commandType: CommandType.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK,
    scheduleActivityTaskCommandAttributes: {
      activityId: String(nth),
      activityType: { name: activity },
      taskQueue: { name: queue },
      input: { payloads: input.map(payload) },
      startToCloseTimeout: { seconds: 30 as never },
      retryPolicy: { maximumAttempts: 1 },
      ...(ref !== undefined && { header: { fields: { [REF_HEADER]: payload(ref) } } }),
    },
  }
}

/** Which task has ended there, and how. */
function outcomeIn(event: Event, events: readonly Event[]): [number, string][] {
  const { activityTaskCompletedEventAttributes: completed, activityTaskFailedEventAttributes: failed } = event
  const scheduledEventId = (completed ?? failed)?.scheduledEventId
  const scheduled = events.find(({ eventId }) => scheduledEventId && eventId?.equals(scheduledEventId))
  if (scheduled === undefined) return []
  const nth = Number(scheduled.activityTaskScheduledEventAttributes?.activityId)
  return [[nth, completed ? 'completed' : String(failed?.failure?.applicationFailureInfo?.type)]]
}
