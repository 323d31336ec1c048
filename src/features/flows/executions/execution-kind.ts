/** Executions of flows as a kind of runs (features/runs/run-kind.ts). */

import type { WorkspaceScope } from '../../../access/scope.ts'
import type { Ending } from '../../../core/execution.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { RUN_LIMITS } from '../../runs/limits.ts'
import type { RunEnd, RunKind } from '../../runs/run-kind.ts'
import { releaseSlot, startAdmitted } from '../../runs/slots.ts'
import { cancelApprovals } from '../approvals/approval-record.ts'
import { FLOW_LIMITS } from '../limits.ts'
import { deleteSubscriptions } from '../subscriptions/subscriptions.ts'
import { EXECUTION } from './concurrency.ts'
import { confirmEnd } from './record.ts'
import { removeExpired } from './retention.ts'
import { startOrNotify } from './start-workflow.ts'

/** A schedule starts it, perhaps late: a row that has ended would not keep it from that. */
const IS_SCHEDULED = sql`r.trigger_kind = 'schedule'`
const IS_CANCEL_REQUESTED = sql`(r.cancel_requested or coalesce(s.cancel_requested, false))`
/** A schedule admitted it recently and starts it itself. */
const IS_STARTING = sql`(${IS_SCHEDULED} and s.run_id is null
  and r.started_at > now() - make_interval(secs => ${FLOW_LIMITS.scheduleStartSeconds}::integer))`

export const EXECUTIONS: RunKind = {
  name: EXECUTION,
  plural: 'executions',
  table: sql`executions`,
  owner: sql`r.flow_id`,
  workflowId: sql`r.workflow_id`,
  recordedAt: sql`r.started_at`,
  isPending: sql`(r.status = 'pending' and r.ended_at is null)`,
  isCancelRequested: IS_CANCEL_REQUESTED,
  // A sub-flow is started by its parent. The input of a rerun is stored with its slot alone.
  unstarted: sql`case
    when r.trigger_kind = 'flow' then case when exists (select from executions p where p.id = r.trigger_id and p.ended_at is null)
      then 'wait' else 'orphaned' end
    when ${IS_CANCEL_REQUESTED} and not ${IS_SCHEDULED} then 'cancelled'
    when r.trigger_kind = 'rerun' and s.run_id is null then 'lost'
    when ${IS_STARTING} then 'wait'
    else 'start' end`,
  version: sql`r.events`,
  isSuspended: sql`(r.suspended or r.paused)`,
  recheckSeconds: RUN_LIMITS.recheckSeconds,
  start: startOrNotify,
  removeExpired,
  end: endExecution,
}

const RECORDED_ENDS: Readonly<
  Record<RunEnd, { readonly status: Ending['status']; readonly type?: string; readonly detail?: string }>
> = {
  completed: { status: 'completed' },
  cancelled: { status: 'cancelled' },
  faulted: { status: 'faulted', detail: 'The execution failed without recording an error.' },
  terminated: { status: 'cancelled', detail: 'The workflow was terminated in Temporal.' },
  timed_out: {
    status: 'faulted',
    detail:
      'The workflow has reached the time limit of the Temporal server, which an operator sets; the platform sets none.',
  },
  orphaned: {
    status: 'cancelled',
    detail: 'The execution that runs this flow ended before it was started.',
  },
  lost: { status: 'faulted', detail: 'The workflow does not exist in Temporal, or never started.' },
  lost_in_restore: {
    status: 'faulted',
    type: 'lost_in_restore',
    detail:
      'The installation was restored, and the restored Temporal does not know the workflow. The record shows the steps until then; `tenon flow rerun` repeats the execution from its start.',
  },
}

async function endExecution(scope: WorkspaceScope, id: string, end: RunEnd): Promise<void> {
  const { status, type, detail } = RECORDED_ENDS[end]
  if (end === status && (await confirmEnd(scope, id, end))) return
  const error =
    detail === undefined
      ? null
      : JSON.stringify({ ...(type && { type }), title: 'The execution was interrupted', detail })
  const [, , next = []] = await scope.batch(
    sql`update executions set status = ${status}, error = ${error}::jsonb, ended_at = now()
      where id = ${id} and ended_at is null`,
    cancelOpenSteps(id),
    releaseSlot(id),
    deleteSubscriptions(id),
    cancelApprovals(id),
  )
  await startAdmitted(scope, EXECUTION, next)
}

const cancelOpenSteps = (
  id: string,
): Sql => sql`update execution_steps set status = 'cancelled', ended_at = now()
  where execution_id = ${id} and status = 'running'`
