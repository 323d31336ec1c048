/**
 * Forges Temporal work that the platform did not request: activities, starts, signals and updates with any
 * payload.
 */

import type { Client } from '@temporalio/client'
import { defaultPayloadConverter, type Payload } from '@temporalio/common'
import proto, { type temporal } from '@temporalio/proto'
import type { Platform } from '../../../src/app/platform.ts'
import { PURPOSE } from '../../../src/core/work.ts'
import { eventually, unique } from '../fixtures/tenants.ts'
import { withRawClient } from '../stack/temporal.ts'

const { CommandType } = proto.temporal.api.enums.v1
const NAMESPACE = 'default'
/** For all queues of a worker that is busy with other work. */
const PATIENCE_MS = 120_000

type Event = temporal.api.history.v1.IHistoryEvent

export interface Task {
  readonly activity: string
  readonly queue: string
  readonly input: readonly Payload[]
}

/** A payload that is not encrypted, as any client can make one. */
export const plain = (value: unknown, metadata: Readonly<Record<string, string>> = {}): Payload => {
  const payload = defaultPayloadConverter.toPayload(value)
  const entries = Object.entries(metadata).map(([name, text]) => [name, Buffer.from(text)])
  return { ...payload, metadata: { ...payload.metadata, ...Object.fromEntries(entries) } }
}

/** Makes a payload as the platform does, for a workflow and a purpose, such as `activity:callFunction`. */
export type Seal = (workflowId: string, purpose: string, value: unknown) => Promise<Payload>

export const sealBy =
  ({ codec }: Platform): Seal =>
  async (workflowId, purpose, value) => {
    const context = { type: 'workflow' as const, namespace: NAMESPACE, workflowId }
    const [payload] = await codec.encode([plain(value, { [PURPOSE]: purpose })], context)
    if (payload === undefined) throw new Error('nothing was encoded')
    return payload
  }

/**
 * Schedules activities in the name of a workflow. @returns for each `completed` or the type of its failure
 */
export const activitiesDone = (workflowId: string, tasks: readonly Task[]): Promise<(string | undefined)[]> =>
  withRawClient((client) =>
    client.withDeadline(Date.now() + PATIENCE_MS, () => worked(client, workflowId, tasks)),
  )

async function worked(
  { workflow, workflowService: service }: Client,
  workflowId: string,
  tasks: readonly Task[],
): Promise<(string | undefined)[]> {
  const taskQueue = { name: unique('forged') }
  const start = { namespace: NAMESPACE, workflowId, requestId: workflowId, taskQueue }
  await service.startWorkflowExecution({ ...start, workflowType: { name: 'forged' } })
  const { taskToken } = await service.pollWorkflowTaskQueue({ namespace: NAMESPACE, taskQueue })
  const commands = tasks.map(scheduling)
  await service.respondWorkflowTaskCompleted({ namespace: NAMESPACE, taskToken, commands })
  // It takes no further task: what ends during one is held back until that is over.
  const handle = workflow.getHandle(workflowId)
  const outcomes = await eventually(async () => {
    const { events } = await handle.fetchHistory()
    const ended = new Map((events ?? []).flatMap((event) => outcomeIn(event, events ?? [])))
    return ended.size === tasks.length ? ended : undefined
  }, PATIENCE_MS)
  await handle.terminate()
  return tasks.map((_, nth) => outcomes.get(nth))
}

function scheduling({ activity, queue, input }: Task, nth: number): temporal.api.command.v1.ICommand {
  return {
    commandType: CommandType.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK,
    scheduleActivityTaskCommandAttributes: {
      activityId: String(nth),
      activityType: { name: activity },
      taskQueue: { name: queue },
      input: { payloads: [...input] },
      startToCloseTimeout: { seconds: 30 as never },
      retryPolicy: { maximumAttempts: 1 },
    },
  }
}

/** The task that ended in an event, and its outcome. */
function outcomeIn(event: Event, events: readonly Event[]): [number, string][] {
  const { activityTaskCompletedEventAttributes: completed, activityTaskFailedEventAttributes: failed } = event
  const scheduledEventId = (completed ?? failed)?.scheduledEventId
  const scheduled = events.find(({ eventId }) => scheduledEventId && eventId?.equals(scheduledEventId))
  if (scheduled === undefined) return []
  const nth = Number(scheduled.activityTaskScheduledEventAttributes?.activityId)
  return [[nth, completed ? 'completed' : String(failed?.failure?.applicationFailureInfo?.type)]]
}

/** Starts a workflow as any client with access to Temporal can. */
export interface ForgedStart {
  readonly workflowId: string
  readonly type: string
  readonly queue: string
  readonly input: readonly Payload[]
}

/** @returns the type of the failure that ended it, and the names of the activities that it scheduled */
export const startForged = ({ workflowId, type, queue, input }: ForgedStart) =>
  withRawClient(async ({ workflow, workflowService: service }) => {
    await service.startWorkflowExecution({
      namespace: NAMESPACE,
      workflowId,
      requestId: unique('request'),
      workflowType: { name: type },
      taskQueue: { name: queue },
      input: { payloads: [...input] },
      // A forged start that is accepted by mistake must not outlast the test.
      workflowExecutionTimeout: { seconds: 30 as never },
    })
    return eventually(async () => {
      const { events } = await workflow.getHandle(workflowId).fetchHistory()
      const last = events?.at(-1)
      const isOpen = !last?.workflowExecutionFailedEventAttributes && !isUnfailedEnd(last)
      if (isOpen) return undefined
      const failure = last?.workflowExecutionFailedEventAttributes?.failure
      const activities = (events ?? []).flatMap(
        (event) => event.activityTaskScheduledEventAttributes?.activityType?.name ?? [],
      )
      return { failed: failure?.applicationFailureInfo?.type ?? 'not failed', activities }
    }, PATIENCE_MS)
  })

const isUnfailedEnd = (event: Event | undefined) =>
  Boolean(event?.workflowExecutionCompletedEventAttributes ?? event?.workflowExecutionTimedOutEventAttributes)
