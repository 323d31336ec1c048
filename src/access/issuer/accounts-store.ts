/** Accounts in the database: sign-in, invitations, and password hashing with scrypt. */

import { hash, randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { LIMITS } from '../../core/limits.ts'
import type { Role } from '../../core/policy.ts'
import type { TenantId, WorkspaceId, WorkspaceRef } from '../../core/tenant.ts'
import { KeyedSemaphore } from '../../infra/keyed-semaphore.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { SystemScope } from '../../infra/postgres/system-scope.ts'

/** An account that may sign in: accepted, not disabled, all that it belongs to active. */
export interface Account {
  readonly id: string
  /** null: an operator. */
  readonly tenantId: TenantId | null
  readonly workspaceId: WorkspaceId | null
  readonly role: Role
  readonly email: string
  /** Grows when she is disabled, or has another password. */
  readonly generation: number
}

/** An account whose invitation was taken up. */
export interface AcceptedAccount extends Omit<Account, 'email' | 'generation'> {
  /** It had a password before. */
  readonly hadPassword: boolean
}

/** What a client is bound to, or a person belongs to; null is wider than any. */
export interface TenantBounds {
  readonly tenantId: string | null
  readonly workspaceId: string | null
}

/** Whether somebody of `holder` is inside `bounds`. */
export function isWithin(holder: TenantBounds, bounds: TenantBounds): boolean {
  const tenant = bounds.tenantId === null || bounds.tenantId === holder.tenantId
  return tenant && (bounds.workspaceId === null || bounds.workspaceId === holder.workspaceId)
}

/** Whether a person has anything to do with a workspace: it, or its whole tenant, is hers. Operators see no data. */
export function belongsTo({ tenantId, workspaceId }: Account, ref: WorkspaceRef): boolean {
  return tenantId === ref.tenantId && (workspaceId === null || workspaceId === ref.workspaceId)
}

const SELECT_ACTIVE = sql`
  select a.id, a.tenant_id as "tenantId", a.workspace_id as "workspaceId", a.role, a.email, a.password,
    a.generation
  from accounts a left join tenants t on t.id = a.tenant_id left join workspaces w on w.id = a.workspace_id
  where a.accepted and a.disabled_at is null and (a.tenant_id is null or t.state = 'active')
    and (a.workspace_id is null or w.state = 'active')`

type AccountRow = Account & { readonly password: string }

export class AccountsStore {
  readonly #system: SystemScope
  readonly #forget: (account: string) => void

  /** @param forget is told the id of an account whose password was set */
  constructor(database: Database, forget: (account: string) => void = () => {}) {
    this.#system = new SystemScope('issuer', database)
    this.#forget = forget
  }

  find(id: string): Promise<Account | undefined> {
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
   * @returns the person if the password is right; `accountId` also if it is wrong
   * @throws Problem `overloaded`
   */
  async verifyCredentials(
    tenantId: string | null | undefined,
    email: string,
    password: string,
  ): Promise<{ readonly person?: Account | undefined; readonly accountId?: string }> {
    const found = await this.#one(
      sql`coalesce(a.tenant_id, '') = ${tenantId === undefined ? '-' : (tenantId ?? '')}
        and a.email = ${email.toLowerCase()}`,
    )
    const right = await verifyPassword(password, found?.password)
    if (found === undefined) return {}
    if (!right) return { accountId: found.id }
    await this.#system.rows(sql`update accounts set last_login_at = now() where id = ${found.id}`)
    return { person: withoutPassword(found), accountId: found.id }
  }

  /** The address that an invitation is for, while it lasts. */
  async invited(token: string): Promise<string | undefined> {
    const row = await this.#system.row<{ email: string }>(
      sql`select email from accounts where ${invitedBy(token)}`,
    )
    return row?.email
  }

  /** Sets the password, once. @returns undefined if the invitation has ended. @throws Problem `overloaded` */
  async accept(token: string, password: string): Promise<AcceptedAccount | undefined> {
    if ((await this.invited(token)) === undefined) return undefined
    const kept = await hashPassword(password)
    return this.#setPassword(kept, invitedBy(token))
  }

  /**
   * Sets another password for a person who has shown the present one; her sessions end.
   * @returns undefined if the account has changed since
   * @throws Problem `overloaded`
   */
  async change({ id, generation }: Account, password: string): Promise<AcceptedAccount | undefined> {
    const kept = await hashPassword(password)
    return this.#setPassword(kept, sql`id = ${id} and generation = ${generation} and accepted`)
  }

  async #setPassword(kept: string, which: Sql): Promise<AcceptedAccount | undefined> {
    const account = await this.#system.row<AcceptedAccount>(sql`
      update accounts a set password = ${kept}, invitation = null, invited_until = null, updated_at = now()
      from (select id, accepted_at from accounts where ${which} for update) as before
      where a.id = before.id
      returning a.id, a.tenant_id as "tenantId", a.workspace_id as "workspaceId", a.role,
        before.accepted_at is not null as again`)
    if (account !== undefined) this.#forget(account.id)
    return account
  }

  #one(condition: Sql): Promise<AccountRow | undefined> {
    return this.#system.row<AccountRow>(sql`${SELECT_ACTIVE} and ${condition}`)
  }
}

const invitedBy = (token: string) =>
  sql`invitation = ${hash('sha256', token, 'buffer')} and invited_until > now() and disabled_at is null`

/** What a person's tokens say of when they were given. */
export const generationId = (generation: number): string => `g${generation}`

function withoutPassword(found: AccountRow | undefined): Account | undefined {
  if (found === undefined) return undefined
  const { password: _kept, ...person } = found
  return person
}

/** OWASP Password Storage Cheat Sheet, scrypt: N = 2^15, r = 8, p = 3. */
const COST = { log2N: 15, r: 8, p: 3 }
const SALT_BYTES = 16
const HASH_BYTES = 32
/** Twice what the parameters need (128·N·r bytes). */
const MEMORY_BYTES_MAX = 67_108_864

const derive = promisify<string, Buffer, number, object, Buffer>(scrypt)
const places = new KeyedSemaphore(LIMITS.passwordsAtOnce, LIMITS.passwordWaitMs)

/** A hash with its parameters: `scrypt$15$8$3$<salt>$<hash>`. @throws Problem `overloaded` */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES)
  const { log2N, r, p } = COST
  const made = await deriveHash(password, salt, COST)
  return ['scrypt', log2N, r, p, salt.toString('base64url'), made.toString('base64url')].join('$')
}

/** Whether a password may be set: whoever sends another one has guessed wrong, whose ever it was. */
export function hasValidLength({ length }: string): boolean {
  return length >= LIMITS.passwordCharsMin && length <= LIMITS.passwordCharsMax
}

/**
 * Whether it is the password. Without a hash the same work is done for nothing, so that nobody learns from the clock
 * who has an account.
 * @throws Problem `overloaded`
 */
export async function verifyPassword(password: string, kept: string | undefined): Promise<boolean> {
  if (!hasValidLength(password)) return false
  const [, log2N, r, p, salt = '', made = ''] = (kept ?? DUMMY_HASH).split('$')
  const cost = { log2N: Number(log2N), r: Number(r), p: Number(p) }
  const given = await deriveHash(password, Buffer.from(salt, 'base64url'), cost)
  return timingSafeEqual(given, Buffer.from(made, 'base64url')) && kept !== undefined
}

const DUMMY_HASH = `scrypt$${COST.log2N}$${COST.r}$${COST.p}$${'A'.repeat(22)}$${'A'.repeat(43)}`

async function deriveHash(password: string, salt: Buffer, { log2N, r, p }: typeof COST): Promise<Buffer> {
  const giveBack = await places.acquire('', 'Too many people sign in at the moment.')
  try {
    // The same letters may come as different code points from different keyboards.
    const text = password.normalize('NFKC')
    return await derive(text, salt, HASH_BYTES, { N: 2 ** log2N, r, p, maxmem: MEMORY_BYTES_MAX })
  } finally {
    giveBack()
  }
}
