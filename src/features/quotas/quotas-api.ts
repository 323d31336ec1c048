/** Reads and sets the quotas of workspaces and tenants, which quotas.sql enforces, and reads the limits of the caller. */

import Type, { type Static } from 'typebox'
import { ACCESS_LIMITS } from '../../access/limits.ts'
import {
  adminOperation,
  callerOperation,
  Id,
  Input,
  OptionalTime,
  Ref,
} from '../../access/operation-builders.ts'
import type { BucketState } from '../../access/rate-limit/memory-buckets.ts'
import { seconds } from '../../access/rate-limit/memory-buckets.ts'
import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import { hasQuota, invalidate, LIMITED_QUOTAS } from '../../access/scope-cache.ts'
import { countStreams, hasDocumentStore } from '../../access/scope-services.ts'
import { component, exampleOf } from '../../core/components/component.ts'
import { EXAMPLE_ID } from '../../core/components/examples.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { EVERYBODY, TENANT_ADMINS, VIEWERS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import type { TenantId, WorkspaceRef } from '../../core/tenant.ts'
import type { Statements } from '../../infra/postgres/database.ts'
import { refusal } from '../../infra/postgres/errors.ts'
import { type Sql, sql, textArray } from '../../infra/postgres/sql.ts'
import { retryContended } from '../../infra/retry.ts'
import { COLLECTION_LIMITS } from '../collections/limits.ts'
import { inScanLine } from '../collections/scans.ts'
import { EVENT_LIMITS } from '../events/limits.ts'
import { FLOW_LIMITS } from '../flows/limits.ts'
import { FUNCTION_LIMITS } from '../functions/limits.ts'
import { OBJECT_LIMITS } from '../objects/limits.ts'
import { bodyProblem, findRow } from '../operation-helpers.ts'

/** Quotas of a workspace. */
const WORKSPACE_QUOTAS = [
  'collections',
  'documents',
  'document_bytes',
  'object_bytes',
  'events_per_day',
  'functions',
  'invocations_per_day',
  'flows',
  'flow_versions',
  'concurrent_executions',
  'execution_starts_per_minute',
  'schedules',
  'mcp_servers',
  'mcp_tools',
  'mcp_calls_per_minute',
  'api_keys',
  'users',
] as const

/** Quotas of a tenant over all of its workspaces. It may also have any quota of workspaces, which theirs add up to. */
const TENANT_QUOTAS = ['workspaces', 'sse_streams'] as const

/** Quotas of a time window are counted only while they are set. */
const COUNTED_WHILE_SET = /_per_(day|minute)$/

/** Quotas of documents, of which those in MongoDB are not counted. */
const DOCUMENTS = /^document(s|_bytes)$/

/** Quotas whose use is counted by reading all that they count. */
const READS_ALL = /^documents$|_bytes$/

const Limit = Type.Integer({
  minimum: -1,
  maximum: Number.MAX_SAFE_INTEGER,
  description:
    'Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant.',
})

/** A quota as the database returns it. */
interface QuotaRow {
  readonly name: string
  readonly limit: number
  readonly used: number | null
  readonly resets_at: string | null
}

const Quota = component(
  'Quota',
  Type.Object({
    limit: Limit,
    used: Type.Union([Type.Integer(), Type.Null()], {
      description:
        'Amount that is used; of a quota of workspaces that a tenant has, what their limits add up to. `null`: not counted; time windows are counted only while they have a limit, and documents only if none are in MongoDB.',
    }),
    remaining: Type.Union([Type.Integer(), Type.Null()], {
      description: 'Amount that remains. `null`: no limit.',
    }),
    resets_at: Type.Optional(OptionalTime),
  }),
  { limit: 10_000, used: 1_250, remaining: 8_750 },
)

