/** Compares Temporal with a restored database, which is right: ends workflows that it does not know, and jobs whose workflow is lost. */

import { type Client as Temporal, WorkflowNotFoundError } from '@temporalio/client'
import type { Client } from 'pg'
import { typeId } from '../core/ids.ts'
import { withoutScheduledTime } from '../core/tenant.ts'

export interface SettledWorkflows {
  /** Workflows that were open in Temporal, and not in the database. */
  readonly terminated: number
  readonly schedulesRemoved: number
  /** Jobs that were open in the database, and not in Temporal. */
  readonly jobsEnded: number
}

const REASON = 'The installation was restored to a time at which this work did not exist, or had ended.'
const LOST = {
  code: 'lost_in_restore',
  detail: 'The installation was restored, and the workflow of the job is not in the restored Temporal.',
}

/** Before any worker runs, so that nothing moves meanwhile. */
export async function settleWorkflows(database: Client, temporal: Temporal): Promise<SettledWorkflows> {
  return {
    terminated: await terminateUnknown(database, temporal),
    schedulesRemoved: await removeUnknownSchedules(database, temporal),
    jobsEnded: await endLostJobs(database, temporal),
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

/** A deletion begins again by itself; what was being created can be retried; an index is built with the next change of its schema. */
async function endLostJobs(database: Client, temporal: Temporal): Promise<number> {
  const { rows } = await database.query<{ id: string; type: string; target: string; workflow_id: string }>(
    `select id, type, target, workflow_id from operations where state = 'running'
       or (state = 'queued' and type not in ('tenant.delete', 'workspace.delete'))`,
  )
  let ended = 0
  for (const { id, type, target, workflow_id } of rows) {
    if (await isOpen(temporal, workflow_id)) continue
    ended += 1
    if (type === 'tenant.delete' || type === 'workspace.delete') {
      await database.query(`update operations set state = 'queued', steps = '[]' where id = $1`, [id])
      continue
    }
    await database.query(
      `update operations set state = 'failed', error = $2, finished_at = now() where id = $1`,
      [id, LOST],
    )
    for (const table of ['tenants', 'workspaces'])
      await database.query(
        `update ${table} set state = 'provisioning_failed', updated_at = now() where id = $1 and state = 'provisioning'`,
        [target],
      )
  }
  return ended
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
