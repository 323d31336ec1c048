/** Counts what a workspace has now: by the counters of its quotas, or row by row where none is kept. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { hasDocumentStore } from '../../access/scope-services.ts'
import { Sql, sql, textArray } from '../../infra/postgres/sql.ts'
import { inScanLine } from '../collections/scans.ts'
import { METRICS, type Metric, type MetricName } from './metrics.ts'

/** A value for each of the metrics; null for one that is not counted, as {@link Metric.uncounted} says. */
export type Levels = Readonly<Record<string, number | null>>

/**
 * @param scope an admin's @param names of levels
 * @throws Problem `overloaded` if too many queries that read whole collections wait; `query_timeout`
 */
export async function readLevels(scope: WorkspaceScope, names: readonly MetricName[]): Promise<Levels> {
  const counters = await scope.rows<{ name: string; used: number }>(sql`
    select name, used from quotas where workspace_id = tenon.workspace() and name = any(${textArray(names)}::text[])`)
  const levels = new Map<string, number | null>(counters.map(({ name, used }) => [name, used]))
  if (hasDocumentStore(scope))
    for (const name of names) if (readsOf(name) === 'documents') levels.set(name, null)
  const open = names.filter((name) => !levels.has(name))
  return { ...Object.fromEntries(levels), ...(open.length === 0 ? {} : await countRows(scope, open)) }
}

const readsOf = (name: MetricName) => (METRICS[name] as Metric).reads

/** As the quotas of these names would count. */
async function countRows(scope: WorkspaceScope, names: readonly MetricName[]): Promise<Levels> {
  const columns = names.map(
    (name) => sql`${name}::text, tenon.quota_count(tenon.tenant(), tenon.workspace(), ${name})`,
  )
  const count = async () => {
    const row = await scope.row<{ levels: Levels }>(
      sql`select json_build_object(${Sql.joined(columns, ', ')}) as levels`,
    )
    return row?.levels ?? {}
  }
  return names.some((name) => readsOf(name) !== undefined) ? inScanLine(scope.ref.tenantId, count) : count()
}
