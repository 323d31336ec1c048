/** Quotas of workspaces and tenants: set by operators, enforced where things are made (schema/quotas.sql). */

import Type from 'typebox'
import { LIMITS } from '../../core/limits.ts'
import { ADMINS, OPERATORS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import type { TenantId, WorkspaceRef } from '../../core/tenant.ts'
import { enterWorkspace } from '../../platform/access.ts'
import { hasDocumentStore, objectsOf, streamsOf } from '../../platform/capabilities.ts'
import { invalidate, LIMITED_QUOTAS } from '../../platform/node-memory.ts'
import { refusal } from '../../platform/pg/errors.ts'
import { type Sql, sql } from '../../platform/pg/sql.ts'
import type { AdminScope } from '../../platform/scope.ts'
import { Input, onStructure, Ref } from '../kinds.ts'
import { type Counted, isCountedAnyway, Limits, OF_TENANT, OF_WORKSPACE, Quotas, shown } from './names.ts'

/** Whose quotas are meant: `room` is empty for a tenant as a whole. */
interface Owner {
  readonly tenantId: TenantId
  readonly room: string
}

const OF = {
  workspace_id: Type.Optional(Ref('workspace')),
  tenant_id: Type.Optional(Ref('tenant; for what is counted over all of its workspaces')),
}
type Meant = { readonly workspace_id?: string; readonly tenant_id?: string }

export const setQuotas = onStructure({
  name: 'quota.set',
  summary: 'Set quotas of a workspace or a tenant; those that are not named stay',
  roles: OPERATORS,
  input: Input({ ...OF, limits: Limits }),
  output: Quotas,
  http: { method: 'PUT', path: '/v1/quotas', body: '*' },
  // In the order of their names, so that two at once wait for each other instead of dying together.
  run: async (scope, { limits, ...meant }) => {
    const entries = Object.entries(limits as Record<string, number>).sort(([a], [b]) => (a < b ? -1 : 1))
    refuseMisplaced(scope, meant, entries)
    const owner = await ownerOf(scope, meant)
    await setAll(scope, owner, entries)
    if (owner.room !== '') {
      const ref = { tenantId: owner.tenantId, workspaceId: owner.room } as WorkspaceRef
      invalidate(scope, ref, LIMITED_QUOTAS)
      if ((limits['object_bytes'] ?? -1) !== -1) await objectsOf(enterWorkspace(scope, ref)).recount()
    }
    return read(scope, owner)
  },
})

function refuseMisplaced(scope: AdminScope, meant: Meant, entries: readonly [string, number][]): void {
  const names: readonly string[] = meant.tenant_id === undefined ? OF_WORKSPACE : OF_TENANT
  for (const [name, max] of entries) {
    if (!names.includes(name))
      throw misplaced(name, `It is a quota of ${meant.tenant_id === undefined ? 'tenants' : 'workspaces'}.`)
    if (/^document(s|_bytes)$/.test(name) && max !== -1 && hasDocumentStore(scope))
      throw misplaced(name, 'Documents in MongoDB are not counted yet, so they cannot be limited.')
  }
}

function misplaced(name: string, detail: string): Problem {
  const errors = [{ in: 'body', name: 'limits', pointer: `/limits/${name}`, detail }] as const
  return new Problem('validation_failed', { detail, errors })
}

/** @throws Problem `validation_failed` unless one of the two is named, 404 where it is not the caller's */
async function ownerOf(scope: AdminScope, { workspace_id, tenant_id }: Meant): Promise<Owner> {
  if ((workspace_id === undefined) === (tenant_id === undefined))
    throw new Problem('validation_failed', { detail: 'Name a workspace or a tenant, by one of the two ids.' })
  if (tenant_id !== undefined && scope.actor.role === 'workspace_admin') throw new Problem('forbidden')
  const owner = await scope.row<Owner>(
    workspace_id === undefined
      ? sql`select id as "tenantId", '' as room from tenants where id = ${tenant_id}`
      : sql`select tenant_id as "tenantId", id as room from workspaces where id = ${workspace_id}`,
  )
  if (owner === undefined) throw notFound(workspace_id === undefined ? 'tenant' : 'workspace')
  return owner
}

/** Who makes documents in several tables at once may hold what is wanted here: one of the two is let go. */
async function setAll(scope: AdminScope, owner: Owner, entries: [string, number][]): Promise<void> {
  const statements = entries.flatMap(([name, max]) => setOne(owner, name, max))
  for (let attempt = 0; attempt < LIMITS.updateAttemptsMax; attempt++) {
    const ended = await scope.batch(...statements).then(
      () => true,
      (error: unknown) => {
        if (refusal(error) !== 'deadlock') throw error
        return false
      },
    )
    if (ended) return
  }
  throw new Problem('overloaded')
}

/** Locks out whoever counts, then counts what is there: from then on the number is kept by the triggers. */
function setOne({ tenantId, room }: Owner, name: string, max: number): Sql[] {
  const lock = sql`select pg_advisory_xact_lock(tenon.quota_lock(${tenantId}, ${room}, ${name}))`
  if (max === -1) {
    const drop = sql`delete from quotas
      where tenant_id = ${tenantId} and workspace_id = ${room} and name = ${name}`
    const forget = sql`delete from stored_objects where tenant_id = ${tenantId} and workspace_id = ${room}`
    return name === 'object_bytes' ? [lock, drop, forget] : [lock, drop]
  }
  const set = sql`
    insert into quotas (tenant_id, workspace_id, name, max, used, resets_at)
    values (${tenantId}, ${room}, ${name}, ${max}, ${usedBy(tenantId, room, name)}, tenon.window_end(${name}))
    on conflict (tenant_id, workspace_id, name) do update set max = excluded.max, updated_at = now()`
  // Before the lock, since those who write may wait for it; and after it, for tables that were made meanwhile.
  const watch = sql`select tenon.watch(${tenantId}, ${room}, ${name})`
  return [watch, lock, watch, set]
}

const usedBy = (tenantId: string, room: string, name: string): Sql =>
  name === 'workspaces'
    ? sql`(select count(*) from workspaces where tenant_id = ${tenantId} and tenon.is_there(state))`
    : sql`tenon.quota_count(${tenantId}, ${room}, ${name})`

export const getQuotas = onStructure({
  name: 'quota.get',
  summary: 'Read the quotas of a workspace or a tenant: limit, used, remaining',
  roles: ADMINS,
  input: Input(OF),
  output: Quotas,
  http: { method: 'GET', path: '/v1/quotas' },
  run: async (scope, meant) => read(scope, await ownerOf(scope, meant)),
})

async function read(scope: AdminScope, owner: Owner): Promise<Quotas> {
  const { tenantId, room } = owner
  if (room !== '') return { workspace_id: room, quotas: shown(await counted(scope, owner, OF_WORKSPACE)) }
  const rows = await counted(scope, owner, OF_TENANT)
  const streams = await streamsOf(scope, tenantId)
  const quotas = rows.map((row) => (row.name === 'sse_streams' ? withStreams(row, streams) : row))
  return { tenant_id: tenantId, quotas: shown(quotas) }
}

/** Streams are counted where they are open. */
function withStreams(row: Counted, { usual, open }: { usual: number; open: number | null }): Counted {
  return { ...row, limit: row.limit === -1 ? usual : row.limit, used: open }
}

/** A window that is over has nothing used; tools are measured, not counted. */
function counted(scope: AdminScope, { tenantId, room }: Owner, names: readonly string[]): Promise<Counted[]> {
  const anyway = JSON.stringify(names.filter(isCountedAnyway))
  return scope.rows<Counted>(sql`
    select n.name, coalesce(q.max, -1) as limit,
      case when n.name = 'mcp_tools' then tenon.quota_count(${tenantId}, ${room}, n.name)
        when q.resets_at <= now() then 0
        when q.name is not null then q.used
        when n.name = 'workspaces' then
          (select count(*) from workspaces where tenant_id = ${tenantId} and tenon.is_there(state))
        when ${anyway}::jsonb ? n.name then tenon.quota_count(${tenantId}, ${room}, n.name) end as used,
      case when q.resets_at <= now() then tenon.window_end(n.name) else q.resets_at end as resets_at
    from jsonb_array_elements_text(${JSON.stringify(names)}::jsonb) as n (name)
      left join quotas q on q.tenant_id = ${tenantId} and q.workspace_id = ${room} and q.name = n.name`)
}
