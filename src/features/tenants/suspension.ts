/** Suspends, resumes and restores tenants and workspaces, and starts the workflow that notifies their executions. */

import Type, { type Static, type TSchema } from 'typebox'
import { adminOperation, Input, Ref } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { invalidateState } from '../../access/scope-cache.ts'
import { tenantWorkflowsOf } from '../../access/scope-services.ts'
import { OPERATORS, type Role, TENANT_ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { type TenantId, type TenantRef, targetOf, type WorkspaceId } from '../../core/tenant.ts'
import { QUEUES, type SuspensionInput } from '../../core/work.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { SHARED_LIMITS } from '../limits.ts'
import { findRow } from '../operation-helpers.ts'
import { findTenant, findWorkspace, Tenant, Workspace } from './tenants.ts'

const Reason = Type.Optional(
  Type.String({
    minLength: 1,
    maxLength: SHARED_LIMITS.reasonCharsMax,
    pattern: '^[^\\u0000-\\u001f]*$',
    description:
      'Reason for the suspension, shown to admins. Callers whose requests are rejected do not see it.',
  }),
)

export type Noun = 'tenant' | 'workspace'
type Find<O extends TSchema> = (scope: AdminScope, id: string) => Promise<Static<O>>

const suspending = <O extends TSchema>(noun: Noun, roles: readonly Role[], output: O, find: Find<O>) =>
  adminOperation({
    name: `${noun}.suspend`,
    summary: `Suspend a ${noun}: all its activity stops within 5 s, and no work is lost`,
    roles,
    input: Input({ id: Ref(noun), reason: Reason }),
    output,
    http: { method: 'POST', path: `/v1/${noun}s/{id}/suspend`, body: '*' },
    run: async (scope, { id, reason }) => {
      await changeAndNotify(scope, await findTarget(scope, noun, id), 'suspended', reason)
      return find(scope, id)
    },
  })

const resuming = <O extends TSchema>(noun: Noun, roles: readonly Role[], output: O, find: Find<O>) =>
  adminOperation({
    name: `${noun}.resume`,
    summary: `Resume a suspended ${noun}: its executions and runs continue where they stopped`,
    roles,
    input: Input({ id: Ref(noun) }),
    output,
    http: { method: 'POST', path: `/v1/${noun}s/{id}/resume`, body: '*' },
    run: async (scope, { id }) => {
      await changeAndNotify(scope, await findTarget(scope, noun, id), 'active')
      return find(scope, id)
    },
  })

const restoring = <O extends TSchema>(noun: Noun, roles: readonly Role[], output: O, find: Find<O>) =>
  adminOperation({
    name: `${noun}.restore`,
    summary: `Restore a ${noun} that is being deleted, before its purge begins`,
    roles,
    recentProof: true,
    input: Input({ id: Ref(noun) }),
    output,
    http: { method: 'POST', path: `/v1/${noun}s/{id}/restore`, body: '*' },
    run: async (scope, { id }) => {
      await restore(scope, noun, await findTarget(scope, noun, id))
      return find(scope, id)
    },
  })

export const suspendTenant = suspending('tenant', OPERATORS, Tenant, findTenant)
export const resumeTenant = resuming('tenant', OPERATORS, Tenant, findTenant)
export const suspendWorkspace = suspending('workspace', TENANT_ADMINS, Workspace, findWorkspace)
export const resumeWorkspace = resuming('workspace', TENANT_ADMINS, Workspace, findWorkspace)
export const restoreTenant = restoring('tenant', OPERATORS, Tenant, findTenant)
export const restoreWorkspace = restoring('workspace', TENANT_ADMINS, Workspace, findWorkspace)

const STATE = sql`state, suspended_by, state_seq, delete_after, purged_from, state_before, deleted_by`

/** The tenant or workspace to change. */
export interface SuspensionTarget {
  readonly tenant_id: TenantId
  readonly workspace_id: WorkspaceId | '-'
  readonly state: string
  readonly suspended_by: string | null
  readonly state_seq: number
  readonly delete_after: Date | null
  readonly purged_from: Date | null
  readonly state_before: string | null
  readonly deleted_by: string | null
}

/** @throws Problem `not_found` */
export const findTarget = (scope: AdminScope, noun: Noun, id: string) =>
  findRow<SuspensionTarget>(
    scope,
    noun,
    noun === 'tenant'
      ? sql`select id as tenant_id, '-' as workspace_id, ${STATE} from tenants where id = ${id} and state <> 'deleted'`
      : sql`select tenant_id, id as workspace_id, ${STATE} from workspaces where id = ${id} and state <> 'deleted'`,
  )

/**
 * Changes the state, and starts a workflow that notifies executions and changes the state in case this process dies. A
 * repeated call changes nothing and notifies again.
 * @throws Problem `state_conflict` in other states; `forbidden` if an operator has suspended it; after
 *   `dependency_unavailable`, a suspension is in force although executions may not know it, and a resumption has no effect
 */
async function changeAndNotify(
  scope: AdminScope,
  found: SuspensionTarget,
  to: SuspensionInput['to'],
  reason?: string,
): Promise<void> {
  requireAllowed(scope, found, to)
  const target: TenantRef = { tenantId: found.tenant_id, workspaceId: found.workspace_id }
  const by = scope.actor.role
  const input: SuspensionInput = { target, to, after: found.state_seq, by, reason: reason ?? null }
  // A suspension does not wait for Temporal; a resumption is made only with its workflow.
  const notified = notifyExecutions(scope, input)
  const started = to === 'suspended' ? notified : Promise.resolve(await notified)
  const outcomes = await Promise.allSettled([changeState(scope, input), started])
  invalidateState(scope, target.tenantId)
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
}

/**
 * Restores the state before the deletion, and then tells executions: a restoration that is refused has no effect, neither now nor later.
 * What is not being deleted stays as it is, so that the request can be repeated.
 * @throws Problem `state_conflict` if the purge has begun, or a deletion came in between; `forbidden` if an operator has deleted it; `quota_exceeded`; after
 *   `dependency_unavailable`, it is restored although executions may not know it: resuming it tells them
 */
async function restore(scope: AdminScope, noun: Noun, found: SuspensionTarget): Promise<void> {
  requireAllowed(scope, found, 'restored')
  if (found.deleted_by === 'operator') requireOperator(scope, 'restore', 'deleted')
  const target: TenantRef = { tenantId: found.tenant_id, workspaceId: found.workspace_id }
  const input = { target, to: 'restored', by: scope.actor.role, reason: null } as const
  await changeState(scope, { ...input, after: found.state_seq })
  invalidateState(scope, target.tenantId)
  const now = await findTarget(scope, noun, targetOf(target))
  if (now.state === 'deleting')
    throw now.purged_from === null && now.state_seq !== found.state_seq ? deletedAgain(noun) : purging(noun)
  await notifyExecutions(scope, { ...input, after: null })
}

const purging = (noun: Noun) =>
  new Problem('state_conflict', {
    detail: `The ${noun} can no longer be restored, because its purge is under way.`,
  })

const deletedAgain = (noun: Noun) =>
  new Problem('state_conflict', {
    detail: `The ${noun} was deleted again meanwhile. Send the request again if it is to be restored all the same.`,
  })

/** Starts the workflow that changes the state, if it is not changed yet, and tells executions. */
export async function notifyExecutions(scope: AdminScope, input: SuspensionInput): Promise<void> {
  const { tenantId } = input.target
  await tenantWorkflowsOf(scope, { tenantId, workspaceId: '-' }).start({
    ...{
      definition: 'suspension',
      queue: QUEUES.provisioning,
      subject: 'suspension',
      uuid: scope.uuid(),
      input,
    },
    summary: `${targetOf(input.target)} is to be ${input.to}`,
  })
}

function requireAllowed(scope: AdminScope, found: SuspensionTarget, to: SuspensionInput['to']): void {
  const what = found.workspace_id === '-' ? 'tenant' : 'workspace'
  if (to === 'restored' && found.state === 'deleting' && found.delete_after !== null) {
    if (found.purged_from !== null) throw purging(what)
    if (found.state_before === null)
      throw new Problem('state_conflict', {
        detail: `The ${what} cannot be restored, because it was never completed. Create it, or import its archive, again.`,
      })
    return
  }
  if (found.state !== 'active' && found.state !== 'suspended')
    throw new Problem('state_conflict', { detail: `The ${what} is ${found.state}.` })
  if (to === 'active') requireNotHeldByOperator(scope, found, 'resume')
}

/** @throws Problem `forbidden` for an admin of the tenant if an operator has suspended it */
export function requireNotHeldByOperator(
  scope: AdminScope,
  { suspended_by }: Pick<SuspensionTarget, 'suspended_by'>,
  verb: 'resume' | 'delete',
): void {
  if (suspended_by === 'operator') requireOperator(scope, verb, 'suspended')
}

export function requireOperator(scope: AdminScope, verb: string, did: string): void {
  if (scope.actor.role !== 'operator')
    throw new Problem('forbidden', {
      detail: `Only an operator can ${verb} it, because an operator has ${did} it.`,
    })
}

/** Changes the state, unless it was changed since. @throws Problem without the database */
export async function changeState(scope: AdminScope, input: SuspensionInput): Promise<void> {
  const { target, to, after } = input
  if (after === null) return
  const change = changeOf(input)
  const still = sql`${statesBefore(input)} and state_seq = ${after}`
  await scope.batch(
    target.workspaceId === '-'
      ? sql`update tenants set ${change}, suspension_seq = suspension_seq + 1 where id = ${target.tenantId} and ${still}`
      : sql`with changed as (
            update workspaces set ${change} where id = ${target.workspaceId} and ${still}
              ${to === 'restored' ? WHILE_TENANT_STAYS : sql``} returning tenant_id)
          update tenants set suspension_seq = suspension_seq + 1 from changed where id = changed.tenant_id`,
    ...(to === 'restored' ? [cancelDeletion(target)] : []),
  )
}

/** A purge of the tenant removes what is restored in it. */
const WHILE_TENANT_STAYS = sql`
  and not exists (select from tenants t where t.id = tenant_id and t.purged_from is not null)`

/** The states that a change is made in. An operator takes over the suspension of an admin, who may then no longer end it. */
function statesBefore({ to, by }: SuspensionInput): Sql {
  if (to === 'active') return sql`state = 'suspended'`
  if (to === 'restored') return sql`state = 'deleting' and purged_from is null and state_before is not null`
  return by === 'operator'
    ? sql`(state = 'active' or (state = 'suspended' and suspended_by <> 'operator'))`
    : sql`state = 'active'`
}

function changeOf({ to, by, reason }: SuspensionInput): Sql {
  const since = sql`state_seq = state_seq + 1, updated_at = now()`
  if (to === 'restored')
    return sql`state = state_before, state_before = null, deleted_by = null, delete_after = null, resumed_at = now(), ${since}`
  if (to === 'active')
    return sql`state = 'active', resumed_at = now(), suspended_at = null, suspended_by = null, suspended_reason = null, ${since}`
  return sql`state = 'suspended', suspended_at = now(), suspended_by = ${by}, suspended_reason = ${reason}, ${since}`
}

/** Ends the operation of a deletion whose purge has not begun, also one that waits for the inventory. */
const cancelDeletion = (ref: TenantRef): Sql => sql`
  update operations o set state = 'cancelled', finished_at = now()
  where target = ${targetOf(ref)} and type like '%.delete' and finished_at is null
    and not exists (select from workspaces w where w.id = o.target and w.state = 'deleting')
    and not exists (select from tenants t where t.id = o.target and t.state = 'deleting')`

/** The effective state of a workspace, and the number of the tenant's last change. */
export interface WorkspaceState {
  readonly id: WorkspaceId
  readonly suspended: boolean
  readonly seq: number
}

/** The states of the target's workspaces, read in one statement so that they are consistent. */
export function readStates(
  scope: AdminScope,
  { tenantId, workspaceId }: TenantRef,
): Promise<WorkspaceState[]> {
  return scope.rows<WorkspaceState>(sql`
    select w.id, t.suspension_seq as seq, t.state in ('suspended', 'deleting') or w.state in ('suspended', 'deleting') as suspended
    from workspaces w join tenants t on t.id = w.tenant_id
    where w.tenant_id = ${tenantId} and (${workspaceId} = '-' or w.id = ${workspaceId})
    order by w.id`)
}
