/** Identities of users at identity providers, in the database. */

import { randomIds, typeId } from '../../../core/ids.ts'
import { Problem } from '../../../core/problem.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { violated } from '../../../infra/postgres/errors.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { SystemScope } from '../../../infra/postgres/system-scope.ts'
import type { Identity } from './identity-providers.ts'

/** How an identity became one of a user: a new one, an invited one, or one with the same verified address. */
type Connection = 'created' | 'accepted' | 'connected'

export class IdentitiesStore {
  readonly #system: SystemScope

  constructor(database: Database) {
    this.#system = new SystemScope('issuer', database)
  }

  /** The id of the user with this identity, who may be disabled. */
  async find(
    { tenantId, workspaceId }: WorkspaceRef,
    { issuer, subject }: Identity,
  ): Promise<string | undefined> {
    const row = await this.#system.row<{ id: string }>(sql`
      select user_id as id from user_identities where tenant_id = ${tenantId} and workspace_id = ${workspaceId}
        and issuer = ${issuer} and subject = ${subject}`)
    return row?.id
  }

  /**
   * Gives a user the identity: the one with its verified address, who thereby accepts an invitation, or a new one.
   * @param mayCreate whether a person without an invitation gets an account
   * @returns undefined if there is no such user, or a disabled one; `full` if the quota allows no further user
   */
  async connect(
    ref: WorkspaceRef,
    identity: Identity,
    mayCreate: boolean,
  ): Promise<{ readonly id: string; readonly how: Connection } | 'full' | undefined> {
    const attempt = () => this.#connect(ref, identity, mayCreate)
    return attempt()
      .catch((error: unknown) => {
        // Another request has just created the user, or connected the identity.
        if (violated(error) === undefined) throw error
        return attempt()
      })
      .catch((error: unknown) => {
        if (error instanceof Problem && error.code === 'quota_exceeded') return 'full' as const
        throw error
      })
  }

  #connect({ tenantId, workspaceId }: WorkspaceRef, identity: Identity, mayCreate: boolean) {
    const { issuer, subject, verifiedEmail, name } = identity
    const id = typeId('usr', randomIds.uuid())
    return this.#system.row<{ id: string; how: Connection }>(sql`
      with known as (
        select id, email_verified_at, disabled_at from users
        where tenant_id = ${tenantId} and workspace_id = ${workspaceId} and email = ${verifiedEmail} for update
      ), created as (
        insert into users (id, tenant_id, workspace_id, email, email_verified_at, name, created_by)
        select ${id}, ${tenantId}, ${workspaceId}, ${verifiedEmail}, now(), ${name}, 'identity-provider'
        where ${mayCreate} and not exists (select from known) returning id
      ), accepted as (
        update users u set email_verified_at = now(), updated_at = now(), name = case u.name when '' then ${name} else u.name end
        from known k where u.id = k.id and k.email_verified_at is null and k.disabled_at is null returning u.id
      ), chosen as (
        select id, 'created' as how from created union all select id, 'accepted' from accepted
        union all select id, 'connected' from known where email_verified_at is not null and disabled_at is null
      ), stored as (
        insert into user_identities (tenant_id, workspace_id, issuer, subject, user_id)
        select ${tenantId}, ${workspaceId}, ${issuer}, ${subject}, id from chosen returning user_id
      )
      select user_id as id, (select how from chosen) as how from stored`)
  }
}
