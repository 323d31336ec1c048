/** The steps that purge a tenant or a workspace whose time to be restored is over, and prove that nothing is left of it. */

import { setTimeout as pause } from 'node:timers/promises'
import type { AdminScope } from '../../../access/scope.ts'
import { signDeletion } from '../../../access/scope-services.ts'
import { Problem } from '../../../core/problem.ts'
import { type TenantRef, targetOf } from '../../../core/tenant.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { repeatFor } from '../../../infra/retry.ts'
import { jobWorkflowId } from '../jobs.ts'
import { TENANT_LIMITS } from '../limits.ts'
import { type Counts, OWNED, type Owner, type PartName, takeInventory } from './owned.ts'
import { destroyKeys } from './owned-rows.ts'

/** The operation that a step works for, and its workflow. */
export interface PurgeJob {
  readonly operationId: string
  readonly workflowId: string
}

type PurgeStep = (scope: AdminScope, ref: TenantRef, job: PurgeJob) => Promise<unknown>
type RemovalName = `remove_${PartName}`

/** Between two looks whether anything is left, in milliseconds. */
const LOOK_MS = 300

/** One step for each system. */
export const PURGE_STEPS = OWNED.map(({ name }) => `remove_${name}` as const) satisfies RemovalName[]

export const PURGE_STEP: Readonly<Record<RemovalName | 'begin_purge' | 'finish_purge', PurgeStep>> = {
  /** From here on nothing is restored. */
  begin_purge: async (scope, ref, { operationId, workflowId }) => {
    const before = await takeInventory({ scope, ref, workflowId })
    await claim(scope, ref, { operationId, workflowId })
    // An earlier purge, which was cut off, may have removed some of what there was before it.
    await scope.batch(sql`
      update operations o set result = jsonb_build_object('before', coalesce(
        (select p.result -> 'before' from operations p
          where p.target = o.target and p.type = o.type and p.id <> o.id and p.result ? 'before' order by p.created_at limit 1),
        ${JSON.stringify(before)}::jsonb))
      where id = ${operationId} and result is null`)
  },
  ...(Object.fromEntries(
    OWNED.map(({ name, remove }) => [
      `remove_${name}`,
      (scope: AdminScope, ref: TenantRef, { workflowId }: PurgeJob) =>
        repeatFor(TENANT_LIMITS.purgeServedMs, () => remove({ scope, ref, workflowId })),
    ]),
  ) as Record<RemovalName, PurgeStep>),
  finish_purge: async (scope, ref, job) => {
    const owner = { scope, ref, workflowId: job.workflowId }
    await requireNothing(owner)
    await writeReport(owner, job)
    await scope.batch(...tombstones(ref))
    if (ref.workspaceId === '-') await destroyKeys(scope, ref)
  },
}

/**
 * From then on, nothing is restored, and the purge goes on even if a clock says that its time has not come. If the time was changed before,
 * or an operator has suspended the tenant, the operation is queued again, for another workflow: a deletion that was acknowledged ends as a
 * purge or by a restoration.
 * @throws Problem `state_conflict`, which ends this workflow, if the record is not to be purged now, or not for this operation
 */
async function claim(
  scope: AdminScope,
  ref: TenantRef,
  { operationId, workflowId }: PurgeJob,
): Promise<void> {
  const { tenantId, workspaceId } = ref
  const mine = sql`id = ${operationId} and workflow_id = ${workflowId} and finished_at is null`
  const due = sql`state = 'deleting' and (delete_after <= now() or purged_from is not null)
    and exists (select from operations where ${mine})`
  const claimed = sql`set purged_from = coalesce(purged_from, now()), state_seq = state_seq + 1, updated_at = now()`
  const [table, update] =
    workspaceId === '-'
      ? [sql`tenants`, sql`update tenants ${claimed} where id = ${tenantId} and ${due} returning id`]
      : [
          sql`workspaces`,
          sql`update workspaces ${claimed} where id = ${workspaceId} and ${due}
            and not exists (select from tenants t where t.id = tenant_id and t.suspended_by = 'operator') returning id`,
        ]
  const another = jobWorkflowId(ref, scope.uuid())
  const [, [row] = []] = await scope.batch(
    // The next statement sees what a restoration and a deletion after it have written.
    sql`select from ${table} where id = ${targetOf(ref)} for update`,
    sql`with claimed as (${update}),
      queued as (
        update operations set state = 'queued', steps = '[]', workflow_id = ${another}
        where ${mine} and not exists (select from claimed)
          and exists (select from ${table} where id = ${targetOf(ref)} and state = 'deleting'))
      select from claimed`,
  )
  if (row === undefined)
    throw new Problem('state_conflict', {
      detail:
        'Nothing is purged now, because the deletion was undone, its time was changed, or an operator has suspended the tenant.',
    })
}

/**
 * Requests that were admitted before the deletion, and indexes that are some moments behind, may leave something: it is removed again.
 * @throws Problem `dependency_unavailable`, which makes the step wait
 */
async function requireNothing(owner: Owner): Promise<void> {
  const until = performance.now() + TENANT_LIMITS.purgeServedMs
  for (;;) {
    const left = Object.entries(await takeInventory(owner)).map(([name, n]) => `${name}: ${n}`)
    if (left.length === 0) return
    for (const { remove } of OWNED) await remove(owner)
    if (performance.now() > until)
      throw new Problem('dependency_unavailable', {
        detail: `Not everything is removed yet (${left.join(', ')}).`,
      })
    await pause(LOOK_MS)
  }
}

async function writeReport({ scope, ref }: Owner, { operationId }: PurgeJob): Promise<void> {
  const { tenantId: tenant_id, workspaceId } = ref
  const row = await scope.row<{ result: { before: Counts; signature?: string } | null }>(
    sql`select result from operations where id = ${operationId}`,
  )
  if (row?.result?.signature !== undefined) return
  const report = {
    ...{ tenant_id, ...(workspaceId !== '-' && { workspace_id: workspaceId }), operation_id: operationId },
    ...{ before: row?.result?.before ?? {}, after: {}, purged_at: new Date().toISOString() },
  }
  const result = { ...report, signature: await signDeletion(scope, report) }
  await scope.batch(
    sql`update operations set result = ${JSON.stringify(result)}::jsonb where id = ${operationId}`,
  )
}

/** What is left of the records: their ids and times. */
function tombstones({ tenantId, workspaceId }: TenantRef): Sql[] {
  const leftovers = sql`delete_after = now() + make_interval(secs => ${TENANT_LIMITS.leftoverSeconds}::integer)`
  const deleted = sql`state = 'deleted', slug = id, name = id, updated_at = now(), suspended_reason = null, drift = '[]'`
  if (workspaceId !== '-')
    return [sql`update workspaces set ${deleted}, bucket = null, ${leftovers} where id = ${workspaceId}`]
  return [
    sql`update workspaces set ${deleted}, bucket = null, delete_after = null where tenant_id = ${tenantId}`,
    sql`update tenants set ${deleted}, retention = '{}', ${leftovers} where id = ${tenantId}`,
  ]
}

/** Ends the operation of a deletion whose purge was cut off after it had removed everything. */
export const endOfDeletion = (ref: TenantRef): Sql => sql`
  update operations set state = 'succeeded', finished_at = now()
  where target = ${targetOf(ref)} and type like '%.delete' and finished_at is null`
