/** Whose factors they are: of a user of a workspace, or of an account; where each signs in, and the columns that name them. */

import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import type { Account } from '../accounts/accounts-store.ts'
import { type Brand, isUser } from '../users/users-store.ts'

/** The pages on which a person signs in: those of a workspace for its users, or those for accounts. */
export interface SignInPlace {
  readonly tenantId?: string
  /** Absent: accounts sign in here, of any tenant. */
  readonly workspaceId?: string
  readonly brand?: Brand
}

/** The pages for accounts. */
export const ACCOUNT_PAGES: SignInPlace = {}

/** True if the person may sign in there. */
export const isAt = (person: Account, { workspaceId }: SignInPlace): boolean =>
  (isUser(person) ? person.workspaceId : undefined) === workspaceId

/** Values of `user_id, account_id, tenant_id, workspace_id`. */
export function ownerIds(person: Account): Sql {
  const { id, tenantId, workspaceId } = person
  const [userId, accountId] = isUser(person) ? [id, null] : [null, id]
  return sql`${userId}, ${accountId}, ${tenantId}, ${workspaceId}`
}

/**
 * Signs a person out everywhere. Returns the new generation.
 * @param when a condition
 */
export const signOutOwner = (person: Account, when: Sql): Sql => sql`
  update ${isUser(person) ? sql`users` : sql`accounts`} set signed_out_at = clock_timestamp()
  where id = ${person.id} and ${when} returning generation`
