/** Reconciles one run whose record and workflow disagree: asks Temporal, then starts the workflow or ends the record. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { workflowsOf } from '../../access/scope-services.ts'
import { uuidOf } from '../../core/ids.ts'
import { workflowId } from '../../core/tenant.ts'
import { sql } from '../../infra/postgres/sql.ts'
import type { RunKind, Unstarted } from './run-kind.ts'
import { type AdmittedRow, releaseSlot, startAdmitted } from './slots.ts'

interface OpenRun {
  readonly id: string
  readonly owner_id: string
  /** Null if it follows from owner and id. */
  readonly workflow_id: string | null
  readonly is_pending: boolean
  readonly is_cancel_requested: boolean
  /** It got its slot back and has not acknowledged it. */
  readonly is_notify_pending: boolean
  /** If it is pending, and its workflow does not exist. */
  readonly unstarted: Unstarted
}

/**
 * Starts a run that has not started, or ends it if it will never start; ends one whose workflow is over, and leaves any other as it
 * is. Idempotent.
 * @param mayStart false if the workspace may not start runs now
 */
export async function reconcileRun(
  scope: WorkspaceScope,
  kind: RunKind,
  { id, mayStart }: { readonly id: string; readonly mayStart: boolean },
): Promise<void> {
  const run = await findOpenRun(scope, kind, id)
  if (run === undefined) return
  const workflow = run.workflow_id ?? workflowId(scope.ref, run.owner_id, uuidOf(id))
  const status = await workflowsOf(scope).status(workflow)
  if (status === 'open') {
    if (run.is_cancel_requested) await workflowsOf(scope).cancel(workflow)
    if (run.is_notify_pending) await startAdmitted(scope, kind.name, [run])
  } else if (status !== undefined) await kind.end(scope, id, status)
  else if (!run.is_pending) await kind.end(scope, id, 'lost')
  else if (run.unstarted === 'start') {
    if (mayStart) await startAdmitted(scope, kind.name, [run])
  } else if (run.unstarted !== 'wait') await kind.end(scope, id, run.unstarted)
}

/** @returns undefined if the run has ended or is queued; a slot that an ended run has kept is passed on */
async function findOpenRun(scope: WorkspaceScope, kind: RunKind, id: string): Promise<OpenRun | undefined> {
  const run = await scope.row<OpenRun & { is_open: boolean; is_queued: boolean }>(sql`
    select r.id, ${kind.owner} as owner_id, ${kind.workflowId} as workflow_id, r.ended_at is null as is_open,
      s.state is not distinct from 'queued' and coalesce(s.expires_at > now(), true) as is_queued,
      ${kind.isPending} as is_pending, ${kind.isCancelRequested} or coalesce(s.cancel_requested, false) as is_cancel_requested,
      coalesce(s.notify_pending, false) as is_notify_pending, ${kind.unstarted} as unstarted
    from ${kind.table} r left join run_slots s on s.run_id = r.id
    where r.id = ${id}`)
  if (run?.is_open === false)
    await startAdmitted(scope, kind.name, await scope.rows<AdmittedRow>(releaseSlot(id)))
  return run?.is_open === true && !run.is_queued ? run : undefined
}
