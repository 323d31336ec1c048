/** Deletes tenants and workspaces: at once what was never in use, everything else after a time in which it can be restored. */

import Type from 'typebox'
import { adminOperation, Input, Ref } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { invalidateState } from '../../access/scope-cache.ts'
import { OPERATORS, type Role, TENANT_ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { type TenantRef, targetOf } from '../../core/tenant.ts'
import { Job } from './jobs.ts'
import { TENANT_LIMITS } from './limits.ts'
import { endCutOffJobs } from './provisioning.ts'
import { recordDeletion } from './record-deletion.ts'
import {
  findTarget,
  type Noun,
  notifyExecutions,
  requireNotHeldByOperator,
  requireOperator,
  type SuspensionTarget,
} from './suspension.ts'

const { graceDaysDefault, graceDaysMax } = TENANT_LIMITS

const GraceDays = Type.Optional(
  Type.Integer({
    minimum: 0,
    maximum: graceDaysMax,
    description: `Days until the purge, in which the deletion can be undone. 0: the purge begins at once and cannot be undone. Default: ${graceDaysDefault}. What was never in use is purged at once.`,
  }),
)

const deleting = (noun: Noun, roles: readonly Role[]) =>
  adminOperation({
    name: `${noun}.delete`,
    summary: `Delete a ${noun}: suspend it at once, and purge it with all that it has after some days`,
    roles,
    recentProof: true,
    input: Input({ id: Ref(noun), grace_days: GraceDays }),
    output: Job,
    http: {
      method: 'DELETE',
      path: `/v1/${noun}s/{id}`,
      status: () => 202,
      location: ({ id }) => `/v1/operations/${id}`,
    },
    run: async (scope, { id, grace_days }) =>
      deleteFound(scope, { noun, found: await findTarget(scope, noun, id), graceDays: grace_days }),
  })

export const deleteTenant = deleting('tenant', OPERATORS)
export const deleteWorkspace = deleting('workspace', TENANT_ADMINS)

interface Deletion {
  readonly noun: Noun
  readonly found: SuspensionTarget
  readonly graceDays: number | undefined
}

const BEFORE = ['provisioning', 'provisioning_failed', 'active', 'suspended', 'deleting']

/** @throws Problem `state_conflict` while its purge is under way */
async function deleteFound(scope: AdminScope, { noun, found, graceDays }: Deletion): Promise<Job> {
  requireNotHeldByOperator(scope, found, 'delete')
  if (found.deleted_by === 'operator') requireOperator(scope, 'change the deletion of', 'deleted')
  const ref: TenantRef = { tenantId: found.tenant_id, workspaceId: found.workspace_id }
  const { role: by } = scope.actor
  const job = await recordDeletion(scope, {
    ...{ ref, operationId: scope.newId('op'), by, from: BEFORE, after: found.state_seq },
    ...(graceDays !== undefined && { graceDays }),
  })
  if (job === undefined) {
    const now = await findTarget(scope, noun, targetOf(ref))
    // A purge that was cut off is begun again.
    if (now.purged_from !== null && (await endCutOffJobs(scope, ref, `${noun}.delete`)))
      return deleteFound(scope, { noun, found: now, graceDays })
    throw refusal(noun, now)
  }
  invalidateState(scope, ref.tenantId)
  // Every entry point reads the state, so nothing waits for this but what executions show.
  if (found.state === 'active' || found.state === 'suspended')
    await notifyExecutions(scope, { target: ref, to: 'suspended', after: null, by, reason: null }).catch(
      (error: unknown) => scope.logError(error, 'executions are not told that they are being deleted'),
    )
  return job
}

/** Of one whose purge has begun, or that another request has changed meanwhile. */
function refusal(noun: Noun, { state, purged_from }: SuspensionTarget): Problem {
  const detail =
    purged_from === null
      ? `The ${noun} is ${state}. Send the request again.`
      : `The purge of the ${noun} is under way.`
  return new Problem('state_conflict', { detail })
}