const Quotas = component(
  'Quotas',
  Type.Object({
    workspace_id: Type.Optional(Id('ws')),
    tenant_id: Type.Optional(Id('ten')),
    quotas: Type.Record(Type.String(), Quota),
  }),
  {
    workspace_id: EXAMPLE_ID.workspace,
    quotas: { documents: { limit: 10_000, used: 1_250, remaining: 8_750 } },
  },
)
type Quotas = Static<typeof Quotas>

const Limits = Type.Object(
  Object.fromEntries([...WORKSPACE_QUOTAS, ...TENANT_QUOTAS].map((name) => [name, Type.Optional(Limit)])),
  { additionalProperties: false, minProperties: 1 },
)

/** Quotas by their names, with what is left of each. */
function toQuotas(counted: readonly QuotaRow[]): Quotas['quotas'] {
  return Object.fromEntries(
    counted.map(({ name, limit, used, resets_at }) => {
      const remaining = limit === -1 ? null : Math.max(0, limit - (used ?? 0))
      return [name, { limit, used, remaining, ...(resets_at !== null && { resets_at }) }]
    }),
  )
}

/** The owner of quotas; `workspaceId` is empty for a tenant. */
interface Owner {
  readonly tenantId: TenantId
  readonly workspaceId: string
}

const OWNER_INPUT = {
  workspace_id: Type.Optional(Ref('workspace')),
  tenant_id: Type.Optional(Ref('tenant, for quotas that count all of its workspaces')),
}
type Target = { readonly workspace_id?: string; readonly tenant_id?: string }

export const setQuotas = adminOperation({
  name: 'quota.set',
  summary:
    'Set quotas of a workspace or a tenant; absent quotas do not change; admins of a tenant divide its own among its workspaces',
  roles: TENANT_ADMINS,
  input: Input({ ...OWNER_INPUT, limits: Limits }),
  output: Quotas,
  http: { method: 'PUT', path: '/v1/quotas', body: '*' },
  // Sorted by name, so that concurrent calls wait for each other instead of deadlocking.
  run: async (scope, { limits, ...target }) => {
    const entries = Object.entries(limits as Record<string, number>).sort(([a], [b]) => (a < b ? -1 : 1))
    rejectMisplaced(scope, target, entries)
    const owner = await findOwner(scope, target)
    await requireOwnQuotas(scope, owner, entries)
    await setAll(scope, owner, entries)
    if (owner.workspaceId !== '') {
      const ref = { tenantId: owner.tenantId, workspaceId: owner.workspaceId } as WorkspaceRef
      invalidate(scope, ref, LIMITED_QUOTAS)
    }
    return read(scope, owner)
  },
})

function rejectMisplaced(scope: AdminScope, target: Target, entries: readonly [string, number][]): void {
  for (const [name, max] of entries) {
    if (target.tenant_id === undefined && isOfTenants(name))
      throw bodyProblem(`/limits/${name}`, 'The quota is one of tenants.')
    if (DOCUMENTS.test(name) && max !== -1 && hasDocumentStore(scope))
      throw bodyProblem(
        `/limits/${name}`,
        'Documents in MongoDB are not counted yet, so they cannot be limited.',
      )
  }
}

const isOfTenants = (name: string): boolean => (TENANT_QUOTAS as readonly string[]).includes(name)

/** @throws Problem `forbidden` for a tenant admin who sets a quota of the tenant, or one of a workspace that the tenant has not itself */
async function requireOwnQuotas(
  scope: AdminScope,
  { tenantId, workspaceId }: Owner,
  entries: readonly [string, number][],
): Promise<void> {
  if (scope.actor.role === 'operator') return
  if (workspaceId === '') throw new Problem('forbidden', { detail: 'Only operators set quotas of a tenant.' })
  const own = await scope.rows<{ name: string }>(
    sql`select name from quotas where tenant_id = ${tenantId} and workspace_id = ''`,
  )
  const [missing] = entries.find(([name]) => !own.some((one) => one.name === name)) ?? []
  if (missing === undefined) return
  throw new Problem('forbidden', {
    detail: `The tenant has no quota ${missing} of its own to divide among its workspaces.`,
    hint: `Ask an operator to set it: PUT /v1/quotas {"tenant_id": "${tenantId}", "limits": {"${missing}": …}}.`,
  })
}

