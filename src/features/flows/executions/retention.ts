/** Removes executions that ended longer ago than the workspace keeps them (features/retention/workspace-retention.ts), and archives them before. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { durationMs } from '../../../core/units.ts'
import { type Sql, sql, textArray } from '../../../infra/postgres/sql.ts'
import type { TaskContext } from '../../background/background-task.ts'
import { objectsOf } from '../../objects/workspace-objects.ts'
import type { WorkspaceRetention } from '../../retention/retention-settings.ts'
import { FLOW_LIMITS } from '../limits.ts'
import { rememberStarts } from './expectations.ts'

const { executionsMax: batchMax, stepsReadMax: stepsAtOnce } = FLOW_LIMITS.retention

interface ExpiredRow {
  readonly id: string
  readonly flow_name: string
}

/**
 * Removes one batch. An execution that cannot be archived is not removed.
 * @returns true if more may have expired, such as sub-flows of these
 */
export async function removeExpired(
  { scope, service, isActive }: TaskContext,
  { executions, archive }: WorkspaceRetention,
): Promise<boolean> {
  // The archive of a suspended workspace takes nothing.
  if (executions === undefined || !isActive) return false
  const before = new Date(Date.now() - durationMs(executions))
  const rows = await scope.rows<ExpiredRow>(expired(before))
  const archived: string[] = []
  try {
    for (const row of rows) {
      if (archive !== undefined) await archiveExecution(scope, service, archive.bucket, row)
      archived.push(row.id)
    }
  } finally {
    if (archived.length > 0)
      await scope.batch(
        rememberStarts(archived),
        sql`delete from executions where id = any(${textArray(archived)}::text[]) and ${ENDED} < ${before}`,
      )
  }
  await scope.batch(purgeFlows(sql`true`))
  return rows.length > 0
}

/** When usage counts the end, so that no execution is removed before its hour is recorded. */
const ENDED = sql`coalesce(counted_at, ended_at)`

/** Deletes flows that were deleted before and have no executions left. */
export const purgeFlows = (which: Sql): Sql => sql`delete from flows f
  where deleted_at is not null and ${which}
    and not exists (select from executions e where e.flow_id = f.id)`

/**
 * The index by outcome and start passes over open executions; no execution ends before it starts. A sub-flow stays as long as the
 * execution that started it, whose steps name it.
 */
const expired = (before: Date): Sql => sql`
  select e.id, (select name from flows f where f.id = e.flow_id) as flow_name
  from executions e where outcome = any('{cancelled,completed,faulted}') and started_at < ${before} and ${ENDED} < ${before}
    and not (trigger_kind = 'flow' and exists (select from executions p where p.id = e.trigger_id))
  limit ${batchMax}`

/** An execution is archived again under the same key if its removal fails. */
async function archiveExecution(
  scope: WorkspaceScope,
  service: WorkspaceScope,
  bucket: string,
  { id, flow_name }: ExpiredRow,
): Promise<void> {
  const object = { bucket, key: `executions/${flow_name}/${id}.json` }
  await objectsOf(service).put(
    object,
    { chunks: readRecord(scope, id) },
    { headers: { 'content-type': 'application/json' }, metadata: {}, tags: {} },
  )
}

/** The record of an execution as JSON, a part of its steps at a time: together they may have gigabytes. */
async function* readRecord(scope: WorkspaceScope, id: string): AsyncGenerator<Buffer> {
  const row = await scope.row<{ record: string }>(sql`
    select (to_jsonb(e) - array['tenant_id', 'workspace_id', 'due_at', 'events', 'outcome', 'suspended', 'paused', 'overdue_at']
      || jsonb_build_object('flow_name', (select name from flows f where f.id = e.flow_id)))::text as record
    from executions e where id = ${id}`)
  yield Buffer.from(`${row?.record.slice(0, -1)},"steps":[`)
  let after = -1
  for (;;) {
    const steps = await scope.rows<{ seq: number; step: string }>(sql`
      select seq, (to_jsonb(s) - array['tenant_id', 'workspace_id', 'execution_id'])::text as step from execution_steps s
      where execution_id = ${id} and seq > ${after} order by seq limit ${stepsAtOnce}`)
    const text = steps.map(({ step }) => step).join()
    if (text !== '') yield Buffer.from(after < 0 ? text : `,${text}`)
    if (steps.length < stepsAtOnce) break
    after = steps.at(-1)?.seq ?? after
  }
  yield Buffer.from(']}')
}
