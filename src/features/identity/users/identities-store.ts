/** Identities of users at identity providers, in the database. */

import { hash } from 'node:crypto'
import { randomIds, typeId } from '../../../core/ids.ts'
import { Problem } from '../../../core/problem.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { violated } from '../../../infra/postgres/errors.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { SystemScope } from '../../../infra/postgres/system-scope.ts'
import type { Identity } from './identity-providers.ts'
import type { UserAccount } from './users-store.ts'

/**
 * How an identity became one of a user: a new one, or an invited one. Not at all: `disconnected`, since the user with its verified
 * address has disconnected an identity of the issuer; else that user, who has a password or none, must confirm it first.
 */
type Connection = 'created' | 'accepted' | 'disconnected' | 'with_password' | 'without_password'

/** An identity as the page of the user's own account shows it. */
export interface KnownIdentity {
  /** SHA-256 of issuer and subject, hexadecimal. */
  readonly id: string
  readonly issuer: string
  readonly subject: string
  /** RFC 3339. */
  readonly createdAt: string
  readonly isConnected: boolean
}

/** An identity that its provider has confirmed in a sign-in which has not ended yet. */
export interface ProvenIdentity {
  readonly issuer: string
  readonly subject: string
  /** The name of the provider. */
  readonly provider: string
  /** True if the user has confirmed it in this sign-in, whose end connects it. */
  readonly isNew: boolean
}

export class IdentitiesStore {
  readonly #system: SystemScope

  constructor(database: Database) {
    this.#system = new SystemScope('issuer', database)
  }

  /** The user with this identity, who may be disabled, or have disconnected it. */
  find(
    { tenantId, workspaceId }: WorkspaceRef,
    { issuer, subject }: Identity,
  ): Promise<{ readonly userId: string; readonly isConnected: boolean } | undefined> {
    return this.#system.row(sql`
      select user_id as "userId", disconnected_at is null as "isConnected" from user_identities
      where tenant_id = ${tenantId} and workspace_id = ${workspaceId} and issuer = ${issuer} and subject = ${subject}`)
  }

  /** Those of a user, the oldest first. */
  async list({ tenantId, workspaceId, id }: UserAccount): Promise<KnownIdentity[]> {
    const rows = await this.#system.rows<Omit<KnownIdentity, 'id'>>(sql`
      select issuer, subject, created_at as "createdAt", disconnected_at is null as "isConnected" from user_identities
      where tenant_id = ${tenantId} and workspace_id = ${workspaceId} and user_id = ${id}
      order by created_at, issuer, subject`)
    return rows.map((row) => ({ ...row, id: hash('sha256', JSON.stringify([row.issuer, row.subject])) }))
  }

  /** @returns the identity; undefined if the user has none with this id in the other state */
  async setConnected(
    user: UserAccount,
    id: string,
    isConnected: boolean,
  ): Promise<KnownIdentity | undefined> {
    const known = (await this.list(user)).find((one) => one.id === id && one.isConnected !== isConnected)
    if (known === undefined) return undefined
    const { tenantId, workspaceId, id: userId } = user
    await this.#system.batch(
      sql`select from users where id = ${userId} for update`,
      sql`
      update user_identities set disconnected_at = case when not ${isConnected} then now() end
      where tenant_id = ${tenantId} and workspace_id = ${workspaceId} and user_id = ${userId}
        and issuer = ${known.issuer} and subject = ${known.subject}`,
    )
    return known
  }

  /**
   * Gives a user the identity: a new one, or one who was invited at its verified address and thereby accepts.
   * @param mayCreate whether a person without an invitation gets an account
   * @returns undefined if there is no such user, or a disabled one; `full` if the quota allows no further user
   */
  async connect(
    ref: WorkspaceRef,
    identity: Identity,
    mayCreate: boolean,
  ): Promise<{ readonly id: string; readonly how: Connection } | 'user_limit' | undefined> {
    const attempt = () => this.#connect(ref, identity, mayCreate)
    return attempt()
      .catch((error: unknown) => {
        // Another request has just created the user, or connected the identity.
        if (violated(error) === undefined) throw error
        return attempt()
      })
      .catch((error: unknown) => {
        if (error instanceof Problem && error.code === 'quota_exceeded') return 'user_limit' as const
        throw error
      })
  }

  /**
   * Ends a sign-in by an identity, in one transaction: the user is the one who began it, and the identity is connected to the user,
   * or is so from now on. The lock of the user's row orders it with a disconnection, which takes the same one.
   * @returns false if the user has changed since, or has disconnected an identity of the issuer
   */
  async complete(
    { tenantId, workspaceId, id, generation }: UserAccount,
    { issuer, subject, isNew }: ProvenIdentity,
  ): Promise<boolean> {
    const own = sql`tenant_id = ${tenantId} and workspace_id = ${workspaceId} and user_id = ${id} and issuer = ${issuer}`
    const lock = sql`select id from users where id = ${id} and generation = ${generation} and disabled_at is null for update`
    const connect = sql`
      insert into user_identities (tenant_id, workspace_id, issuer, subject, user_id)
      select ${tenantId}, ${workspaceId}, ${issuer}, ${subject}, id from users
        where id = ${id} and generation = ${generation} and disabled_at is null and ${isNew}::boolean
          and not exists (select from user_identities where ${own} and disconnected_at is not null)
      on conflict do nothing returning user_id`
    const known = sql`select from user_identities where ${own} and subject = ${subject} and disconnected_at is null`
    const [locked = [], made = [], connected = []] = await this.#system.batch(lock, connect, known)
    return locked.length > 0 && (isNew ? made : connected).length > 0
  }

  #connect({ tenantId, workspaceId }: WorkspaceRef, identity: Identity, mayCreate: boolean) {
    const { issuer, subject, verifiedEmail, name } = identity
    const id = typeId('usr', randomIds.uuid())
    return this.#system.row<{ id: string; how: Connection }>(sql`
      with known as (
        select id, email_verified_at, disabled_at, password is not null as has_password, exists (select from user_identities i
            where i.tenant_id = users.tenant_id and i.workspace_id = users.workspace_id and i.user_id = users.id
              and i.issuer = ${issuer} and i.disconnected_at is not null) as disconnected from users
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
      ), stored as (
        insert into user_identities (tenant_id, workspace_id, issuer, subject, user_id)
        select ${tenantId}, ${workspaceId}, ${issuer}, ${subject}, id from chosen returning user_id
      )
      select user_id as id, (select how from chosen) as how from stored
      union all select id, case when disconnected then 'disconnected' when has_password then 'with_password'
          else 'without_password' end
        from known where disconnected or email_verified_at is not null and disabled_at is null`)
  }
}