/** @throws Problem `validation_failed` unless exactly one of the two is named; `not_found` for an owner of another tenant */
async function findOwner(scope: AdminScope, { workspace_id, tenant_id }: Target): Promise<Owner> {
  if ((workspace_id === undefined) === (tenant_id === undefined))
    throw new Problem('validation_failed', { detail: 'Send either `workspace_id` or `tenant_id`.' })
  if (tenant_id !== undefined && scope.workspaceId !== undefined) throw new Problem('forbidden')
  return findRow<Owner>(
    scope,
    workspace_id === undefined ? 'tenant' : 'workspace',
    workspace_id === undefined
      ? sql`select id as "tenantId", '' as "workspaceId" from tenants where id = ${tenant_id} and state <> 'deleted'`
      : sql`select tenant_id as "tenantId", id as "workspaceId" from workspaces where id = ${workspace_id} and state <> 'deleted'`,
  )
}

async function setAll(scope: AdminScope, owner: Owner, entries: [string, number][]): Promise<void> {
  const statements = entries.flatMap(([name, max]) => setOne(owner, name, max))
  const set = () => countTables(() => scope.batch(...statements))
  const reads = entries.some(([name, max]) => READS_ALL.test(name) && max !== -1)
  await (reads ? inScanLine(owner.tenantId, set) : set())
}

/**
 * Repeats statements that count documents after a deadlock with a writer of documents in several tables, and if a table was renamed or
 * dropped with its declaration while they waited for it.
 */
const countTables = <T>(count: () => Promise<T>): Promise<T> =>
  retryContended('Others write to the same tables all the time.', () =>
    count().catch((error: unknown) => {
      if (!['deadlock', 'no_table'].includes(refusal(error) ?? '')) throw error
      return undefined
    }),
  )

/** Locks the counter and counts the existing rows; from then on triggers maintain it. */
function setOne({ tenantId, workspaceId }: Owner, name: string, max: number): Sql[] {
  // The lock of the tenant first, since its workspaces share what it has: a new one takes its share under the same lock.
  const lock = sql`select pg_advisory_xact_lock(tenon.quota_lock(${tenantId}, one, case one when ${workspaceId} then ${name} else '' end))
    from unnest(array['', nullif(${workspaceId}, '')]) as one where one is not null`
  if (max === -1) {
    const drop = sql`delete from quotas
      where tenant_id = ${tenantId} and workspace_id = ${workspaceId} and name = ${name}`
    return [lock, drop]
  }
  const used =
    name === 'workspaces'
      ? activeWorkspaces(tenantId)
      : workspaceId === ''
        ? sql`0`
        : sql`tenon.quota_count(${tenantId}, ${workspaceId}, ${name})`
  const set = sql`
    insert into quotas (tenant_id, workspace_id, name, max, used, resets_at)
    values (${tenantId}, ${workspaceId}, ${name}, ${max}, ${used}, tenon.window_end(${name}))
    on conflict (tenant_id, workspace_id, name) do update set max = excluded.max, updated_at = now()`
  // Before the lock, since writers may wait for it; and after it, for tables that were created meanwhile.
  const watch = sql`select tenon.enable_counting(${tenantId}, ${workspaceId}, ${name})`
  return [watch, lock, watch, set]
}

const activeWorkspaces = (tenantId: string): Sql =>
  sql`(select count(*) from workspaces where tenant_id = ${tenantId} and tenon.is_active(state))`

export const getQuotas = adminOperation({
  name: 'quota.get',
  summary: 'Read the quotas of a workspace or a tenant: limit, used, remaining',
  roles: VIEWERS,
  input: Input(OWNER_INPUT),
  output: Quotas,
  http: { method: 'GET', path: '/v1/quotas' },
  run: async (scope, target) => read(scope, await findOwner(scope, target)),
})

