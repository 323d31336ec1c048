/** End users of workspaces in the database, and the settings that pages for them need. */

import type { SubjectState } from '../../../access/authentication/subject-status.ts'
import type { TenantId, WorkspaceId, WorkspaceRef } from '../../../core/tenant.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { SystemScope } from '../../../infra/postgres/system-scope.ts'
import type { Account } from '../accounts/accounts-store.ts'
import { hashPassword, verifyPassword } from '../accounts/passwords.ts'
import { AUTH_DEFAULTS, type StoredAuth } from './auth-settings.ts'
import type { StoredProvider } from './identity-provider-settings.ts'

/** A user who may sign in: verified, not disabled, in an active workspace. */
export interface UserAccount extends Account {
  readonly tenantId: TenantId
  readonly workspaceId: WorkspaceId
  readonly role: 'user'
  readonly emailVerified: boolean
  readonly name: string
  readonly claims: Readonly<Record<string, unknown>>
}

/** True for a user of a workspace, false for an account. */
export const isUser = (subject: Account): subject is UserAccount => subject.role === 'user'

/** An active workspace, as pages for its users show it. */
export interface UserWorkspace extends WorkspaceRef {
  readonly signUp: StoredAuth['sign_up']
  readonly brand: Brand
  readonly providers: readonly StoredProvider[]
  /** `host:port` texts of providers that may be reached at any address; set by operators. */
  readonly egressAllowed: readonly string[]
}

/** The look of a page. */
export interface Brand {
  readonly name: string
  readonly logoUrl?: string | undefined
  readonly color?: string | undefined
}

/** Columns of a {@link UserAccount}, of the table `users` as `u`. */
export const USER_COLUMNS = sql`u.id, u.tenant_id as "tenantId", u.workspace_id as "workspaceId", 'user' as role, u.email,
  u.email_verified_at is not null as "emailVerified", u.name, u.claims, u.generation`

const SELECT_ACTIVE = sql`
  select ${USER_COLUMNS}, u.password
  from users u join tenants t on t.id = u.tenant_id join workspaces w on w.id = u.workspace_id
  where u.email_verified_at is not null and u.disabled_at is null and t.state = 'active' and w.state = 'active'`

interface WorkspaceRow extends WorkspaceRef {
  readonly name: string
  readonly auth: Partial<StoredAuth>
  readonly egressAllowed: readonly string[]
}

type UserRow = UserAccount & { readonly password: string | null }

export class UsersStore {
  readonly #system: SystemScope
  readonly #forget: (user: string) => void

  /** @param forget removes a user from this node's cache after the user's sessions have ended */
  constructor(database: Database, forget: (user: string) => void = () => {}) {
    this.#system = new SystemScope('issuer', database)
    this.#forget = forget
  }

  async find(id: string): Promise<UserAccount | undefined> {
    return withoutPassword(await this.#one(sql`u.id = ${id}`))
  }

  /** The state of an active user; undefined if the user is disabled or deleted. Does not check the tenant. */
  findState(id: string): Promise<SubjectState | undefined> {
    return this.#system.row<SubjectState>(sql`
      select generation, exists (select from second_factors where subject_id = u.id) as "hasSecondFactor",
        false as "needsSecondFactor"
      from users u where id = ${id} and email_verified_at is not null and disabled_at is null`)
  }

  /** The workspace and its settings; undefined unless it is active. */
  async workspace(id: string | null): Promise<UserWorkspace | undefined> {
    const row = await this.#system.row<WorkspaceRow>(sql`
      select w.tenant_id as "tenantId", w.id as "workspaceId", w.name, coalesce(s.auth, '{}') as auth,
        coalesce(s.egress_allow, '[]') as "egressAllowed"
      from workspaces w join tenants t on t.id = w.tenant_id
        left join services s on s.tenant_id = w.tenant_id and s.workspace_id = w.id
      where w.id = ${id} and t.state = 'active' and w.state = 'active'`)
    if (row === undefined) return undefined
    const { tenantId, workspaceId, name, egressAllowed } = row
    const { sign_up: signUp, branding, providers } = { ...AUTH_DEFAULTS, ...row.auth }
    const brand = { name: branding.name ?? name, logoUrl: branding.logo_url, color: branding.color }
    return { tenantId, workspaceId, signUp, brand, providers, egressAllowed }
  }

  /** True if the quota `users` allows no further one. */
  async isFull({ tenantId, workspaceId }: WorkspaceRef): Promise<boolean> {
    const row = await this.#system.row<{ full: boolean }>(sql`
      select used >= max as full from quotas
      where tenant_id = ${tenantId} and workspace_id = ${workspaceId} and name = 'users'`)
    return row?.full === true
  }

  /**
   * The user of the workspace with this address and password; takes the same time if there is none.
   * @returns the user if the password is right; `accountId` also if it is wrong
   * @throws Problem `overloaded`
   */
  async verifyCredentials(
    { tenantId, workspaceId }: WorkspaceRef,
    email: string,
    password: string,
    network: string,
  ): Promise<{ readonly account?: UserAccount | undefined; readonly accountId?: string }> {
    const found = await this.#one(sql`u.tenant_id = ${tenantId} and u.workspace_id = ${workspaceId}
      and u.email = ${email.toLowerCase()}`)
    const right = await verifyPassword(password, found?.password ?? undefined, {
      network,
      realm: workspaceId,
    })
    if (found === undefined) return {}
    if (!right) return { accountId: found.id }
    return { account: withoutPassword(found), accountId: found.id }
  }

  async recordSignIn({ id }: Pick<UserAccount, 'id'>): Promise<void> {
    await this.#system.rows(sql`update users set last_login_at = now() where id = ${id}`)
  }

  /**
   * Sets another password for a user whose present one was verified; signs the user out everywhere.
   * @returns false if the user has changed since
   * @throws Problem `overloaded`
   */
  async changePassword(user: UserAccount, password: string, network: string): Promise<boolean> {
    const passwordHash = await hashPassword(password, { network, realm: user.workspaceId })
    return this.#change(
      user,
      sql`update users u set password = ${passwordHash}, updated_at = now() where ${isSame(user)} returning u.id`,
    )
  }

  /** Ends all sessions and tokens of a user. @returns false if the user has changed since */
  signOut(user: UserAccount): Promise<boolean> {
    return this.#change(
      user,
      sql`update users u set signed_out_at = clock_timestamp() where ${isSame(user)} returning u.id`,
    )
  }

  /** Deletes a user with sessions and tokens. @returns false if the user has changed since */
  delete(user: UserAccount): Promise<boolean> {
    return this.#change(user, sql`delete from users u where ${isSame(user)} returning u.id`)
  }

  async #change({ id }: UserAccount, statement: Sql): Promise<boolean> {
    const changed = await this.#system.row(statement)
    this.#forget(id)
    return changed !== undefined
  }

  #one(condition: Sql): Promise<UserRow | undefined> {
    return this.#system.row<UserRow>(sql`${SELECT_ACTIVE} and ${condition}`)
  }
}

/** The user in the state that was read: neither disabled nor with another password since. */
const isSame = ({ id, generation }: UserAccount) =>
  sql`u.id = ${id} and u.generation = ${generation} and u.disabled_at is null`

function withoutPassword(found: UserRow | undefined): UserAccount | undefined {
  if (found === undefined) return undefined
  const { password: _passwordHash, ...user } = found
  return user
}
