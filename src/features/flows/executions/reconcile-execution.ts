/** Reconciles one execution whose row and workflow disagree: asks Temporal, then starts the workflow or ends the row. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { workflowsOf } from '../../../access/scope-services.ts'
import type { Ending } from '../../../core/execution.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import type { WorkflowStatus } from '../../../infra/temporal/temporal.ts'
import { cancelApprovals } from '../approvals/approval-record.ts'
import { FLOW_LIMITS } from '../limits.ts'
import { deleteSubscriptions } from '../subscriptions/subscriptions.ts'
import { promoteNext, releaseSlot } from './concurrency.ts'
import { confirmEnd } from './record.ts'
import { resumeAdmitted } from './start-workflow.ts'

interface ExecutionRow {
  readonly id: string
  readonly workflow_id: string
  readonly status: string
  /** A row of `concurrency_slots` exists. */
  readonly has_slot: boolean
  readonly is_cancel_requested: boolean
  /** It got its slot back and has not acknowledged it. */
  readonly is_notify_pending: boolean
  readonly is_rerun: boolean
  /** For a sub-flow: its parent is open and may still start it. */
  readonly parent_is_open: boolean
  readonly is_child: boolean
  /** A schedule admitted it recently and starts it itself. */
  readonly is_starting: boolean
  /** A schedule starts it, perhaps late: a row that has ended would not keep it from that. */
  readonly is_scheduled: boolean
}

/**
 * Starts an execution that has not started, or ends it if its cancellation was requested; ends one whose workflow is over, and
 * leaves any other as it is. Idempotent.
 * @param mayStart false if the workspace may not start executions now
 */
export async function reconcileExecution(
  scope: WorkspaceScope,
  id: string,
  mayStart: boolean,
): Promise<void> {
  const row = await findExecution(scope, id)
  if (row === undefined) return
  const status = await workflowsOf(scope).status(row.workflow_id)
  if (status === 'open') {
    if (row.is_cancel_requested) await workflowsOf(scope).cancel(row.workflow_id)
    if (row.is_notify_pending) await resumeAdmitted(scope, [row])
  } else if (status !== undefined) await endExecution(scope, id, status)
  else if (row.status !== 'pending') await endExecution(scope, id, 'lost')
  else if (row.is_child) await (row.parent_is_open ? undefined : endExecution(scope, id, 'unstarted'))
  else if (row.is_cancel_requested && !row.is_scheduled) await endExecution(scope, id, 'cancelled')
  // The input of a rerun is stored with its slot alone.
  else if (row.is_rerun && !row.has_slot) await endExecution(scope, id, 'lost')
  else if (mayStart && !row.is_starting) await resumeAdmitted(scope, [row])
}

/** Gives free slots of a key to queued executions and starts them. */
export async function promoteQueued(scope: WorkspaceScope, flowId: string, key: string): Promise<void> {
  await resumeAdmitted(scope, await scope.rows<{ id: string }>(promoteNext(flowId, key)))
}

/** @returns undefined if the execution has ended or is queued */
function findExecution(scope: WorkspaceScope, id: string): Promise<ExecutionRow | undefined> {
  return scope.row<ExecutionRow>(sql`
    select e.id, e.workflow_id, e.status, a.execution_id is not null as has_slot,
      e.cancel_requested or coalesce(a.cancel_requested, false) as is_cancel_requested,
      e.trigger_kind = 'schedule' as is_scheduled,
      coalesce(a.notify_pending, false) as is_notify_pending,
      e.rerun_of is not null as is_rerun, e.trigger_kind = 'flow' as is_child,
      exists (select from executions p where p.id = e.trigger_id and p.ended_at is null) as parent_is_open,
      e.trigger_kind = 'schedule' and a.execution_id is null
        and e.started_at > now() - make_interval(secs => ${FLOW_LIMITS.reconciler.scheduleSeconds}::integer) as is_starting
    from executions e left join concurrency_slots a on a.execution_id = e.id
    where e.id = ${id} and e.ended_at is null and a.state is distinct from 'queued'`)
}

type WorkflowEnd = Exclude<WorkflowStatus, 'open'> | 'lost' | 'unstarted'

const RECORDED_ENDS: Readonly<
  Record<WorkflowEnd, { readonly status: Ending['status']; readonly detail?: string }>
> = {
  completed: { status: 'completed' },
  cancelled: { status: 'cancelled' },
  faulted: { status: 'faulted', detail: 'The execution failed without recording an error.' },
  terminated: { status: 'cancelled', detail: 'The workflow was terminated in Temporal.' },
  unstarted: {
    status: 'cancelled',
    detail: 'The execution that runs this flow ended before it was started.',
  },
  lost: { status: 'faulted', detail: 'The workflow does not exist in Temporal, or never started.' },
}

/** Ends the record of an execution, releases its slot, and starts the next. */
async function endExecution(scope: WorkspaceScope, id: string, ending: WorkflowEnd): Promise<void> {
  const { status, detail } = RECORDED_ENDS[ending]
  if (ending === status && (await confirmEnd(scope, id, ending))) return
  const error =
    detail === undefined ? null : JSON.stringify({ title: 'The execution was interrupted', detail })
  const [, , next = []] = await scope.batch(
    sql`update executions set status = ${status}, error = ${error}::jsonb, ended_at = now()
      where id = ${id} and ended_at is null`,
    cancelOpenSteps(id),
    releaseSlot(id),
    deleteSubscriptions(id),
    cancelApprovals(id),
  )
  await resumeAdmitted(scope, next)
}

const cancelOpenSteps = (
  id: string,
): Sql => sql`update execution_steps set status = 'cancelled', ended_at = now()
  where execution_id = ${id} and status = 'running'`
