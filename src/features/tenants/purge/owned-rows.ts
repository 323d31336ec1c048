/** The rows of a tenant or a workspace in PostgreSQL: counts them by table, and deletes some at a time. */

import { privilege } from '../../../access/privileges.ts'
import type { AdminScope } from '../../../access/scope.ts'
import type { TenantRef } from '../../../core/tenant.ts'
import type { Statements } from '../../../infra/postgres/database.ts'
import { Sql, sql } from '../../../infra/postgres/sql.ts'
import { TENANT_LIMITS } from '../limits.ts'

const openRows = privilege('tenants.purge')

/** @returns the tables that have any, and how many */
export async function countOwnedRows(scope: AdminScope, ref: TenantRef): Promise<Record<string, number>> {
  const rows = openRows(scope, ref)
  const tables = await ownedTables(rows, ref)
  const [declared = [], ...counts] = await rows.batch(
    countDeclaredTables(ref),
    ...tables.map(
      (table) =>
        sql`select count(*)::bigint as n from (select from ${nameOf(table)} where ${isOf(ref)} limit ${TENANT_LIMITS.countedRowsMax}) counted`,
    ),
  )
  const found = tables.map((table, n) => [table, Number(counts[n]?.[0]?.['n'] ?? 0)] as const)
  const all = [...found, ['declared_tables', Number(declared[0]?.['n'] ?? 0)] as const]
  return Object.fromEntries(all.filter(([, n]) => n > 0))
}

/** Deletes some rows of each table. @returns true if there may be more */
export async function deleteOwnedRows(scope: AdminScope, ref: TenantRef): Promise<boolean> {
  const rows = openRows(scope, ref)
  // Operations of a workspace itself stay, as those of its tenant.
  if (ref.workspaceId !== '-') await rows.batch(sql`delete from operations where ${isOf(ref)}`)
  let hasMore = false
  for (const table of await ownedTables(rows, ref)) {
    // With their tables: dropDeclaredTables.
    if (table === 'schemas') continue
    const [row] = await rows.rows<{ n: number }>(sql`
      with gone as (
        delete from ${nameOf(table)} where ctid = any(array(
          select ctid from ${nameOf(table)} where ${isOf(ref)} limit ${TENANT_LIMITS.purgedRowsMax})) returning 1)
      select count(*)::integer as n from gone`)
    if (row?.n === TENANT_LIMITS.purgedRowsMax) return true
    hasMore ||= (row?.n ?? 0) > 0
  }
  return hasMore
}

/** Tables of declared collections, by the constraint that binds the rows of each to its workspace. */
const countDeclaredTables = ({ tenantId, workspaceId }: TenantRef): Sql => {
  const bound =
    workspaceId === '-' ? `(tenant_id = '${tenantId}'::text)` : `(workspace_id = '${workspaceId}'::text)`
  return sql`
    select count(*)::bigint as n from pg_catalog.pg_constraint k join pg_catalog.pg_namespace s on s.oid = k.connamespace
    where s.nspname = 'tenon_data' and k.contype = 'c' and position(${bound} in pg_catalog.pg_get_constraintdef(k.oid)) > 0`
}

/**
 * Destroys the keys of the tenant's payloads, and deletes its operations but that of its deletion. What is left in Temporal cannot be read any more,
 * by the workflow that asks for this neither.
 */
export async function destroyKeys(scope: AdminScope, ref: TenantRef): Promise<void> {
  await openRows(scope, ref).batch(
    sql`delete from operations where tenant_id = ${ref.tenantId} and not (type = 'tenant.delete' and target = ${ref.tenantId})`,
    sql`update payload_keys set sealed = null, destroyed_at = now()
      where tenant_id = ${ref.tenantId} and destroyed_at is null`,
  )
}

/** Each table comes before those that it refers to. */
async function ownedTables(rows: Statements, { workspaceId }: TenantRef): Promise<string[]> {
  const found = await rows.rows<{ relation: string }>(
    sql`select relation from tenon.owned_tables(${workspaceId !== '-'})`,
  )
  return found.map(({ relation }) => relation)
}

const nameOf = (relation: string): Sql => sql`tenon.${Sql.identifier(relation)}`

const isOf = ({ tenantId, workspaceId }: TenantRef): Sql =>
  workspaceId === '-'
    ? sql`tenant_id = ${tenantId}`
    : sql`tenant_id = ${tenantId} and workspace_id = ${workspaceId}`
