/** Links in mails to users: created for one purpose, used once, within a limited time, in one workspace. */

import { hash, randomBytes } from 'node:crypto'
import { randomIds, typeId } from '../../../core/ids.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { violated } from '../../../infra/postgres/errors.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { SystemScope } from '../../../infra/postgres/system-scope.ts'
import { ISSUER_LIMITS } from '../limits.ts'
import type { Identity } from './identity-providers.ts'
import { USER_COLUMNS, type UserAccount } from './users-store.ts'

type Purpose = 'sign_up' | 'invitation' | 'reset' | 'email' | 'identity'

/** A valid link. */
export interface UserLink extends WorkspaceRef {
  readonly purpose: Purpose
  /** The recipient. */
  readonly email: string
  /** Of the person at a sign-up, or of the provider of an identity. */
  readonly name: string
  /** The origin of the application that the person came from; empty if there is none. */
  readonly returnTo: string
  /** Of the password that was chosen at the sign-up, or that the user has. */
  readonly passwordHash: string | null
}

/** A sign-up whose address is not verified yet. */
interface SignUp {
  readonly email: string
  readonly name: string
  readonly passwordHash: string
  readonly returnTo: string
}

const TOKEN_BYTES = 32

/** A secret that opens a link, and the digest that the database has. */
export function newLinkToken(): { readonly token: string; readonly digest: Buffer } {
  const token = randomBytes(TOKEN_BYTES).toString('base64url')
  return { token, digest: digestOf(token) }
}

const digestOf = (token: string) => hash('sha256', token, 'buffer')

const secondsFrom = (purpose: keyof typeof ISSUER_LIMITS.users.linkSeconds) =>
  sql`now() + make_interval(secs => ${ISSUER_LIMITS.users.linkSeconds[purpose]}::integer)`

/** Deletes a few expired links with each new one. */
const FORGET_EXPIRED = sql`
  delete from user_links where digest = any(array(
    select digest from user_links where expires_at <= now() order by expires_at limit 20 for update skip locked))`

export class UserLinks {
  readonly #system: SystemScope
  readonly #forget: (user: string) => void

  /** @param forget removes a user from this node's cache after the user's sessions have ended */
  constructor(database: Database, forget: (user: string) => void) {
    this.#system = new SystemScope('issuer', database)
    this.#forget = forget
  }

  /**
   * Stores a sign-up, which becomes a user when its link is used. Several for one address may be pending, each with its own
   * password; the first one that is verified wins.
   * @returns `isKnown`: the address has a user; the link then leads nowhere. The work is the same.
   */
  async signUp(
    { tenantId, workspaceId }: WorkspaceRef,
    { email, name, passwordHash, returnTo }: SignUp,
  ): Promise<{ readonly token: string; readonly isKnown: boolean }> {
    const { token, digest } = newLinkToken()
    const insert = sql`
      insert into user_links (digest, tenant_id, workspace_id, purpose, email, name, password, return_to, expires_at)
      values (${digest}, ${tenantId}, ${workspaceId}, 'sign_up', ${email}, ${name}, ${passwordHash}, ${returnTo},
        ${secondsFrom('sign_up')})`
    const known = sql`select from users where tenant_id = ${tenantId} and workspace_id = ${workspaceId}
      and email = ${email} and email_verified_at is not null`
    const [, , users = []] = await this.#system.batch(FORGET_EXPIRED, insert, known)
    return { token, isKnown: users.length > 0 }
  }

  /**
   * A link to set another password.
   * @returns `userId` undefined if no active user has the address; both cases do the same work
   */
  async reset(
    { tenantId, workspaceId }: WorkspaceRef,
    email: string,
    returnTo: string,
  ): Promise<{ readonly token: string; readonly userId: string | undefined }> {
    const { token, digest } = newLinkToken()
    const insert = sql`
      insert into user_links (digest, tenant_id, workspace_id, purpose, user_id, email, return_to, expires_at)
      values (${digest}, ${tenantId}, ${workspaceId}, 'reset',
        (select id from users where tenant_id = ${tenantId} and workspace_id = ${workspaceId} and email = ${email}
          and disabled_at is null),
        ${email}, ${returnTo}, ${secondsFrom('reset')})
      returning user_id as "userId"`
    const [, [row] = []] = await this.#system.batch(FORGET_EXPIRED, insert)
    return { token, userId: (row as { userId: string | null } | undefined)?.userId ?? undefined }
  }

  /** A link that gives the user another address. @returns `isTaken`: another user of the workspace has it */
  async changeEmail(
    { id, tenantId, workspaceId }: UserAccount,
    email: string,
  ): Promise<{ readonly token: string; readonly isTaken: boolean }> {
    const { token, digest } = newLinkToken()
    const insert = sql`
      insert into user_links (digest, tenant_id, workspace_id, purpose, user_id, email, expires_at)
      select ${digest}, tenant_id, workspace_id, 'email', id, ${email}, ${secondsFrom('email')} from users where id = ${id}`
    const sameAddress = sql`select from users where tenant_id = ${tenantId} and workspace_id = ${workspaceId} and email = ${email}`
    const [, , users = []] = await this.#system.batch(FORGET_EXPIRED, insert, sameAddress)
    return { token, isTaken: users.length > 0 }
  }

