/** The steps that remove a user: with everything that the user has stored in the workspace, or leaving it as that of nobody. */

import { setTimeout as pause } from 'node:timers/promises'
import type { AdminScope } from '../../access/scope.ts'
import { notFound, Problem } from '../../core/problem.ts'
import type { TenantRef, WorkspaceRef } from '../../core/tenant.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { repeatFor } from '../../infra/retry.ts'
import { findInactiveReason } from '../tenants/active.ts'
import { TENANT_LIMITS } from '../tenants/limits.ts'
import {
  type FormerUser,
  renameEvents,
  renameInSomeRecords,
  renameSomeObjects,
  renameSomeOwners,
  requireEndedWork,
} from './anonymous-data.ts'
import {
  deleteSomeDocuments,
  deleteSomeObjects,
  deleteUploads,
  findPerson,
  type Person,
} from './personal-data.ts'

/** Returns true if it has more to do. @param job the operation, whose target is the user */
type RemovalStep = (
  scope: AdminScope,
  ref: TenantRef,
  job: { readonly operationId: string },
) => Promise<boolean>

export const USER_REMOVAL = ['remove_documents_of_user', 'remove_objects_of_user', 'remove_user'] as const

/** In the order in which the id could come back: work writes documents, their changes become events, and these start work again. */
export const USER_ANONYMIZATION = [
  'end_work_of_user',
  'anonymize_documents',
  'anonymize_objects',
  'anonymize_events',
  'anonymize_records',
  'remove_anonymous_user',
] as const

type RemovalStepName = (typeof USER_REMOVAL)[number] | (typeof USER_ANONYMIZATION)[number]

/** Removes some at a time, so that a step that has begun is seen to go on. */
const removing =
  (removeSome: (person: Person) => Promise<boolean>): RemovalStep =>
  async (scope, ref, { operationId }) =>
    removeSome(await findPerson(scope, ref as WorkspaceRef, await readTarget(scope, operationId)))

/** The same for a user who gets a pseudonym. @throws Problem `not_found` if the user is gone, and the pseudonym with it */
const anonymizing =
  (
    renameSome: (former: FormerUser, scope: AdminScope, operationId: string) => Promise<boolean>,
  ): RemovalStep =>
  async (scope, ref, { operationId }) => {
    const id = await readTarget(scope, operationId)
    const row = await scope.row<{ pseudonym: string | null; email: string }>(
      sql`select pseudonym, email from users where id = ${id}`,
    )
    const { pseudonym = null, email = '' } = row ?? {}
    if (pseudonym === null) throw notFound('user')
    const person = await findPerson(scope, ref as WorkspaceRef, id)
    return renameSome({ ...person, email, pseudonym }, scope, operationId)
  }

/** Repeats a step for some time, as long as the workspace is active: what is suspended is not changed. @throws Problem `dependency_unavailable`, so that the step waits */
const whileActive =
  (step: RemovalStep): RemovalStep =>
  (scope, ref, job) =>
    repeatFor(TENANT_LIMITS.purgeServedMs, async () => {
      const inactive = await findInactiveReason(scope, ref.workspaceId)
      if (inactive !== undefined)
        throw new Problem('dependency_unavailable', {
          detail: 'The workspace is not active. The step continues when it is.',
          cause: inactive,
        })
      return step(scope, ref, job)
    })

const STEPS: Readonly<Record<RemovalStepName, RemovalStep>> = {
  remove_documents_of_user: removing(deleteSomeDocuments),
  remove_objects_of_user: removing(deleteSomeObjects),
  /** The last one, so that a removal that was cut off is begun again by the same request. */
  remove_user: async (scope, ref, { operationId }) => {
    const id = await readTarget(scope, operationId)
    await awaitSignOut(scope, operationId)
    const person = await findPerson(scope, ref as WorkspaceRef, id)
    await deleteUploads(person)
    if ((await deleteSomeDocuments(person)) || (await deleteSomeObjects(person))) return true
    await scope.batch(sql`delete from users where id = ${id}`)
    return false
  },
  end_work_of_user: anonymizing(async (former, scope, operationId) => {
    await awaitSignOut(scope, operationId)
    await requireEndedWork(scope, former)
    return false
  }),
  anonymize_documents: anonymizing(renameSomeOwners),
  anonymize_objects: anonymizing(renameSomeObjects),
  anonymize_events: anonymizing(async (former, scope) => {
    await renameEvents(scope, former)
    return false
  }),
  anonymize_records: anonymizing((former, scope, operationId) =>
    renameInSomeRecords(scope, former, operationId),
  ),
  /** With the row goes the pseudonym, and the operation forgets whom it was about. */
  remove_anonymous_user: async (scope, _ref, { operationId }) => {
    await scope.batch(
      sql`delete from users where id = (select target from operations where id = ${operationId}) and pseudonym is not null`,
      sql`update operations set target = ${NOBODY}, result = null where id = ${operationId}`,
    )
    return false
  },
}

export const USER_REMOVAL_STEP = Object.fromEntries(
  Object.entries(STEPS).map(([name, step]) => [name, whileActive(step)]),
) as typeof STEPS

/** The target of an operation that has made its user anonymous. */
const NOBODY = '-'

/** Until then, processes may take the tokens of the user, who may write. */
async function awaitSignOut(scope: AdminScope, operationId: string): Promise<void> {
  await pause(await readFenceMs(scope, operationId))
}

/** For how many milliseconds from now some process may not know of the operation. */
async function readFenceMs(scope: AdminScope, operationId: string): Promise<number> {
  const row = await scope.row<{ ms: number }>(sql`
    select greatest(0, ${TENANT_LIMITS.knownByAllMs} - 1000 * extract(epoch from now() - created_at))::integer as ms
    from operations where id = ${operationId}`)
  return row?.ms ?? 0
}

async function readTarget(scope: AdminScope, operationId: string): Promise<string> {
  const row = await scope.row<{ target: string }>(
    sql`select target from operations where id = ${operationId}`,
  )
  return row?.target ?? ''
}
