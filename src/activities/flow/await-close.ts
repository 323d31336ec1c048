/** Waits in Temporal for the end of a workflow run. */

import proto from '@temporalio/proto'
import type { NativeConnection } from '@temporalio/worker'
import type { AwaitClose } from './record-sink.ts'

const { EventType, HistoryEventFilterType } = proto.temporal.api.enums.v1

const STATUSES = {
  [EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED]: 'completed',
  [EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED]: 'faulted',
  [EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED]: 'cancelled',
} as const

/** Asks with long polls, which Temporal answers as soon as the run has ended, and after a while in any case. */
export function awaitCloseOn({ workflowService }: NativeConnection, namespace: string): AwaitClose {
  return async (workflowId, runId) => {
    let nextPageToken: Uint8Array = new Uint8Array()
    for (;;) {
      const polled = await workflowService.getWorkflowExecutionHistory({
        namespace,
        execution: { workflowId, runId },
        waitNewEvent: true,
        historyEventFilterType: HistoryEventFilterType.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT,
        nextPageToken,
      })
      const last = polled.history?.events?.at(-1)
      if (last !== undefined) return STATUSES[last.eventType as keyof typeof STATUSES]
      nextPageToken = polled.nextPageToken
    }
  }
}