  /** A link that connects an identity to the user. @param provider its name */
  async identity(
    { id, email }: UserAccount,
    { issuer, subject }: Pick<Identity, 'issuer' | 'subject'>,
    provider: string,
  ): Promise<string> {
    const { token, digest } = newLinkToken()
    const insert = sql`
      insert into user_links (digest, tenant_id, workspace_id, purpose, user_id, email, name, issuer, subject, expires_at)
      select ${digest}, tenant_id, workspace_id, 'identity', id, ${email}, ${provider}, ${issuer}, ${subject},
        ${secondsFrom('identity')} from users where id = ${id}`
    await this.#system.batch(FORGET_EXPIRED, insert)
    return token
  }

  /** The link of a token; undefined if it is none, was used, has expired, or its user or workspace is not active. */
  read(token: string): Promise<UserLink | undefined> {
    return this.#system.row<UserLink>(sql`
      select l.purpose, l.tenant_id as "tenantId", l.workspace_id as "workspaceId", l.email, l.name, l.return_to as "returnTo",
        coalesce(l.password, u.password) as "passwordHash"
      from user_links l join tenants t on t.id = l.tenant_id join workspaces w on w.id = l.workspace_id
        left join users u on u.id = l.user_id
      where l.digest = ${digestOf(token)} and l.expires_at > now() and t.state = 'active' and w.state = 'active'
        and (case when l.purpose = 'sign_up' then true else u.id is not null and u.disabled_at is null end)`)
  }

  /** Creates the user of a sign-up, or accepts the invitation of the same address. @returns undefined if it is too late */
  acceptSignUp(token: string): Promise<UserAccount | undefined> {
    const id = typeId('usr', randomIds.uuid())
    return this.#use(sql`
      with link as (${usedLink(token, 'sign_up')})
      insert into users as u (id, tenant_id, workspace_id, email, email_verified_at, name, password, created_by)
      select ${id}, tenant_id, workspace_id, email, now(), name, password, 'sign-up' from link
      on conflict (tenant_id, workspace_id, email) do update
        set email_verified_at = now(), password = excluded.password, updated_at = now(),
          name = case u.name when '' then excluded.name else u.name end
        where u.email_verified_at is null and u.disabled_at is null
      returning ${USER_COLUMNS}`)
  }

  /** Sets a password by an invitation that was not accepted yet, or by a reset, which is only mailed. @returns undefined if it is too late */
  setPassword(token: string, purpose: 'invitation' | 'reset', passwordHash: string) {
    const first = purpose === 'reset' ? sql`true` : sql`u.email_verified_at is null`
    return this.#use(sql`
      with link as (${usedLink(token, purpose)})
      update users u set password = ${passwordHash}, email_verified_at = coalesce(u.email_verified_at, now()),
        linked_by = link.shown_to, updated_at = now()
      from link where u.id = link.user_id and u.disabled_at is null and ${first} returning ${USER_COLUMNS}`)
  }

  /** Gives the user the address that the link was sent to. @returns undefined if it is too late, or another user has it now */
  confirmEmail(token: string): Promise<UserAccount | undefined> {
    return this.#use(sql`
      with link as (${usedLink(token, 'email')})
      update users u set email = link.email, email_verified_at = now(), updated_at = now()
      from link where u.id = link.user_id and u.disabled_at is null returning ${USER_COLUMNS}`).catch(
      (error: unknown) => {
        if (violated(error) === 'users_email') return undefined
        throw error
      },
    )
  }

  /** Connects the identity of a link to its user. @returns undefined if it is too late, or the identity is known by now */
  connectIdentity(token: string): Promise<UserAccount | undefined> {
    return this.#use(sql`
      with link as (${usedLink(token, 'identity')}), stored as (
        insert into user_identities (tenant_id, workspace_id, issuer, subject, user_id)
        select l.tenant_id, l.workspace_id, l.issuer, l.subject, u.id from link l
          join users u on u.id = l.user_id and u.email = l.email and u.disabled_at is null
        on conflict do nothing returning user_id)
      select ${USER_COLUMNS} from users u join stored on u.id = stored.user_id`)
  }

  async #use(statement: Sql): Promise<UserAccount | undefined> {
    const user = await this.#system.row<UserAccount>(statement)
    if (user !== undefined) this.#forget(user.id)
    return user
  }
}

/** Deletes a link, so that it is used once. */
const usedLink = (token: string, purpose: Purpose): Sql => sql`
  delete from user_links where digest = ${digestOf(token)} and purpose = ${purpose} and expires_at > now()
  returning tenant_id, workspace_id, user_id, email, name, password, issuer, subject, shown_to`
