/** Reads and stores all users of a workspace for archives: who they are, and nothing that they sign in with. */

import Type, { type Static } from 'typebox'
import type { AdminScope, WorkspaceScope } from '../../../access/scope.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { sql, textArray } from '../../../infra/postgres/sql.ts'
import { allRows, conflictIf } from '../../operation-helpers.ts'
import { USER_EMAIL_PATTERN } from './auth-settings.ts'
import { checkClaims } from './users-api.ts'

const PAGE = 500

/** A user in an archive. */
export const UserLine = Type.Object(
  {
    id: Type.String({ pattern: '^usr_[0-9a-hjkmnp-tv-z]{26}$' }),
    email: Type.String({ pattern: USER_EMAIL_PATTERN, maxLength: 320 }),
    name: Type.String({ maxLength: CORE_LIMITS.nameCharsMax }),
    claims: Type.Record(Type.String({ pattern: '^' }), Type.Unknown()),
    disabled: Type.Boolean(),
  },
  { additionalProperties: false },
)
export type UserLine = Static<typeof UserLine>

/** All users, in the order of their ids. @param structure scope with the rights of an admin */
export const allUsers = (structure: WorkspaceScope): AsyncGenerator<UserLine> =>
  allRows(
    PAGE,
    (after) =>
      structure.rows<UserLine>(sql`
        select id, email, name, claims, disabled_at is not null as disabled from users
        where id > ${after} order by id limit ${PAGE}`),
    ({ id }) => id,
  )

/**
 * Stores users as invited ones, who get new invitations. It may be repeated.
 * @param idOf the id of a user whose own is taken in this installation
 * @throws Problem `validation_failed` for claims out of bounds, `conflict` for an address that comes twice, `quota_exceeded`
 */
export async function restoreUsers(
  scope: AdminScope,
  { tenantId, workspaceId }: WorkspaceRef,
  users: readonly UserLine[],
  idOf: (id: string) => string,
): Promise<void> {
  for (const { claims } of users) checkClaims(claims)
  const insert = (rows: readonly UserLine[]) => sql`
    insert into users (id, tenant_id, workspace_id, email, name, claims, created_by)
    select u.id, ${tenantId}, ${workspaceId}, lower(u.email), u.name, u.claims, ${scope.actor.subject}
    from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as u (id text, email text, name text, claims json)
    on conflict (id) do nothing`
  const ids = textArray(users.map(({ id }) => id))
  const own = sql`select id from users where workspace_id = ${workspaceId} and id = any(${ids}::text[])`
  const twice = conflictIf({ users_email: 'Two users have the same address.' })
  const [, kept = []] = await scope.batch(insert(users), own).catch(twice)
  const keptIds = new Set(kept.map(({ id }) => id))
  const mapped = users.filter(({ id }) => !keptIds.has(id)).map((user) => ({ ...user, id: idOf(user.id) }))
  const disabled = users.filter((user) => user.disabled).flatMap(({ id }) => [id, idOf(id)])
  await scope
    .batch(
      insert(mapped),
      sql`update users set disabled_at = coalesce(disabled_at, now())
        where workspace_id = ${workspaceId} and id = any(${textArray(disabled)}::text[])`,
    )
    .catch(twice)
}

/**
 * The ids that users of an archive have here.
 * @returns by the ids that the archive names; one that is no user stays as it is
 */
export async function findRestoredUsers(
  scope: AdminScope,
  { workspaceId }: WorkspaceRef,
  named: readonly string[],
  idOf: (id: string) => string,
): Promise<ReadonlyMap<string, string>> {
  const isUser = (id: string) => /^usr_[0-9a-hjkmnp-tv-z]{26}$/.test(id)
  const candidates = new Map(named.filter(isUser).map((id) => [id, idOf(id)] as const))
  if (candidates.size === 0) return new Map()
  const all = textArray([...candidates].flat())
  const rows = await scope.rows<{ id: string }>(
    sql`select id from users where workspace_id = ${workspaceId} and id = any(${all}::text[])`,
  )
  const found = new Set(rows.map(({ id }) => id))
  const isMapped = ([id, other]: readonly [string, string]) => !found.has(id) && found.has(other)
  return new Map([...candidates].filter(isMapped))
}