async function read(scope: AdminScope, owner: Owner): Promise<Quotas> {
  const { tenantId, workspaceId } = owner
  if (workspaceId !== '')
    return { workspace_id: workspaceId, quotas: toQuotas(await readRows(scope, owner, WORKSPACE_QUOTAS)) }
  const divided = await readDivided(scope, tenantId)
  const rows = [...(await readRows(scope, owner, TENANT_QUOTAS)), ...divided]
  // Streams are counted in Valkey.
  const { usual, open } = await countStreams(scope, tenantId)
  const quotas = rows.map((row) =>
    row.name === 'sse_streams' ? { ...row, limit: row.limit === -1 ? usual : row.limit, used: open } : row,
  )
  return { tenant_id: tenantId, quotas: toQuotas(quotas) }
}

/** Quotas that the tenant has for its workspaces to divide, of which those of the workspaces are used. */
const readDivided = (scope: AdminScope, tenantId: string): Promise<QuotaRow[]> =>
  scope.rows<QuotaRow>(sql`
    select o.name, o.max as limit, null::timestamptz as resets_at, coalesce((select case o.name when 'mcp_tools' then max(q.max) else sum(q.max) end from quotas q
      where q.tenant_id = o.tenant_id and q.workspace_id <> '' and q.name = o.name), 0)::bigint as used
    from quotas o where o.tenant_id = ${tenantId} and o.workspace_id = '' and not o.name = any(${textArray([...TENANT_QUOTAS])}::text[])
    order by o.name`)

/** Reads quotas; an expired window has nothing used, and tools are counted when they are read. */
function readRows(
  scope: AdminScope,
  { tenantId, workspaceId }: Owner,
  names: readonly string[],
): Promise<QuotaRow[]> {
  const isCounted = (name: string) =>
    !COUNTED_WHILE_SET.test(name) && !(DOCUMENTS.test(name) && hasDocumentStore(scope))
  const alwaysCounted = JSON.stringify(names.filter(isCounted))
  const rows = sql`
    select n.name, coalesce(q.max, -1) as limit,
      case when n.name = 'mcp_tools' then tenon.quota_count(${tenantId}, ${workspaceId}, n.name)
        when q.resets_at <= now() then 0
        when q.name is not null then q.used
        when n.name = 'workspaces' then ${activeWorkspaces(tenantId)}
        when ${alwaysCounted}::jsonb ? n.name then tenon.quota_count(${tenantId}, ${workspaceId}, n.name) end as used,
      case when q.resets_at <= now() then tenon.window_end(n.name) else q.resets_at end as resets_at
    from jsonb_array_elements_text(${JSON.stringify(names)}::jsonb) as n (name)
      left join quotas q on q.tenant_id = ${tenantId} and q.workspace_id = ${workspaceId} and q.name = n.name`
  const count = () => countTables(() => scope.rows<QuotaRow>(rows))
  return names.some((name) => READS_ALL.test(name)) ? inScanLine(tenantId, count) : count()
}

/**
 * Consumes one unit. Called after every other check of the request.
 * @throws Problem `quota_exceeded`; 503 if the database does not answer, so that nothing stays uncounted
 */
export async function consumeQuota(
  scope: WorkspaceScope,
  quota: 'events_per_day' | 'invocations_per_day' | 'mcp_calls_per_minute',
): Promise<void> {
  if (await hasQuota(scope, quota)) await scope.batch(sql`select tenon.consume_quota(${quota})`)
}

/**
 * For the select list of a statement that does what is counted: it counts each row, and fails if the quota is used up. The
 * text `null` if the workspace has no such quota.
 */
export async function consumption(scope: WorkspaceScope, quota: 'invocations_per_day'): Promise<Sql> {
  return (await hasQuota(scope, quota)) ? sql`tenon.consume_quota(${quota})` : sql`null`
}

