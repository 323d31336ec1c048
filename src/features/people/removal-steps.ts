/** The steps that remove a user with everything that the user has stored in the workspace. */

import { setTimeout as pause } from 'node:timers/promises'
import type { AdminScope } from '../../access/scope.ts'
import type { TenantRef, WorkspaceRef } from '../../core/tenant.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { TENANT_LIMITS } from '../tenants/limits.ts'
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

/** Removes some at a time, so that a step that has begun is seen to go on. */
const removing =
  (removeSome: (person: Person) => Promise<boolean>): RemovalStep =>
  async (scope, ref, { operationId }) =>
    removeSome(await findPerson(scope, ref as WorkspaceRef, await readTarget(scope, operationId)))

export const USER_REMOVAL_STEP: Readonly<Record<(typeof USER_REMOVAL)[number], RemovalStep>> = {
  remove_documents_of_user: removing(deleteSomeDocuments),
  remove_objects_of_user: removing(deleteSomeObjects),
  /** The last one, so that a removal that was cut off is begun again by the same request. */
  remove_user: async (scope, ref, { operationId }) => {
    const id = await readTarget(scope, operationId)
    // Until then, processes may take the tokens of the user, who may write.
    await pause(await readFenceMs(scope, operationId))
    const person = await findPerson(scope, ref as WorkspaceRef, id)
    await deleteUploads(person)
    if ((await deleteSomeDocuments(person)) || (await deleteSomeObjects(person))) return true
    await scope.batch(sql`delete from users where id = ${id}`)
    return false
  },
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
