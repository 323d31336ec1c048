/** Removes the second factor and all passkeys of an account or a user, and signs the person out everywhere. */

import { effectOnce } from '../../../access/effect-once.ts'
import type { AdminScope } from '../../../access/scope.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { issuerAdminOf } from '../identity-services.ts'

const OF = {
  account: { owner: sql`account_id`, people: sql`accounts` },
  user: { owner: sql`user_id`, people: sql`users` },
} as const

/** @param read the person afterwards, in the same transaction @returns what it reads */
export async function resetFactors<T extends object>(
  scope: AdminScope,
  { kind, id }: { readonly kind: keyof typeof OF; readonly id: string },
  read: (inside: AdminScope) => Promise<T>,
): Promise<T> {
  const { owner, people } = OF[kind]
  // Once: a repetition must not remove what the person has set up since.
  const person = await effectOnce(scope, async (inside) => {
    await inside.batch(
      sql`delete from second_factors where ${owner} = ${id}`,
      sql`delete from passkeys where ${owner} = ${id}`,
      sql`update ${people} set signed_out_at = clock_timestamp() where id = ${id}`,
    )
    return read(inside)
  })
  issuerAdminOf(scope).forgetSubject(id)
  return person
}
