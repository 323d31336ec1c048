/** Accounts in the database: sign-in, invitations and passwords. */

import { hash } from 'node:crypto'
import type { SubjectState } from '../../../access/authentication/subject-status.ts'
import type { Role } from '../../../core/policy.ts'
import type { TenantId, WorkspaceId, WorkspaceRef } from '../../../core/tenant.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { SystemScope } from '../../../infra/postgres/system-scope.ts'
import { hashPassword, verifyPassword } from './passwords.ts'

/** `user` is the role of end users of a workspace (users/users-store.ts). */
type SubjectRole = Role | 'user'

/** An account that may sign in: accepted, not disabled, in an active tenant and workspace. */
export interface Account {
  readonly id: string
  /** null: an operator. */
  readonly tenantId: TenantId | null
  readonly workspaceId: WorkspaceId | null
  readonly role: SubjectRole
  /** It sees payloads of executions and runs that others have started. Of an account only. */
  readonly seesPayloads?: boolean
  readonly email: string
  /** Increases when the account is disabled, signed out or gets another password. */
  readonly generation: number
}

/** An account whose password was set. */
export interface AcceptedAccount extends Omit<Account, 'email' | 'generation'> {
  readonly hadPassword: boolean
}

/** The tenant and workspace of an account or client; null means any. */
export interface TenantBounds {
  readonly tenantId: string | null
  readonly workspaceId: string | null
}

/** True if `inner` is inside `bounds`. */
export function isWithin(inner: TenantBounds, bounds: TenantBounds): boolean {
  const tenant = bounds.tenantId === null || bounds.tenantId === inner.tenantId
  return tenant && (bounds.workspaceId === null || bounds.workspaceId === inner.workspaceId)
}

/** True if the account belongs to the workspace, or to its whole tenant. Operators see no data. */
export function belongsTo({ tenantId, workspaceId }: Account, ref: WorkspaceRef): boolean {
  return tenantId === ref.tenantId && (workspaceId === null || workspaceId === ref.workspaceId)
}

const SELECT_ACTIVE = sql`
  select a.id, a.tenant_id as "tenantId", a.workspace_id as "workspaceId", a.role, a.email, a.password,
    a.sees_payloads as "seesPayloads", a.generation
  from accounts a left join tenants t on t.id = a.tenant_id left join workspaces w on w.id = a.workspace_id
  where a.accepted and a.disabled_at is null and (a.tenant_id is null or t.state = 'active')
    and (a.workspace_id is null or w.state = 'active')`

const REQUIRES_FACTOR = (tenantId: Sql) => sql`exists (select from sign_in_policies p
  where p.tenant_id is not distinct from ${tenantId} and p.require_mfa)`

type AccountRow = Account & { readonly password: string }

export class AccountsStore {
  readonly #system: SystemScope
  readonly #forget: (account: string) => void

  /** @param forget drops cached state of an account whose password was set */
  constructor(database: Database, forget: (account: string) => void = () => {}) {
    this.#system = new SystemScope('issuer', database)
    this.#forget = forget
  }

  find(id: string): Promise<Account | undefined> {
    return this.#one(sql`a.id = ${id}`).then(withoutPassword)
  }

