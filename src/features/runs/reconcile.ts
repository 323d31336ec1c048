/** Reconciles runs whose record and workflow disagree: asks Temporal, then starts the workflow or ends the record. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { workflowsOf } from '../../access/scope-services.ts'
import { uuidOf } from '../../core/ids.ts'
import { workflowId } from '../../core/tenant.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { type BackgroundTask, findRoundRobin } from '../background/background-task.ts'
import { BACKGROUND_LIMITS } from '../background/limits.ts'
import type { RunKind, Unstarted } from './run-kind.ts'
import { type AdmittedRow, IS_QUEUED, releaseSlot, startAdmitted } from './slots.ts'

/**
 * A task that reconciles the runs of a kind that a statement finds. The items are ids of runs.
 * @param due as in {@link findRoundRobin}
 */
export const reconcileTask = (
  kind: RunKind,
  name: string,
  due: (after: string, limit: number) => Sql,
): BackgroundTask<string> => ({
  name,
  pollMs: BACKGROUND_LIMITS.pollMs,
  atOnce: BACKGROUND_LIMITS.itemsMax,
  find: findRoundRobin(due, (row) => row.id),
  run: ({ scope, isActive }, id) => reconcileRun(scope, kind, { id, mayStart: isActive }),
})

interface RecordedRun {
  readonly id: string
  readonly owner_id: string
  /** Null if it follows from owner and id. */
  readonly workflow_id: string | null
  readonly is_open: boolean
  /** The installation was restored since it was recorded. */
  readonly was_restored: boolean
  readonly is_queued: boolean
  readonly is_pending: boolean
  readonly is_cancel_requested: boolean
  /** It got its slot back and has not acknowledged it. */
  readonly is_notify_pending: boolean
  /** If it is pending, and its workflow does not exist. */
  readonly unstarted: Unstarted
}

/**
 * Starts a run that has not started, or ends it if it will never start; ends one whose workflow is over, and passes on a slot that
 * an ended one has kept; leaves any other as it is. Idempotent.
 * @param mayStart false if the workspace may not start runs now
 */
export async function reconcileRun(
  scope: WorkspaceScope,
  kind: RunKind,
  { id, mayStart }: { readonly id: string; readonly mayStart: boolean },
): Promise<void> {
  const run = await scope.row<RecordedRun>(record(kind, id))
  if (run === undefined) return
  if (!run.is_open) {
    await startAdmitted(scope, kind.name, await scope.rows<AdmittedRow>(releaseSlot(id)))
    return
  }
  if (run.is_queued) return
  const workflow = run.workflow_id ?? workflowId(scope.ref, run.owner_id, uuidOf(id))
  const status = await workflowsOf(scope).status(workflow)
  if (status === 'open') {
    if (run.is_cancel_requested) await workflowsOf(scope).cancel(workflow)
    if (run.is_notify_pending) await startAdmitted(scope, kind.name, [run])
  } else if (status !== undefined) await kind.end(scope, id, status)
  else if (!run.is_pending) await kind.end(scope, id, run.was_restored ? 'lost_in_restore' : 'lost')
  else if (run.unstarted === 'start') {
    if (mayStart) await startAdmitted(scope, kind.name, [run])
  } else if (run.unstarted !== 'wait') await kind.end(scope, id, run.unstarted)
}

const record = (kind: RunKind, id: string): Sql => sql`
  select r.id, ${kind.owner} as owner_id, ${kind.workflowId} as workflow_id, r.ended_at is null as is_open,
    exists (select from public.tenon_installation i where i.restored_at > ${kind.recordedAt}) as was_restored,
    ${IS_QUEUED} as is_queued, ${kind.isPending} as is_pending, ${kind.isCancelRequested} as is_cancel_requested,
    coalesce(s.notify_pending, false) as is_notify_pending, ${kind.unstarted} as unstarted
  from ${kind.table} r left join run_slots s on s.run_id = r.id
  where r.id = ${id}`
