/** The data of a user on the page of the own account: exported as a file, or deleted or made anonymous together with the user. */

import type { Access } from '../../access/access.ts'
import { type Claims, generationId } from '../../access/authentication/claims.ts'
import { privilege } from '../../access/privileges.ts'
import type { ByteReply } from '../../core/bytes.ts'
import type { UserAccount } from '../../features/identity/users/users-store.ts'
import { deleteUser } from '../../features/people/delete-user.ts'
import { exportUser } from '../../features/people/export-user.ts'

const openAsUser = privilege('people.page_export')
const openTenant = privilege('people.page_deletion')

/** For which the links to objects in an export hold, unless the user is signed out everywhere: a day, in milliseconds. */
const LINKS_MS = 86_400_000

/** What the workspace knows of the user, as `GET /v1/users/{id}/export` returns it. */
export async function exportOwnData(access: Access, user: UserAccount): Promise<ByteReply> {
  const { id, email, emailVerified, claims: own, tenantId, workspaceId } = user
  const described = { email, emailVerified, claims: own }
  const claims: Claims = {
    ...{ sub: id, credential: generationId(user.generation), expiresMs: Date.now() + LINKS_MS },
    ...{ roles: ['user'], scopes: [], tenantId, workspaceId, user: described },
  }
  const scope = await openAsUser(
    access,
    { tenantId, workspaceId },
    {
      ...{ subject: id, role: 'user', user: { id, ...described } },
      credential: { kind: 'token', roles: ['user'], claims },
    },
  )
  return exportUser.run(scope, { id })
}

/** Signs the user out, and deletes the user with documents and objects, or makes these anonymous: a job, which goes on whatever stops. */
export async function deleteOwnData(
  access: Access,
  { id, tenantId }: UserAccount,
  data: 'delete' | 'anonymize',
): Promise<void> {
  await deleteUser.run(openTenant(access, tenantId, id), { id, data })
}
