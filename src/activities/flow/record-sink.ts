/** Writes the last record of an execution before Temporal learns that it has ended, and shows its end after Temporal has it. */

import proto from '@temporalio/proto'
import type { InjectedSinks, NativeConnection } from '@temporalio/worker'
import type { WorkflowInfo } from '@temporalio/workflow'
import type { Access } from '../../access/access.ts'
import { privilege } from '../../access/privileges.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import type { Ending, ExecutionUpdate } from '../../core/execution.ts'
import { uuidOf } from '../../core/ids.ts'
import { Problem } from '../../core/problem.ts'
import { refOf } from '../../core/tenant.ts'
import type { Trace } from '../../core/trace.ts'
import { confirmEnd, recordEnding } from '../../features/flows/executions/record.ts'
import { FLOW_LIMITS } from '../../features/flows/limits.ts'
import type { Log } from '../../infra/log.ts'
import { retryTransient } from '../../infra/retry.ts'
import { inTrace, traceWithin } from '../../infra/trace-context.ts'
import type { Records } from '../contract.ts'
import { workspaceOf } from '../tenant-interceptor.ts'
import type { WorkLog } from '../work-log.ts'

const openRecord = privilege('flows.records')

const { taskMs: holdMs, backgroundMs: patienceMs } = FLOW_LIMITS.recordRetry

/** Resolves with the status with which a workflow run has ended in Temporal; undefined if it continues as new, or was ended from outside. */
export type AwaitClose = (workflowId: string, runId: string) => Promise<Ending['status'] | undefined>

export interface RecordSink {
  readonly write: InjectedSinks<Records>['records']['write']
  /** Resolves when no record is about to be ended. */
  settled(): Promise<void>
}

/**
 * The worker completes the workflow task only after `write` has returned. While a server is unavailable, `write` retries for
 * longer than the task's timeout, so Temporal gives the task to another worker. After that, or for another error that may
 * pass, a background retry takes over, so that the task's slot becomes free. The record shows the end when Temporal has it; if
 * this process ends before, the reconciler sees to that.
 */
export function recordSink(
  access: Access,
  { log, work }: { readonly log: Log; readonly work: WorkLog },
  awaitClose: AwaitClose,
): RecordSink {
  const retries = new RetryQueue()
  const ends = new Set<Promise<void>>()
  const write = async (
    { workflowId, runId }: Pick<WorkflowInfo, 'workflowId' | 'runId'>,
    update: ExecutionUpdate,
  ) => {
    try {
      const scope = scopeOf(access, workflowId, update)
      const record = () => recordEnding(scope, update)
      const written = await retryTransient(holdMs, record).then(
        () => undefined,
        (error: unknown) => {
          if (!isRetryable(error)) throw error
          return { late: retries.add(workflowId, record) }
        },
      )
      const end = async () => {
        await written?.late
        const status = await awaitClose(workflowId, runId)
        if (status === undefined) return
        await retryTransient(patienceMs, () => confirmEnd(scope, update.execution_id, status), isRetryable)
        work.executionEnded(workflowId, update.execution_id, status)
      }
      const ended = end()
        .catch((error: unknown) => logFailure(log, workflowId, error))
        .finally(() => ends.delete(ended))
      ends.add(ended)
    } catch (error) {
      logFailure(log, workflowId, error)
    }
  }
  const fn: InjectedSinks<Records>['records']['write']['fn'] = (info, update) =>
    inTrace(traceOf(info), () => write(info, update))
  const settled = async () => {
    await Promise.all(ends)
  }
  return { write: { fn }, settled }
}

/** The trace of a workflow by its search attributes, for the lines about it. */
function traceOf({ searchAttributes }: Pick<WorkflowInfo, 'searchAttributes'>): Trace | undefined {
  const [requestId, traceId] = (searchAttributes['RequestIds'] ?? []) as readonly string[]
  return requestId === undefined || traceId === undefined ? undefined : traceWithin(requestId, traceId)
}

/** Retries writing records in the background, at most one of each workflow. */
class RetryQueue {
  readonly #waiting = new Map<string, { write: () => Promise<void>; readonly written: Promise<void> }>()

  /**
   * A repeated workflow task may end otherwise, so its record takes the place of the one that waits.
   * @returns a promise of the newest record
   */
  add(workflowId: string, write: () => Promise<void>): Promise<void> {
    const before = this.#waiting.get(workflowId)
    if (before !== undefined) {
      before.write = write
      return before.written
    }
    const writeNewest = async () => {
      for (;;) {
        const newest = entry.write
        await newest()
        if (newest === entry.write) return
      }
    }
    const written = retryTransient(patienceMs, writeNewest, isRetryable).finally(() =>
      this.#waiting.delete(workflowId),
    )
    const entry = { write, written }
    this.#waiting.set(workflowId, entry)
    return written
  }
}

function logFailure(log: Log, workflow: string, error: unknown): void {
  log.error({ err: error, workflow }, 'execution record write failed')
}

/** The workspace of the workflow. @throws Problem `forbidden` if the update is for another execution than the workflow's own */
function scopeOf(access: Access, workflowId: string, { execution_id }: ExecutionUpdate): WorkspaceScope {
  const ref = refOf(workflowId)
  const isItself = workflowId.endsWith(`:${uuidOf(execution_id)}`)
  if (ref === undefined || !isItself)
    throw new Problem('forbidden', { detail: 'The record belongs to another execution than its workflow.' })
  const actor = { subject: workflowId, role: 'workspace_admin' } as const
  return openRecord(access, workspaceOf({ ref }), actor)
}

const isRetryable = (error: unknown) => !(error instanceof Problem && error.isFinal)

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
