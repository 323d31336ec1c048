/** Removes executions that ended longer ago than the workspace keeps them, a few at a time, and archives them before. */

import { Readable } from 'node:stream'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { LIMITS } from '../../../core/limits.ts'
import { durationMs } from '../../../core/units.ts'
import { type Sql, sql, textArray } from '../../../infra/postgres/sql.ts'
import { objectsOf } from '../../objects/workspace-objects.ts'
import type { Retention } from '../../tenants/workspace-settings.ts'
import { rememberStarts } from './expectations.ts'

const { batchMax } = LIMITS.retention

interface ExpiredRow {
  readonly id: string
  readonly flow_name: string
  /** The record with its steps, as JSON text. */
  readonly record: string
}

/**
 * Removes one batch. What cannot be archived is not removed.
 * @param storage a scope that may write objects; its workspace is that of `scope`
 * @returns true if more may have expired
 */
export async function removeExpired(
  scope: WorkspaceScope,
  storage: WorkspaceScope,
  { executions, archive }: Retention,
): Promise<boolean> {
  if (executions === undefined) return false
  const before = new Date(Date.now() - durationMs(executions))
  const rows = await scope.rows<ExpiredRow>(expired(before, archive === undefined ? null : RECORD))
  const archived: string[] = []
  try {
    for (const row of rows) {
      if (archive !== undefined) await archiveRecord(storage, archive.bucket, row)
      archived.push(row.id)
    }
  } finally {
    if (archived.length > 0)
      await scope.batch(
        rememberStarts(archived),
        sql`delete from executions where id = any(${textArray(archived)}::text[]) and ended_at < ${before}`,
      )
  }
  await scope.batch(purgeFlows(sql`true`))
  return rows.length === batchMax
}

/** Deletes flows that were deleted before and have no executions left. */
export const purgeFlows = (which: Sql): Sql => sql`delete from flows f
  where deleted_at is not null and ${which}
    and not exists (select from executions e where e.flow_id = f.id)`

/** `started_at` has an index, and no execution ends before it starts. */
const expired = (before: Date, record: Sql | null): Sql => sql`
  select e.id, (select name from flows f where f.id = e.flow_id) as flow_name, ${record ?? sql`null`} as record
  from executions e where started_at < ${before} and ended_at < ${before}
  order by started_at, id limit ${batchMax}`

const RECORD = sql`(to_jsonb(e) - array['tenant_id', 'workspace_id', 'due_at', 'events', 'outcome', 'suspended', 'paused', 'overdue_at']
  || jsonb_build_object(
    'flow_name', (select name from flows f where f.id = e.flow_id),
    'steps', coalesce((select jsonb_agg(to_jsonb(s) - array['tenant_id', 'workspace_id', 'execution_id'] order by s.seq)
      from execution_steps s where s.execution_id = e.id), '[]')))::text`

/** An execution is archived again under the same key if its removal fails. */
async function archiveRecord(
  storage: WorkspaceScope,
  bucket: string,
  { id, flow_name, record }: ExpiredRow,
): Promise<void> {
  const body = Buffer.from(record)
  const source = { length: body.length, chunks: Readable.from([body]) }
  const object = { bucket, key: `executions/${flow_name}/${id}.json` }
  await objectsOf(storage).put(object, source, { type: 'application/json' })
}