  /** The state of an account that is neither disabled nor deleted; does not check its tenant. */
  findState(id: string): Promise<SubjectState | undefined> {
    return this.#system.row<SubjectState>(sql`
      select generation, exists (select from second_factors where subject_id = a.id)
          or exists (select from passkeys where account_id = a.id) as "hasSecondFactor",
        ${REQUIRES_FACTOR(sql`a.tenant_id`)} as "needsSecondFactor"
      from accounts a where id = ${id} and accepted and disabled_at is null`)
  }

  /** True if the accounts of a tenant need a second factor. @param tenantId null: of operators */
  async requiresSecondFactor(tenantId: string | null): Promise<boolean> {
    const row = await this.#system.row<{ required: boolean }>(
      sql`select ${REQUIRES_FACTOR(sql`${tenantId}::text`)} as required`,
    )
    return row?.required === true
  }

  /** The id of a tenant by its slug. */
  async findTenant(slug: string): Promise<string | undefined> {
    const row = await this.#system.row<{ id: string }>(sql`select id from tenants where slug = ${slug}`)
    return row?.id
  }

  /**
   * The account with this address and password; takes the same time if there is none.
   * @param tenantId null: among operators; undefined: in a tenant that does not exist
   * @returns the account if the password is right; `accountId` also if it is wrong
   * @throws Problem `rate_limited`
   */
  async verifyCredentials(
    tenantId: string | null | undefined,
    email: string,
    password: string,
    network: string,
  ): Promise<{ readonly account?: Account | undefined; readonly accountId?: string }> {
    const found = await this.#one(
      sql`coalesce(a.tenant_id, '') = ${tenantId === undefined ? '-' : (tenantId ?? '')}
        and a.email = ${email.toLowerCase()}`,
    )
    const right = await verifyPassword(password, found?.password, { network, realm: tenantId ?? '' })
    if (found === undefined) return {}
    if (!right) return { accountId: found.id }
    return { account: withoutPassword(found), accountId: found.id }
  }

  async recordSignIn({ id }: Pick<Account, 'id'>): Promise<void> {
    await this.#system.rows(sql`update accounts set last_login_at = now() where id = ${id}`)
  }

  /** The e-mail address of a valid invitation. */
  async invited(token: string): Promise<string | undefined> {
    const row = await this.#system.row<{ email: string }>(
      sql`select email from accounts where ${invitedBy(token)}`,
    )
    return row?.email
  }

  /** Accepts an invitation. @returns undefined if it is not valid any more. @throws Problem `rate_limited`, `state_conflict` */
  async accept(token: string, password: string, network: string): Promise<AcceptedAccount | undefined> {
    const invited = await this.#system.row<{ id: string; realm: string }>(
      sql`select id, coalesce(tenant_id, '') as realm from accounts where ${invitedBy(token)}`,
    )
    if (invited === undefined) return undefined
    const { id, realm } = invited
    const passwordHash = await hashPassword(password, { network, realm, link: id })
    return this.#setPassword(passwordHash, invitedBy(token))
  }

  /**
   * Sets another password for an account whose present one was verified; its sessions end.
   * @returns undefined if the account has changed since
   * @throws Problem `rate_limited`
   */
  async change(
    { id, generation, tenantId }: Account,
    password: string,
    network: string,
  ): Promise<AcceptedAccount | undefined> {
    const passwordHash = await hashPassword(password, { network, realm: tenantId ?? '' })
    return this.#setPassword(passwordHash, sql`id = ${id} and generation = ${generation} and accepted`)
  }

  /** Ends all sessions and tokens of an account. @returns false if it has changed since */
  async signOut({ id, generation }: Account): Promise<boolean> {
    const changed = await this.#system.row(sql`
      update accounts set signed_out_at = clock_timestamp() where id = ${id} and generation = ${generation} returning id`)
    this.#forget(id)
    return changed !== undefined
  }

  async #setPassword(passwordHash: string, which: Sql): Promise<AcceptedAccount | undefined> {
    const account = await this.#system.row<AcceptedAccount>(sql`
      update accounts a set password = ${passwordHash}, invitation = null, invited_until = null, updated_at = now()
      from (select id, accepted_at from accounts where ${which} for update) as before
      where a.id = before.id
      returning a.id, a.tenant_id as "tenantId", a.workspace_id as "workspaceId", a.role,
        before.accepted_at is not null as "hadPassword"`)
    if (account !== undefined) this.#forget(account.id)
    return account
  }

  #one(condition: Sql): Promise<AccountRow | undefined> {
    return this.#system.row<AccountRow>(sql`${SELECT_ACTIVE} and ${condition}`)
  }
}

const invitedBy = (token: string) =>
  sql`invitation = ${hash('sha256', token, 'buffer')} and invited_until > now() and disabled_at is null`

function withoutPassword(found: AccountRow | undefined): Account | undefined {
  if (found === undefined) return undefined
  const { password: _passwordHash, ...account } = found
  return account
}
