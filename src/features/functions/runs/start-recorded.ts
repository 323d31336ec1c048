/** Starts asynchronous runs by their records: those that get a slot, those that are run again, and those whose start was lost. */

import { privilege } from '../../../access/privileges.ts'
import type { AdminScope, WorkspaceScope } from '../../../access/scope.ts'
import type { TenantId, WorkspaceId } from '../../../core/tenant.ts'
import { readTrace } from '../../../core/trace.ts'
import type { FunctionTrigger, Json, WorkCaller } from '../../../core/work.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { inTrace } from '../../../infra/trace-context.ts'
import { currentCaller } from '../../runs/caller.ts'
import { promoteQueued, queueRun } from '../../runs/slots.ts'
import { notifyRunChanged } from '../../runs/watcher.ts'
import type { ConfigChange } from '../config.ts'
import { FUNCTION_RUN, failUnlessBegun } from './record-run.ts'
import { type Invocable, runInput, startWorkflow } from './run-workflow.ts'

interface RecordedRow extends Invocable {
  readonly trigger: FunctionTrigger
  readonly is_async: boolean
  readonly input: Json
  readonly context: Json | null
  readonly caller: WorkCaller
  /** That it was created in. */
  readonly trace: string | null
  /** Null if it neither holds a slot nor queues for one. */
  readonly slot: string | null
}

/**
 * Starts an asynchronous run by its record, with the rights that its caller still has, or queues it for a slot; tells a caller that
 * waits that its run holds its slot. Idempotent. The scope is an admin's.
 * @returns false if the caller has lost its rights: then the run has failed
 */
export async function startRecorded(scope: WorkspaceScope, runId: string): Promise<boolean> {
  const row = await scope.row<RecordedRow>(sql`
    select f.id, f.name, r.version, f.config, r.trigger, r.is_async, r.input, r.context, r.caller, r.trace, s.state as slot
    from function_runs r join functions f on f.id = r.function_id left join run_slots s on s.run_id = r.id
    where r.id = ${runId} and r.ended_at is null and s.state is distinct from 'queued'`)
  if (row === undefined) return true
  if (!row.is_async) {
    notifyRunChanged(scope, runId)
    return true
  }
  const { concurrency = null } = row.config
  if (row.slot === null && concurrency !== null) {
    await queueRun(scope, FUNCTION_RUN, { runId, ownerId: row.id })
    return true
  }
  const { trigger, input, context, slot: _slot, trace, ...invoked } = row
  const { caller, lost } = await currentCaller(scope, row)
  if (lost !== undefined) {
    const error = { code: 'forbidden', detail: `The run was not started: ${lost}.` }
    return !(await failUnlessBegun(scope, runId, error))
  }
  const request = { id: row.id, input, trigger, caller, isAsync: true, ...(context !== null && { context }) }
  const run = runInput(scope, runId, invoked, request, trigger)
  await inTrace(readTrace(trace), () => startWorkflow(scope, run))
  return true
}

const inWorkspace = privilege('functions.slots')

interface Configured {
  readonly id: string
  readonly tenant_id: string
  readonly workspace_id: string
}

/** After a change of the configuration: starts the runs that get one of the slots that were added, without waiting for them. */
export function setSlotsAfterChange(
  scope: AdminScope,
  { concurrency }: ConfigChange,
  { id, tenant_id, workspace_id }: Configured,
): void {
  if (concurrency === undefined) return
  const ref = { tenantId: tenant_id as TenantId, workspaceId: workspace_id as WorkspaceId }
  const inside = inWorkspace(scope, ref)
  promoteQueued(inside, FUNCTION_RUN, { ownerId: id }).catch((error: unknown) =>
    inside.logError(error, 'queued function runs not started'),
  )
}
