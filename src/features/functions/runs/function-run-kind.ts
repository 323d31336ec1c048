/** Runs of functions as a kind of runs (features/runs/run-kind.ts), and how expired ones are removed. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { durationMs } from '../../../core/units.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { TaskContext } from '../../background/background-task.ts'
import type { WorkspaceRetention } from '../../retention/retention-settings.ts'
import type { RunEnd, RunKind } from '../../runs/run-kind.ts'
import { FUNCTION_LIMITS } from '../limits.ts'
import { FUNCTION_RUN, failRun } from './record-run.ts'
import { startRecorded } from './start-recorded.ts'

/** Longer than a caller waits for a slot and the start of its run together. */
const CALLER_SECONDS = 2 * FUNCTION_LIMITS.recheckSeconds

/** A condition: the execution that calls is open. It tries to start the run until its step ends, however long Temporal is away. */
const IS_CALLER_OPEN = sql`(r.trigger ->> 'kind' = 'flow'
  and exists (select from executions e where e.id = r.trigger ->> 'id' and e.ended_at is null))`

export const FUNCTION_RUNS: RunKind = {
  name: FUNCTION_RUN,
  plural: 'function runs',
  table: sql`function_runs`,
  owner: sql`r.function_id`,
  workflowId: sql`null::text`,
  recordedAt: sql`r.created_at`,
  // Without a limit any more, the runs that still queue get the most slots that a function may have.
  slotsOf: (
    functionId,
  ) => sql`coalesce((select (config ->> 'concurrency')::integer from functions where id = ${functionId}),
    ${FUNCTION_LIMITS.config.concurrencyMax}::integer)`,
  isPending: sql`(r.status = 'queued' and r.ended_at is null)`,
  isCancelRequested: sql`false`,
  // Callers of asynchronous runs were told that they will run. One that waits starts its run itself, as soon as it has a slot.
  unstarted: sql`case when r.is_async then 'start'
    when s.run_id is not null and r.created_at > now() - make_interval(secs => ${CALLER_SECONDS}::integer) then 'wait'
    when ${IS_CALLER_OPEN} then 'wait'
    else 'lost' end`,
  version: sql`(select coalesce(max(l.seq), 0) from function_run_logs l
    where l.tenant_id = r.tenant_id and l.workspace_id = r.workspace_id and l.run_id = r.id)`,
  isSuspended: sql`false`,
  recheckSeconds: FUNCTION_LIMITS.recheckSeconds,
  start: startRecorded,
  removeExpired,
  end: endRun,
}

async function endRun(scope: WorkspaceScope, id: string, end: RunEnd): Promise<void> {
  await failRun(scope, id, { code: 'run_cut_off', detail: DETAILS[end] })
}

const DETAILS: Readonly<Record<RunEnd, string>> = {
  completed: 'Its workflow ended without a record.',
  faulted: 'Its workflow failed without a record.',
  cancelled: 'Its workflow was cancelled.',
  terminated: 'Its workflow was terminated in Temporal.',
  timed_out:
    'Its workflow has reached the time limit that the platform gives to a run: no worker has completed it in time.',
  lost: 'The workflow of the run does not exist in Temporal, or never started.',
  lost_in_restore:
    'The installation was restored, and the restored Temporal does not know the workflow of the run.',
  orphaned: 'What would have started it has ended.',
}

/**
 * Removes one batch, with its lines. Dead letters are kept at least 30 days: they wait for a person.
 * @returns true if more may have expired
 */
async function removeExpired({ scope }: TaskContext, retention: WorkspaceRetention): Promise<boolean> {
  const { runsKept, deadLettersKept, runsMax } = FUNCTION_LIMITS.retention
  const runsMs = durationMs(retention.function_runs ?? runsKept)
  const lettersMs = Math.max(runsMs, durationMs(deadLettersKept))
  const before = (ms: number) => sql`ended_at < ${new Date(Date.now() - ms)}`
  const removed = await scope.rows(sql`
    delete from function_runs where ctid = any(array(
      select ctid from function_runs where ended_at is not null
        and (not is_dead_letter and ${before(runsMs)} or is_dead_letter and ${before(lettersMs)})
      limit ${runsMax})) returning id`)
  return removed.length === runsMax
}