const Rate = component(
  'RateLimit',
  Type.Object({
    policy: Type.Enum(['key', 'subject', 'address', 'tenant', 'tool'], {
      description: 'Criterion by which requests are counted.',
    }),
    per_minute: Type.Integer(),
    limit: Type.Integer({ description: 'Maximum number of requests in a burst.' }),
    window_seconds: Type.Integer({ description: 'Seconds until an empty budget is full again.' }),
    remaining: Type.Integer({ description: 'Number of requests that remain in the budget after this one.' }),
  }),
  { policy: 'key', per_minute: 6_000, limit: 600, window_seconds: 6, remaining: 599 },
)

/** Limits by their public names: bytes, or numbers of the things named. */
const SIZES = {
  url_bytes: CORE_LIMITS.urlBytesMax,
  header_bytes: CORE_LIMITS.headerBytesMax,
  body_bytes: CORE_LIMITS.bodyBytesMax,
  document_bytes: COLLECTION_LIMITS.documentBytesMax,
  document_depth: CORE_LIMITS.documentDepthMax,
  document_keys: COLLECTION_LIMITS.documentKeysMax,
  field_name_bytes: COLLECTION_LIMITS.fieldNameBytesMax,
  filters: COLLECTION_LIMITS.filtersMax,
  page_size: CORE_LIMITS.pageItemsMax,
  query_limit: COLLECTION_LIMITS.queryDocumentsMax,
  batch_bytes: COLLECTION_LIMITS.batchBytesMax,
  batch_ops: COLLECTION_LIMITS.batchOperationsMax,
  cascade_documents: COLLECTION_LIMITS.cascadeDocumentsMax,
  schema_bytes: COLLECTION_LIMITS.schemaBytesMax,
  object_request_bytes: OBJECT_LIMITS.requestBytesMax,
  object_key_bytes: CORE_LIMITS.objectKeyBytesMax,
  open_uploads: OBJECT_LIMITS.openUploadsMax,
  open_uploads_of_user: OBJECT_LIMITS.openUploadsOfUserMax,
  event_bytes: EVENT_LIMITS.eventBytesMax,
  flow_source_bytes: FLOW_LIMITS.sourceBytesMax,
  flow_input_bytes: FLOW_LIMITS.inputBytesMax,
  function_source_bytes: FUNCTION_LIMITS.sourceBytesMax,
  function_input_bytes: FUNCTION_LIMITS.inputBytesMax,
  function_result_bytes: FUNCTION_LIMITS.resultBytesMax,
  idempotency_key_chars: ACCESS_LIMITS.idempotencyKeyCharsMax,
} as const

const Sizes = Type.Object(
  Object.fromEntries(Object.keys(SIZES).map((name) => [name, Type.Integer()])) as Record<
    keyof typeof SIZES,
    Type.TInteger
  >,
)

export const getLimits = callerOperation({
  name: 'limits.get',
  summary: 'Read your rate limits and size limits',
  roles: EVERYBODY,
  input: Input({}),
  output: component('Limits', Type.Object({ rates: Type.Array(Rate), sizes: Sizes }), {
    rates: [exampleOf(Rate)],
    sizes: SIZES,
  }),
  http: { method: 'GET', path: '/v1/limits' },
  run: async ({ rateLimits: standings }) => ({ rates: standings.map(toRate), sizes: SIZES }),
})

const toRate = ({ limit, remaining }: BucketState) => ({
  policy: limit.counted,
  per_minute: limit.perMinute,
  limit: limit.burst,
  window_seconds: seconds(limit.capacityUs),
  remaining,
})

/**
 * The names of the quotas that somebody has set for a workspace, or for its tenant, for archives: not those that each new workspace
 * has (quotas.sql).
 * @param scope with the rights of an admin @param workspaceId empty for the tenant
 */
export const quotaNames = (scope: Statements, workspaceId: string): Promise<{ readonly name: string }[]> =>
  scope.rows<{ name: string }>(sql`
    select name from quotas where workspace_id = ${workspaceId}
      and (workspace_id = '' or (name, max) not in (('mcp_servers', 1), ('users', 10000))) order by name`)
