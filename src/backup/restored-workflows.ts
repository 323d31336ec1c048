/** Compares Temporal with a restored database, which is right: ends workflows that it does not know, and begins jobs again whose workflow is lost. */

import { type Client as Temporal, WorkflowNotFoundError } from '@temporalio/client'
import type { Client } from 'pg'
import { randomIds, typeId } from '../core/ids.ts'
import { withoutScheduledTime } from '../core/tenant.ts'

export interface SettledWorkflows {
  /** Workflows that were open in Temporal, and not in the database. */
  readonly terminated: number
  readonly schedulesRemoved: number
  /** Jobs that are open in the database, and whose workflow is not. */
  readonly jobsBegun: number
}

const REASON = 'The installation was restored to a time at which this work did not exist, or had ended.'

/** Before any worker runs, so that nothing moves meanwhile. */
export async function settleWorkflows(database: Client, temporal: Temporal): Promise<SettledWorkflows> {
  return {
    terminated: await terminateUnknown(database, temporal),
    schedulesRemoved: await removeUnknownSchedules(database, temporal),
    jobsBegun: await beginLostJobs(database, temporal),
  }
}

/**
 * True if a record wants the workflow $1 to go on: of an execution, of a run, or of a job. Others, such as the registration of
 * schedules, do what the database says whenever they run, so they may go on as long as their tenant exists.
 */
const IS_WANTED = `
  select case
    when $2 like 'flow\\_%' and $4 then exists (select from executions where workflow_id = $1 and ended_at is null)
    when $2 like 'fn\\_%' then exists (select from function_runs where id = $3 and ended_at is null)
      or exists (select from triggers where id = $5)
    when $2 like '%-provision' then exists (select from operations where workflow_id = $1 and finished_at is null)
    else exists (select from tenants where id = split_part($1, ':', 1) and state <> 'deleted') end as wanted`

async function terminateUnknown(database: Client, temporal: Temporal): Promise<number> {
  let terminated = 0
  for await (const { workflowId, searchAttributes } of temporal.workflow.list({
    query: 'ExecutionStatus = "Running"',
  })) {
    const [, , subject, uuid, ...rest] = withoutScheduledTime(workflowId).split(':')
    // Not one of the platform's, such as those of Temporal's schedules.
    if (subject === undefined || uuid === undefined || rest.length > 0) continue
    const isExecution = searchAttributes['ExecutionId'] !== undefined
    const values = [workflowId, subject, typeId('run', uuid), isExecution, typeId('trg', uuid)]
    const { rows } = await database.query<{ wanted: boolean }>(IS_WANTED, values)
    if (rows[0]?.wanted) continue
    await temporal.workflow.getHandle(workflowId).terminate(REASON).catch(unlessGone)
    terminated += 1
  }
  return terminated
}

/** Schedules of triggers that were declared later. Their ids end as those of the workflows that they start. */
async function removeUnknownSchedules(database: Client, temporal: Temporal): Promise<number> {
  let removed = 0
  for await (const { scheduleId } of temporal.schedule.list()) {
    const [tenant, , , uuid] = scheduleId.split(':')
    if (tenant === undefined || uuid === undefined) continue
    const { rowCount } = await database.query('select from triggers where tenant_id = $1 and id = $2', [
      tenant,
      typeId('trg', uuid),
    ])
    if (rowCount !== 0) continue
    await temporal.schedule.getHandle(scheduleId).delete()
    removed += 1
  }
  return removed
}

/**
 * Queues jobs again whose workflow is lost, for a workflow of another id, since Temporal may know that it has ended. A background task starts
 * all that is queued (features/tenants/due-jobs.ts). Steps are idempotent, and find what cannot go on: an import whose archive is gone
 * fails, and is undone.
 */
async function beginLostJobs(database: Client, temporal: Temporal): Promise<number> {
  const { rows } = await database.query<{ id: string; workflow_id: string }>(
    `select id, workflow_id from operations where state = 'running'`,
  )
  let begun = 0
  for (const { id, workflow_id } of rows) {
    if (await isOpen(temporal, workflow_id)) continue
    begun += 1
    await database.query(
      `update operations set state = 'queued', steps = '[]', workflow_id = regexp_replace(workflow_id, '[^:]+$', $2) where id = $1`,
      [id, randomIds.uuid()],
    )
  }
  return begun
}

async function isOpen(temporal: Temporal, workflowId: string): Promise<boolean> {
  try {
    return (await temporal.workflow.getHandle(workflowId).describe()).status.name === 'RUNNING'
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false
    throw error
  }
}

function unlessGone(error: unknown): void {
  if (!(error instanceof WorkflowNotFoundError)) throw error
}
