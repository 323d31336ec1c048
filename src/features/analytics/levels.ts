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
  const levels = new Map<string, number | null>(names.map((name) => [name, null]))
  for (const { name, used } of counters) levels.set(name, used)
  const isElsewhere = hasDocumentStore(scope)
  const open: MetricName[] = []
  for (const name of names) {
    const { count = 'while limited' }: Metric = METRICS[name]
    if (count === 'documents' && isElsewhere) levels.set(name, null)
    else if (levels.get(name) === null && count !== 'while limited') open.push(name)
  }
  const counted = open.length === 0 ? {} : await countRows(scope, open)
  return { ...Object.fromEntries(levels), ...counted }
}

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
  const reads = names.some((name) => (METRICS[name] as Metric).count === 'documents')
  return reads ? inScanLine(scope.ref.tenantId, count) : count()
}
