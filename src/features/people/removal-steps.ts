/** The steps that remove a user with everything that the user has stored in the workspace. */

import type { AdminScope } from '../../access/scope.ts'
import type { TenantRef, WorkspaceRef } from '../../core/tenant.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { deleteSomeDocuments, deleteSomeObjects, findPerson, type Person } from './personal-data.ts'

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
  remove_user: async (scope, _, { operationId }) => {
    await scope.batch(sql`delete from users where id = ${await readTarget(scope, operationId)}`)
    return false
  },
}

async function readTarget(scope: AdminScope, operationId: string): Promise<string> {
  const row = await scope.row<{ target: string }>(
    sql`select target from operations where id = ${operationId}`,
  )
  return row?.target ?? ''
}
