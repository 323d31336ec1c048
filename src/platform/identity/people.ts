/** Accounts as the issuer sees them: who signs in, who still stands, and who takes up an invitation. */

import { hash } from 'node:crypto'
import type { Role } from '../../core/policy.ts'
import type { TenantId, WorkspaceId, WorkspaceRef } from '../../core/tenant.ts'
import type { Audit } from '../audit/audit.ts'
import type { Deed } from '../audit/entry.ts'
import type { Database } from '../pg/database.ts'
import { type Sql, sql } from '../pg/sql.ts'
import { SystemScope } from '../system.ts'
import { hashPassword, isPassword } from './passwords.ts'

/** An account that may sign in: accepted, not disabled, all that it belongs to active. */
export interface Person {
  readonly id: string
  /** null: an operator. */
  readonly tenantId: TenantId | null
  readonly workspaceId: WorkspaceId | null
  readonly role: Role
  readonly email: string
  /** Grows when she is disabled, or has another password. */
  readonly generation: number
}

/** What a client is bound to, or a person belongs to; null is wider than any. */
export interface Holding {
  readonly tenantId: string | null
  readonly workspaceId: string | null
}

/** Whether somebody of `holder` is inside `bounds`. */
export function isWithin(holder: Holding, bounds: Holding): boolean {
  const tenant = bounds.tenantId === null || bounds.tenantId === holder.tenantId
  return tenant && (bounds.workspaceId === null || bounds.workspaceId === holder.workspaceId)
}

/** Whether a person has anything to do with a workspace: it, or its whole tenant, is hers. Operators see no data. */
export function belongsTo({ tenantId, workspaceId }: Person, ref: WorkspaceRef): boolean {
  return tenantId === ref.tenantId && (workspaceId === null || workspaceId === ref.workspaceId)
}

const STANDING = sql`
  select a.id, a.tenant_id as "tenantId", a.workspace_id as "workspaceId", a.role, a.email, a.password,
    a.generation
  from accounts a left join tenants t on t.id = a.tenant_id left join workspaces w on w.id = a.workspace_id
  where a.accepted and a.disabled_at is null and (a.tenant_id is null or t.state = 'active')
    and (a.workspace_id is null or w.state = 'active')`

type Standing = Person & { readonly password: string }

/** What hears of a password that was set. */
interface Hearers {
  readonly audit: Audit
  readonly holders: { forget(account: string): void }
}

export class People {
  readonly #system: SystemScope
  readonly #hearers: Hearers | undefined

  /** @param hearers absent for those who only read */
  constructor(database: Database, hearers?: Hearers) {
    this.#system = new SystemScope('issuer', database)
    this.#hearers = hearers
  }

  find(id: string): Promise<Person | undefined> {
    return this.#one(sql`a.id = ${id}`).then(withoutPassword)
  }

  /** Of an account that is neither disabled nor deleted; whether its tenant is active is asked elsewhere. */
  async generationOf(id: string): Promise<number | undefined> {
    const row = await this.#system.row<{ generation: number }>(
      sql`select generation from accounts where id = ${id} and accepted and disabled_at is null`,
    )
    return row?.generation
  }

  /** The id of a tenant by the name that people know it by. */
  async tenantOf(slug: string): Promise<string | undefined> {
    const row = await this.#system.row<{ id: string }>(sql`select id from tenants where slug = ${slug}`)
    return row?.id
  }

  /**
   * The person with this address and password; the same work is done whether or not there is one.
   * @param tenantId null: among operators; undefined: in a tenant that there is not
   * @throws Problem `overloaded`
   */
  async recognise(
    tenantId: string | null | undefined,
    email: string,
    password: string,
  ): Promise<Person | undefined> {
    const found = await this.#one(
      sql`coalesce(a.tenant_id, '') = ${tenantId === undefined ? '-' : (tenantId ?? '')}
        and a.email = ${email.toLowerCase()}`,
    )
    if (!(await isPassword(password, found?.password)) || found === undefined) return undefined
    await this.#system.rows(sql`update accounts set last_login_at = now() where id = ${found.id}`)
    return withoutPassword(found)
  }

  /** The address that an invitation is for, while it lasts. */
  async invited(token: string): Promise<string | undefined> {
    const row = await this.#system.row<{ email: string }>(
      sql`select email from accounts where ${invitedBy(token)}`,
    )
    return row?.email
  }

  /** Sets the password, once. @returns whether the invitation still lasted. @throws Problem `overloaded` */
  async accept(token: string, password: string): Promise<boolean> {
    if ((await this.invited(token)) === undefined) return false
    const kept = await hashPassword(password)
    return this.#set(kept, invitedBy(token))
  }

  /** Sets another password for a person who has shown the present one; her sessions end. @throws Problem `overloaded` */
  async change({ id, generation }: Person, password: string): Promise<boolean> {
    return this.#set(
      await hashPassword(password),
      sql`id = ${id} and generation = ${generation} and accepted`,
    )
  }

  async #set(kept: string, which: Sql): Promise<boolean> {
    const row = await this.#system.row<Omit<Person, 'email' | 'generation'>>(sql`
      update accounts set password = ${kept}, invitation = null, invited_until = null, updated_at = now()
      where ${which} returning id, tenant_id as "tenantId", workspace_id as "workspaceId", role`)
    if (row === undefined) return false
    this.#hearers?.holders.forget(row.id)
    await this.#hearers?.audit.write(passwordSet(row))
    return true
  }

  #one(condition: Sql): Promise<Standing | undefined> {
    return this.#system.row<Standing>(sql`${STANDING} and ${condition}`)
  }
}

const invitedBy = (token: string) =>
  sql`invitation = ${hash('sha256', token, 'buffer')} and invited_until > now() and disabled_at is null`

/** The page has no principal: the link, or the password before, has shown whose account it is. */
function passwordSet({ id, role, tenantId, workspaceId }: Omit<Person, 'email' | 'generation'>): Deed {
  return {
    place: { tenantId: tenantId ?? undefined, workspaceId: workspaceId ?? undefined },
    requestId: null,
    actor: { subject: id, role, kind: 'person' },
    operation: 'account.password_set',
    target: `/v1/accounts/${id}`,
    outcome: 'done',
    ...{ status: 200, code: null, before: null, after: null },
  }
}

/** What a person's tokens say of when they were given. */
export const generationId = (generation: number): string => `g${generation}`

function withoutPassword(found: Standing | undefined): Person | undefined {
  if (found === undefined) return undefined
  const { password: _kept, ...person } = found
  return person
}
