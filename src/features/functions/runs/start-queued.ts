/** Starts asynchronous runs by their records: those that get a slot, and those whose start was lost. */

import { openRunScope } from '../../../access/access.ts'
import type { AdminScope, WorkspaceScope } from '../../../access/scope.ts'
import type { TenantId, WorkspaceId } from '../../../core/tenant.ts'
import type { FunctionCaller, FunctionTrigger, Json } from '../../../core/work.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { ConfigChange } from '../config.ts'
import { FUNCTION_LIMITS } from '../limits.ts'
import { admitQueued } from './concurrency.ts'
import { currentCaller } from './current-rights.ts'
import { recordFailure } from './record-failure.ts'
import { type Invocable, runInput, startWorkflow } from './run-workflow.ts'

/**
 * Starts the asynchronous runs that get a slot now, up to `functionStartsAtOnce`; the reconciler starts the rest, and the
 * queue of a workspace that was suspended. The scope is an admin's. A run that cannot be started keeps its slot.
 */
export async function startQueued(scope: WorkspaceScope, functionId: string): Promise<void> {
  let left: number = FUNCTION_LIMITS.queuedStartsMax
  while (left > 0) {
    const admitted = await admitQueued(scope, functionId, left)
    let refused = 0
    for (const id of admitted) if (!(await startRecorded(scope, id))) refused += 1
    left -= admitted.length
    // A run that was refused has given its slot back.
    if (left > 0 && refused === 0) return
  }
  await scope.rows(sql`
    update function_runs set due_at = now() where id = (
      select id from function_runs
      where function_id = ${functionId} and ended_at is null and slot = 'awaited' and is_async order by id limit 1)`)
}

/** As {@link startQueued}, without waiting for it: what fails here, the reconciler starts. */
export function wakeQueue(scope: WorkspaceScope, functionId: string): void {
  startQueued(scope, functionId).catch((error: unknown) =>
    scope.logError(error, 'queued function runs not started'),
  )
}

interface Configured {
  readonly id: string
  readonly tenant_id: string
  readonly workspace_id: string
}

/** As {@link wakeQueue}, after a change of the configuration that may have given the function further slots. */
export function wakeQueueAfterChange(
  scope: AdminScope,
  { concurrency }: ConfigChange,
  { id, tenant_id, workspace_id }: Configured,
): void {
  if (concurrency === undefined) return
  const ref = { tenantId: tenant_id as TenantId, workspaceId: workspace_id as WorkspaceId }
  wakeQueue(openRunScope(scope, ref), id)
}

interface RecordedRow extends Invocable {
  readonly trigger: FunctionTrigger
  readonly input: Json
  readonly context: Json | null
  readonly caller: FunctionCaller
}

/**
 * Starts an asynchronous run by its record, with the rights that its caller still has, unless it has ended. Idempotent. The scope
 * is an admin's.
 * @returns false if the caller has lost its rights: then the run has failed
 */
export async function startRecorded(scope: WorkspaceScope, runId: string): Promise<boolean> {
  const row = await scope.row<RecordedRow>(sql`
    select f.id, f.name, r.version, f.config, r.trigger, r.input, r.context, r.caller
    from function_runs r join functions f on f.id = r.function_id
    where r.id = ${runId} and r.is_async and r.ended_at is null`)
  if (row === undefined) return true
  const { trigger, input, context, ...invoked } = row
  const { caller, lost } = await currentCaller(scope, row)
  if (lost !== undefined) {
    const error = { code: 'forbidden', detail: `The run was not started: ${lost}.` }
    await recordFailure(scope, runId, error, { unlessBegun: true })
    return false
  }
  const request = { id: row.id, input, trigger, caller, isAsync: true, ...(context !== null && { context }) }
  await startWorkflow(scope, runInput(scope, runId, invoked, request, trigger))
  return true
}
