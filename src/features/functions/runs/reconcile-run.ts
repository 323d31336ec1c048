/** Ends or starts runs that a crash has left behind. The reconciler finds them (open-runs.ts). */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { workflowsOf } from '../../../access/scope-services.ts'
import { uuidOf } from '../../../core/ids.ts'
import { workflowId } from '../../../core/tenant.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { failRun } from './record-run.ts'
import { startQueued, startRecorded } from './start-queued.ts'

interface OpenRun {
  readonly function_id: string
  readonly is_async: boolean
  readonly status: 'queued' | 'running'
  readonly slot: 'awaited' | 'held' | null
}

/**
 * Ends a run whose workflow is over or was never started. Asynchronous runs that no worker has begun are started instead, since
 * their callers were told that they will run; those of a queue in its order. Idempotent.
 * @param mayStart false if the workspace may not start runs now
 */
export async function reconcileRun(scope: WorkspaceScope, runId: string, mayStart: boolean): Promise<void> {
  const run = await scope.row<OpenRun>(
    sql`select function_id, is_async, status, slot from function_runs where id = ${runId} and ended_at is null`,
  )
  if (run === undefined) return
  const status = await workflowsOf(scope).status(workflowId(scope.ref, run.function_id, uuidOf(runId)))
  if (status === 'open') return
  if (status === undefined && run.is_async && run.status === 'queued') {
    if (mayStart) await startLost(scope, runId, run)
    return
  }
  const detail =
    status === undefined
      ? 'The workflow of the run does not exist in Temporal, or never started.'
      : ENDED[status]
  await failRun(scope, runId, { code: 'run_cut_off', detail })
}

async function startLost(
  scope: WorkspaceScope,
  runId: string,
  { function_id, slot }: OpenRun,
): Promise<void> {
  const isStarted = slot !== 'awaited' && (await startRecorded(scope, runId))
  if (slot !== null && !isStarted) await startQueued(scope, function_id)
}

const ENDED = {
  completed: 'Its workflow ended without a record.',
  faulted: 'Its workflow failed without a record.',
  cancelled: 'Its workflow was cancelled.',
  terminated: 'Its workflow was terminated in Temporal, or ran too long.',
} as const
