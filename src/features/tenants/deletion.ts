/** Deletes tenants and workspaces: at once what was never in use, everything else after a time in which it can be restored. */

import { setTimeout as pause } from 'node:timers/promises'
import Type from 'typebox'
import { adminOperation, Input, Ref, Wait } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { invalidateState } from '../../access/scope-cache.ts'
import { OPERATORS, type Role, TENANT_ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { type TenantRef, targetOf } from '../../core/tenant.ts'
import { startIfDue } from './due-jobs.ts'
import { findJob, Job } from './jobs.ts'
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
import { asJob } from './unfinished.ts'

const { graceDaysDefault, graceDaysMax } = TENANT_LIMITS

const GraceDays = Type.Optional(
  Type.Integer({
    minimum: 0,
    maximum: graceDaysMax,
    description: `Days until the purge, in which the deletion can be undone. 0: the purge begins after ${TENANT_LIMITS.knownByAllMs / 1_000} s, when every process knows of the deletion, and cannot be undone. Default: ${graceDaysDefault}. What was never in use is purged at once.`,
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
    run: async (scope, { id, grace_days, wait = 0 }) =>
      deleteFound(scope, {
        noun,
        found: await findTarget(scope, noun, id),
        graceDays: grace_days,
        waitS: wait,
      }),
  })

export const deleteTenant = deleting('tenant', OPERATORS)
export const deleteWorkspace = deleting('workspace', TENANT_ADMINS)

interface Deletion {
  readonly noun: Noun
  readonly found: SuspensionTarget
  readonly graceDays: number | undefined
  readonly waitS: number
}

const BEFORE = ['provisioning', 'provisioning_failed', 'active', 'suspended', 'deleting']

/** @throws Problem `state_conflict` while its purge is under way */
async function deleteFound(scope: AdminScope, deletion: Deletion): Promise<Job> {
  const { noun, found, graceDays, waitS } = deletion
  requireNotHeldByOperator(scope, found, 'delete')
  if (found.deleted_by === 'operator') requireOperator(scope, 'change the deletion of', 'deleted')
  const ref: TenantRef = { tenantId: found.tenant_id, workspaceId: found.workspace_id }
  const { role: by } = scope.actor
  const recorded = await recordDeletion(scope, {
    ...{ ref, operationId: scope.newId('op'), by, from: BEFORE, after: found.state_seq },
    ...(graceDays !== undefined && { graceDays }),
  })
  if (recorded === undefined) {
    const now = await findTarget(scope, noun, targetOf(ref))
    // A purge that was cut off is begun again.
    if (now.purged_from !== null && (await endCutOffJobs(scope, ref, `${noun}.delete`)))
      return deleteFound(scope, { ...deletion, found: now })
    throw refusal(noun, now)
  }
  invalidateState(scope, ref.tenantId)
  // Every entry point reads the state, so nothing waits for this but what executions show.
  if (found.state === 'active' || found.state === 'suspended')
    await notifyExecutions(scope, { target: ref, to: 'suspended', after: null, by, reason: null }).catch(
      (error: unknown) => scope.logError(error, 'executions are not told that they are being deleted'),
    )
  return recorded.isAtOnce ? purge(scope, recorded.job, waitS) : recorded.job
}

/** Between two looks whether a purge has ended, in milliseconds. */
const LOOK_MS = 200

/**
 * Begins a purge, unless processes have to learn of the deletion first: then due-jobs.ts begins it, as it does if Temporal is away.
 * The deletion is recorded, so nothing that fails from here on is an error of the request.
 * @returns the operation, which has ended by then if it does so within `waitS` seconds
 */
async function purge(scope: AdminScope, job: Job, waitS: number): Promise<Job> {
  await startIfDue(scope, job.id).catch((error: unknown) =>
    scope.logError(error, 'the purge of a deletion is begun later'),
  )
  const until = performance.now() + waitS * 1_000
  let now = job
  while (now.finished_at === null && performance.now() < until) {
    await pause(LOOK_MS)
    now = (await findJob(scope, job.id).catch(() => undefined)) ?? now
  }
  return now
}

/** Of one whose purge has begun, or that another request has changed meanwhile. */
function refusal(noun: Noun, { state, purged_from }: SuspensionTarget): Problem {
  const detail =
    purged_from === null
      ? `The ${noun} is ${state}. Send the request again.`
      : `The purge of the ${noun} is under way.`
  return new Problem('state_conflict', { detail })
}
