/** Quotas of a workspace: set by operators, enforced by the database where rows are made (migration 0011). */

import Type, { type Static } from 'typebox'
import { LIMITS } from '../core/limits.ts'
import { ADMINS, OPERATORS } from '../core/policy.ts'
import { notFound, Problem } from '../core/problem.ts'
import { refusal } from '../platform/pg/errors.ts'
import { sql } from '../platform/pg/sql.ts'
import type { AdminScope } from '../platform/scope.ts'
import { Id, Input, onStructure, Ref } from './kinds.ts'

/** Every quota that is enforced. A name is listed once its rows are counted (`tenon.count_as`). */
const QUOTAS = [
  'collections',
  'documents',
  'flows',
  'flow_versions',
  'functions',
  'mcp_servers',
  'concurrent_executions',
  'api_keys',
] as const

const Limit = Type.Integer({
  minimum: -1,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'How many there may be; -1: unlimited.',
})

const Quota = Type.Object({
  limit: Limit,
  used: Type.Integer(),
  remaining: Type.Union([Type.Integer(), Type.Null()], { description: 'null: unlimited.' }),
})

export const Quotas = Type.Object({
  workspace_id: Id('ws'),
  quotas: Type.Record(Type.String(), Quota),
})
export type Quotas = Static<typeof Quotas>

const Limits = Type.Object(Object.fromEntries(QUOTAS.map((name) => [name, Type.Optional(Limit)])), {
  additionalProperties: false,
  minProperties: 1,
})

export const setQuotas = onStructure({
  name: 'quota.set',
  summary: 'Set quotas of a workspace; those that are not named stay',
  roles: OPERATORS,
  input: Input({ workspace_id: Ref('workspace'), limits: Limits }),
  output: Quotas,
  http: { method: 'PUT', path: '/v1/quotas', body: '*' },
  // In the order of their names, so that two at once wait for each other instead of dying together.
  run: async (scope, { workspace_id, limits }) => {
    if (limits['documents'] !== undefined && limits['documents'] !== -1 && scope.hasDocumentStore) {
      const detail = 'Documents in MongoDB are not counted yet, so their number cannot be limited.'
      const errors = [{ in: 'body', name: 'limits', pointer: '/limits/documents', detail }] as const
      throw new Problem('validation_failed', { detail, errors })
    }
    const entries = Object.entries(limits as Record<string, number>).sort(([a], [b]) => (a < b ? -1 : 1))
    await setAll(scope, workspace_id, entries)
    return readQuotas(scope, workspace_id)
  },
})

/** Who makes documents in several tables at once may hold what is wanted here: one of the two is let go. */
async function setAll(scope: AdminScope, workspaceId: string, entries: [string, number][]): Promise<void> {
  const statements = entries.flatMap(([name, max]) => setOne(workspaceId, name, max))
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
function setOne(workspaceId: string, name: string, max: number) {
  const lock = sql`select pg_advisory_xact_lock(tenon.quota_lock(tenant_id, id, ${name}))
    from workspaces where id = ${workspaceId}`
  if (max === -1) {
    return [lock, sql`delete from quotas where workspace_id = ${workspaceId} and name = ${name}`]
  }
  const set = sql`
    insert into quotas (tenant_id, workspace_id, name, max, used)
    select tenant_id, id, ${name}, ${max}, tenon.quota_count(tenant_id, id, ${name})
    from workspaces where id = ${workspaceId}
    on conflict (tenant_id, workspace_id, name) do update set max = excluded.max, updated_at = now()`
  // Before the lock, since those who write may wait for it; and after it, for tables that were made meanwhile.
  const watch = sql`select tenon.watch(tenant_id, id, ${name}) from workspaces where id = ${workspaceId}`
  return [watch, lock, watch, set]
}

export const getQuotas = onStructure({
  name: 'quota.get',
  summary: 'Read the quotas of a workspace: limit, used, remaining',
  roles: ADMINS,
  input: Input({ workspace_id: Ref('workspace') }),
  output: Quotas,
  http: { method: 'GET', path: '/v1/quotas' },
  run: (scope, { workspace_id }) => readQuotas(scope, workspace_id),
})

async function readQuotas(scope: AdminScope, workspaceId: string): Promise<Quotas> {
  const rows = await scope.rows<{ name: string; limit: number; used: number }>(sql`
    select n.name, coalesce(q.max, -1) as limit,
      coalesce(q.used, tenon.quota_count(w.tenant_id, w.id, n.name)) as used
    from workspaces w cross join jsonb_array_elements_text(${JSON.stringify(QUOTAS)}::jsonb) as n (name)
      left join quotas q on q.tenant_id = w.tenant_id and q.workspace_id = w.id and q.name = n.name
    where w.id = ${workspaceId}`)
  if (rows.length === 0) throw notFound('workspace')
  const quotas = rows.map(({ name, limit, used }) => {
    const remaining = limit === -1 ? null : Math.max(0, limit - used)
    return [name, { limit, used, remaining }] as const
  })
  return { workspace_id: workspaceId, quotas: Object.fromEntries(quotas) }
}
