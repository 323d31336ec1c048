/** Time-based codes as the second factor of users: switched on and off by the user, required after the password. */

import { randomBytes } from 'node:crypto'
import { AttemptThrottle } from '../../../access/authentication/attempt-throttle.ts'
import { ACCESS_LIMITS } from '../../../access/limits.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { purposeIn, type Secrets } from '../../../infra/crypto/secrets.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { sql, textArray } from '../../../infra/postgres/sql.ts'
import { SystemScope } from '../../../infra/postgres/system-scope.ts'
import { ISSUER_LIMITS } from '../limits.ts'
import type { ProvenIdentity } from './identities-store.ts'
import { Tickets } from './tickets.ts'
import {
  isTotpCode,
  newRecoveryCodes,
  newTotpSecret,
  normalizeCode,
  recoveryDigest,
  totpLink,
  totpStep,
} from './totp.ts'
import type { UserAccount } from './users-store.ts'

/** A secret that the user adds to an authenticator app. It counts once a code of it was entered. */
export interface TotpSetup {
  /** In base32. */
  readonly secret: string
  readonly link: string
  readonly ticket: string
}

/** The state between the two steps of a sign-in: the first proof was right, and the code is still to come. */
export interface PendingSignIn {
  readonly userId: string
  readonly generation: number
  /** Identifies the sign-in: the interaction, or the page. */
  readonly at: string
  /** The identity at a provider by which the user signs in; absent after a password. */
  readonly identity?: ProvenIdentity
}

type CodeResult = 'right' | 'wrong' | 'too_many'

export class SecondFactors {
  readonly #system: SystemScope
  readonly #secrets: Secrets
  readonly #tickets: Tickets
  readonly #throttle = new AttemptThrottle()

  constructor(database: Database, secrets: Secrets) {
    this.#system = new SystemScope('issuer', database)
    this.#secrets = secrets
    this.#tickets = new Tickets(secrets)
  }

  /** The number of recovery codes that are left; undefined if the user has no second factor. */
  async recoveryCodesLeft({ id }: UserAccount): Promise<number | undefined> {
    const row = await this.#system.row<{ left: number }>(
      sql`select cardinality(recovery) as left from user_totp where user_id = ${id}`,
    )
    return row?.left
  }

  /** A ticket for the page that asks for a code; undefined if the user needs none. @param at identifies the sign-in */
  async challenge(user: UserAccount, at: string, identity?: ProvenIdentity): Promise<string | undefined> {
    if ((await this.recoveryCodesLeft(user)) === undefined) return undefined
    const by = identity === undefined ? {} : { identity }
    const pending: PendingSignIn = { userId: user.id, generation: user.generation, at, ...by }
    return this.#tickets.issue('second-factor', pending, ISSUER_LIMITS.users.factorSeconds)
  }

  /** @returns undefined if the ticket is not valid, or belongs to another sign-in */
  pending(ticket: string, at: string): PendingSignIn | undefined {
    const pending = this.#tickets.read<PendingSignIn>('second-factor', ticket)
    return pending?.at === at ? pending : undefined
  }

  /** Checks a code of the authenticator app, or a recovery code. Each works once. */
  async verify(user: UserAccount, text: string): Promise<CodeResult> {
    // Of all addresses together: the password is known already.
    if (!this.#throttle.admit(user.id, ACCESS_LIMITS.attemptsMax.accountFromAddress)) return 'too_many'
    const code = normalizeCode(text)
    const isRight = await (isTotpCode(code) ? this.#useCode(user, code) : this.#useRecoveryCode(user, code))
    if (!isRight) return 'wrong'
    this.#throttle.reset(user.id)
    return 'right'
  }

  /** Begins to switch the second factor on, for a user whose password was verified. @param brandName as apps show it */
  begin({ id, email }: UserAccount, brandName: string): TotpSetup {
    const secret = newTotpSecret()
    const ticket = this.#tickets.issue(
      'totp-setup',
      { userId: id, secret },
      ISSUER_LIMITS.users.factorSeconds,
    )
    return { secret, link: totpLink(secret, brandName, email), ticket }
  }

  /** The setup that a ticket continues; undefined if it has expired, or is one of another user. */
  continueSetup({ id, email }: UserAccount, brandName: string, ticket: string): TotpSetup | undefined {
    const setup = this.#tickets.read<{ userId: string; secret: string }>('totp-setup', ticket)
    if (setup?.userId !== id) return undefined
    return { secret: setup.secret, link: totpLink(setup.secret, brandName, email), ticket }
  }

  /** Enables the second factor. @returns the recovery codes; undefined if the code is wrong, or the factor is enabled */
  async enable(user: UserAccount, { secret }: TotpSetup, code: string): Promise<string[] | undefined> {
    const step = totpStep(secret, normalizeCode(code))
    if (step === undefined) return undefined
    const codes = newRecoveryCodes()
    const stored: StoredFactor = { secret, recoveryKey: randomBytes(32).toString('base64url') }
    const digests = codes.map((one) => recoveryDigest(stored.recoveryKey, user.id, one))
    const row = await this.#system.row(sql`
      insert into user_totp (user_id, tenant_id, workspace_id, sealed, last_step, recovery)
      values (${user.id}, ${user.tenantId}, ${user.workspaceId}, ${this.#seal(user, stored)}, ${step}, ${textArray(digests)}::text[])
      on conflict (user_id) do nothing returning user_id`)
    return row === undefined ? undefined : codes
  }

  async disable({ id }: UserAccount): Promise<void> {
    await this.#system.rows(sql`delete from user_totp where user_id = ${id}`)
  }

  async #useCode(user: UserAccount, code: string): Promise<boolean> {
    const stored = await this.#stored(user)
    const step = stored && totpStep(stored.secret, code)
    if (step === undefined) return false
    const used = await this.#system.row(sql`
      update user_totp set last_step = ${step} where user_id = ${user.id} and last_step < ${step} returning user_id`)
    return used !== undefined
  }

  async #useRecoveryCode(user: UserAccount, code: string): Promise<boolean> {
    const stored = await this.#stored(user)
    if (stored === undefined) return false
    const { id } = user
    const digest = recoveryDigest(stored.recoveryKey, id, code)
    const used = await this.#system.row(sql`
      update user_totp set recovery = array_remove(recovery, ${digest}::text)
      where user_id = ${id} and ${digest}::text = any(recovery) returning user_id`)
    return used !== undefined
  }

  async #stored(user: UserAccount): Promise<StoredFactor | undefined> {
    const row = await this.#system.row<{ sealed: Buffer }>(
      sql`select sealed from user_totp where user_id = ${user.id}`,
    )
    return row && this.#open(user, row.sealed)
  }

  /** For this user: the database cannot give the secret of one user to another. */
  #seal(user: UserAccount, { secret, recoveryKey }: StoredFactor): Buffer {
    return this.#secrets.seal(factorPurpose(user), Buffer.from([user.id, secret, recoveryKey].join(':')))
  }

  #open(user: UserAccount, sealed: Buffer): StoredFactor {
    const plain = this.#secrets.open(factorPurpose(user), sealed).toString()
    const [id, secret = '', recoveryKey = ''] = plain.split(':')
    if (id !== user.id) throw new TypeError('the secret belongs to another user')
    return { secret, recoveryKey }
  }
}

/** The key of the recovery codes is stored with the secret, so that the codes last as long as it: nobody can compute their digests again. */
interface StoredFactor {
  /** In base32. */
  readonly secret: string
  readonly recoveryKey: string
}

export const factorPurpose = (ref: WorkspaceRef): string => purposeIn(ref, 'totp')
