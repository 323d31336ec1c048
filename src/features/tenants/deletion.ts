/** Deletes tenants and workspaces: at once what was never in use, everything else after a time in which it can be restored. */

import Type from 'typebox'
import { adminOperation, Input, Ref, Wait } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { invalidateState } from '../../access/scope-cache.ts'
import { OPERATORS, type Role, TENANT_ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { type TenantRef, targetOf } from '../../core/tenant.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { findRow } from '../operation-helpers.ts'
import { discardImport } from './discarded-imports.ts'
import { findJob, JOB_COLUMNS, Job, jobWorkflowId } from './jobs.ts'
import { TENANT_LIMITS } from './limits.ts'
import { endCutOffJobs } from './provisioning.ts'
import {
  findTarget,
  type Noun,
  notifyExecutions,
  requireNotHeldByOperator,
  requireOperator,
  type SuspensionTarget,
} from './suspension.ts'
import { asJob, isEnded, REMOVABLE, removeUnfinished } from './unfinished.ts'

const { graceDaysDefault, graceDaysMax } = TENANT_LIMITS

const GraceDays = Type.Optional(
  Type.Integer({
    minimum: 0,
    maximum: graceDaysMax,
    description: `Days until the purge, in which the deletion can be undone. 0: the purge begins at once and cannot be undone. Default: ${graceDaysDefault}.`,
  }),
)

const deleting = (noun: Noun, roles: readonly Role[]) =>
  adminOperation({
    name: `${noun}.delete`,
    summary: `Delete a ${noun}: suspend it at once, and purge it with all that it has after some days`,
    roles,
    recentProof: true,
    input: Input({ id: Ref(noun), grace_days: GraceDays, wait: Wait }),
    output: Job,
    http: asJob('DELETE', `/v1/${noun}s/{id}`),
    run: async (scope, { id, grace_days, wait }) => {
      const operationId = scope.newId('op')
      // Repeated after its end: the record is gone.
      const earlier = await findJob(scope, operationId)
      if (earlier !== undefined && isEnded(earlier)) return earlier
      const found = await findTarget(scope, noun, id)
      if (found.state === 'active' || found.state === 'suspended' || found.delete_after !== null)
        return deleteLater(scope, { noun, found, operationId, graceDays: grace_days })
      const ref: TenantRef = { tenantId: found.tenant_id, workspaceId: found.workspace_id }
      if (await discardImport(scope, ref, { operationId, from: REMOVABLE })) {
        invalidateState(scope, ref.tenantId)
        return findRow<Job>(
          scope,
          'operation',
          sql`select ${JOB_COLUMNS} from operations where id = ${operationId}`,
        )
      }
      return removeUnfinished(scope, noun, { id, operationId, ...(wait !== undefined && { waitS: wait }) })
    },
  })

export const deleteTenant = deleting('tenant', OPERATORS)
export const deleteWorkspace = deleting('workspace', TENANT_ADMINS)

interface Deletion {
  readonly noun: Noun
  readonly found: SuspensionTarget
  readonly operationId: string
  readonly graceDays: number | undefined
}

/**
 * Records the deletion in one transaction: from then on nothing runs, and a purge begins when its time has come (due-jobs.ts).
 * Repeated, it changes the time, if one is named.
 */
async function deleteLater(scope: AdminScope, deletion: Deletion): Promise<Job> {
  const { noun, found, operationId, graceDays } = deletion
  requireNotHeldByOperator(scope, found, 'delete')
  if (found.deleted_by === 'operator') requireOperator(scope, 'change the deletion of', 'deleted')
  const ref: TenantRef = { tenantId: found.tenant_id, workspaceId: found.workspace_id }
  const target = targetOf(ref)
  const workflow = jobWorkflowId(ref, scope.uuid())
  const [[changed] = [], , [job] = []] = await scope.batch(
    beginning(found, graceDays, scope.actor.role),
    sql`insert into operations (id, tenant_id, type, target, workflow_id, state)
      select ${operationId}, ${ref.tenantId}, ${`${noun}.delete`}, ${target}, ${workflow}, 'queued'
      where ${isDeleting(ref)} and not exists (select from operations o where ${isOpen(target)})
      on conflict (id) do nothing`,
    sql`select ${JOB_COLUMNS} from operations o where ${isOpen(target)}`,
  )
  if (changed === undefined || job === undefined) {
    const now = await findTarget(scope, noun, target)
    // A purge that was cut off is begun again.
    if (now.purged_from !== null && (await endCutOffJobs(scope, ref, `${noun}.delete`)))
      return deleteLater(scope, { ...deletion, found: now })
    throw refusal(noun, now)
  }
  invalidateState(scope, ref.tenantId)
  const { role: by } = scope.actor
  // Every entry point reads the state, so nothing waits for this but what executions show.
  await notifyExecutions(scope, { target: ref, to: 'suspended', after: null, by, reason: null }).catch(
    (error: unknown) => scope.logError(error, 'executions are not told that they are being deleted'),
  )
  return job as Job
}

/** Of one whose purge has begun, or that another request has changed meanwhile. */
function refusal(noun: Noun, { state, purged_from }: SuspensionTarget): Problem {
  const detail =
    purged_from === null
      ? `The ${noun} is ${state}. Send the request again.`
      : `The purge of the ${noun} is under way.`
  return new Problem('state_conflict', { detail })
}

/** Changes the record. It returns no row if the record is not in one of these states any more. */
function beginning(
  { workspace_id, tenant_id, state_seq }: SuspensionTarget,
  graceDays: number | undefined,
  by: string,
): Sql {
  const target = targetOf({ tenantId: tenant_id, workspaceId: workspace_id })
  const until = sql`now() + make_interval(days => ${graceDays ?? graceDaysDefault}::integer)`
  const change = sql`
    state = 'deleting', deleted_by = ${by}, state_before = case when state = 'deleting' then state_before else state end,
    delete_after = ${graceDays === undefined ? sql`coalesce(delete_after, ${until})` : until},
    state_seq = state_seq + 1, updated_at = now()`
  // As it was read: meanwhile, an operator may have suspended it. A purge that has failed is begun again.
  const can = sql`state_seq = ${state_seq} and (state in ('active', 'suspended') or (state = 'deleting' and delete_after is not null))
    and (purged_from is null or not exists (select from operations o where ${isOpen(target)}))`
  return workspace_id === '-'
    ? sql`update tenants set ${change}, suspension_seq = suspension_seq + 1 where id = ${target} and ${can} returning id`
    : sql`with changed as (update workspaces set ${change} where id = ${target} and ${can} returning tenant_id)
        update tenants set suspension_seq = suspension_seq + 1 from changed where id = changed.tenant_id returning id`
}

const isDeleting = ({ tenantId, workspaceId }: TenantRef): Sql =>
  workspaceId === '-'
    ? sql`exists (select from tenants where id = ${tenantId} and state = 'deleting')`
    : sql`exists (select from workspaces where id = ${workspaceId} and state = 'deleting')`

/** The operation `o` of the deletion that is under way. */
const isOpen = (target: string): Sql =>
  sql`o.target = ${target} and o.type like '%.delete' and o.finished_at is null`
