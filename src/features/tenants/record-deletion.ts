/** Records the deletion of a tenant or a workspace: from then on nothing runs in it, and its purge begins when its time has come (due-jobs.ts). */

import type { AdminScope } from '../../access/scope.ts'
import { type TenantRef, targetOf } from '../../core/tenant.ts'
import { type Sql, sql, textArray } from '../../infra/postgres/sql.ts'
import { JOB_COLUMNS, type Job, jobWorkflowId, kindOf } from './jobs.ts'
import { TENANT_LIMITS } from './limits.ts'

interface Deletion {
  readonly ref: TenantRef
  readonly operationId: string
  readonly by: string
  /** The states that it is deleted in. */
  readonly from: readonly string[]
  /** The `state_seq` that it was read with; absent: any. */
  readonly after?: number
  /** Absent: the usual time, or that of the deletion that is under way. */
  readonly graceDays?: number
}

interface RecordedDeletion {
  readonly job: Job
  /** True if its time has come: the purge begins when every process knows of the deletion, or now if it was never in use. */
  readonly isAtOnce: boolean
}

/**
 * Writes record and operation in one transaction. Repeated, it changes the time, if one is named. One that was never in use is purged
 * at once, and its slug is free: it has no state to be restored to.
 * @returns the operation; undefined if the record is in another state, was changed meanwhile, or is being purged
 */
export async function recordDeletion(
  scope: AdminScope,
  deletion: Deletion,
): Promise<RecordedDeletion | undefined> {
  const { ref, operationId } = deletion
  const target = targetOf(ref)
  const type = `${kindOf(ref)}.delete`
  const [[changed] = [], , [job] = []] = await scope.batch(
    beginning(deletion),
    sql`insert into operations (id, tenant_id, type, target, workflow_id, state)
      select ${operationId}, ${ref.tenantId}, ${type}, ${target}, ${jobWorkflowId(ref, scope.uuid())}, 'queued'
      where ${isDeleting(ref)} and not exists (select from operations o where ${isOpen(target)})
      on conflict (id) do nothing`,
    sql`select ${JOB_COLUMNS} from operations o where ${isOpen(target)}`,
  )
  if (changed === undefined || job === undefined) return undefined
  return { job: job as unknown as Job, isAtOnce: changed['is_at_once'] === true }
}

const UNFINISHED = sql`state in ('provisioning', 'provisioning_failed')`
const NEVER_IN_USE = sql`(${UNFINISHED} or (state = 'deleting' and state_before is null))`

/** As times are stored, but never rounded up: a purge that begins at once is not to come. */
const NOW = sql`date_trunc('milliseconds', now())`

/** Changes the record. It returns no row if the record is not as the deletion expects it. */
function beginning({ ref, by, from, after, graceDays }: Deletion): Sql {
  const target = targetOf(ref)
  const until = sql`${NOW} + make_interval(days => ${graceDays ?? TENANT_LIMITS.graceDaysDefault}::integer)`
  const change = sql`
    state = 'deleting', deleted_by = ${by},
    state_before = case when state in ('active', 'suspended') then state else state_before end,
    slug = case when ${UNFINISHED} then id else slug end,
    delete_after = case when ${NEVER_IN_USE} or purged_from is not null then coalesce(delete_after, ${NOW})
      else ${graceDays === undefined ? sql`coalesce(delete_after, ${until})` : until} end,
    state_seq = state_seq + 1, updated_at = now()`
  // As it was read: meanwhile, an operator may have suspended it. A purge that has failed is begun again, at once.
  const can = sql`state = any(${textArray(from)}::text[]) and state_seq = coalesce(${after ?? null}::integer, state_seq)
    and (purged_from is null or not exists (select from operations o where ${isOpen(target)}))`
  return ref.workspaceId === '-'
    ? sql`update tenants set ${change}, suspension_seq = suspension_seq + 1 where id = ${target} and ${can}
        returning delete_after <= now() as is_at_once`
    : sql`with changed as (update workspaces set ${change} where id = ${target} and ${can} returning tenant_id, delete_after)
        update tenants t set suspension_seq = suspension_seq + 1 from changed where t.id = changed.tenant_id
        returning changed.delete_after <= now() as is_at_once`
}

const isDeleting = ({ tenantId, workspaceId }: TenantRef): Sql =>
  workspaceId === '-'
    ? sql`exists (select from tenants where id = ${tenantId} and state = 'deleting')`
    : sql`exists (select from workspaces where id = ${workspaceId} and state = 'deleting')`

/** The operation `o` of the deletion that is under way. */
const isOpen = (target: string): Sql =>
  sql`o.target = ${target} and o.type like '%.delete' and o.finished_at is null`
