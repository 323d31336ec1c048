/** Time-based codes as the second factor of users and accounts: switched on and off by the person, required after the password. */

import { randomBytes } from 'node:crypto'
import { AttemptThrottle } from '../../../access/authentication/attempt-throttle.ts'
import { ACCESS_LIMITS } from '../../../access/limits.ts'
import type { Secrets } from '../../../infra/crypto/secrets.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { type Sql, sql, textArray } from '../../../infra/postgres/sql.ts'
import { SystemScope } from '../../../infra/postgres/system-scope.ts'
import type { Account, TenantBounds } from '../accounts/accounts-store.ts'
import { ISSUER_LIMITS } from '../limits.ts'
import type { ProvenIdentity } from '../users/identities-store.ts'
import { ownerIds, signOutOwner } from './factor-owner.ts'
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

/** A secret that the user adds to an authenticator app. It counts once a code of it was entered. */
export interface TotpSetup {
  /** In base32. */
  readonly secret: string
  readonly link: string
  readonly ticket: string
}

/** The state between the two steps of a sign-in: the first proof was right, and the code is still to come. */
export interface PendingSignIn {
  readonly subjectId: string
  readonly generation: number
  /** Identifies the sign-in: the interaction, or the page. */
  readonly at: string
  /** The identity at a provider by which the user signs in; absent after a password. */
  readonly identity?: ProvenIdentity
}

/** What a sign-in asks for after the password. */
export interface SecondFactor {
  /** False if the person, who has an account, uses passkeys alone. */
  readonly hasTotp: boolean
  /** Recovery codes. */
  readonly codesLeft: number
}

/** A factor was added. */
export interface Enrolment {
  /** Recovery codes. */
  readonly codes: readonly string[]
  /** As it is now: the first factor has signed the person out everywhere, since a password alone had opened the sessions. */
  readonly person: Account
}

type CodeResult = 'right' | 'wrong' | 'too_many'

export class SecondFactors {
  readonly #system: SystemScope
  readonly #secrets: Secrets
  readonly #tickets: Tickets
  readonly #throttle = new AttemptThrottle()
  readonly #forget: (subject: string) => void

  /** @param forget drops the cached state of a person who has got a factor */
  constructor(database: Database, secrets: Secrets, forget: (subject: string) => void) {
    this.#forget = forget
    this.#system = new SystemScope('issuer', database)
    this.#secrets = secrets
    this.#tickets = new Tickets(secrets)
  }

  /** Passkeys of an account are one, also without recovery codes. @returns undefined if the person has no second factor */
  read({ id }: Pick<Account, 'id'>): Promise<SecondFactor | undefined> {
    return this.#system.row<SecondFactor>(sql`
      select coalesce(f.has_totp, false) as "hasTotp", coalesce(cardinality(f.recovery), 0) as "codesLeft"
      from (select ${id}::text as id) s left join second_factors f on f.subject_id = s.id
      where f.subject_id is not null or exists (select from passkeys p where p.account_id = s.id)`)
  }

  /** A ticket for the page that asks for a code; undefined if the person needs none. @param at identifies the sign-in */
  async challenge(subject: Account, at: string, identity?: ProvenIdentity): Promise<string | undefined> {
    if ((await this.read(subject)) === undefined) return undefined
    const by = identity === undefined ? {} : { identity }
    const pending: PendingSignIn = { subjectId: subject.id, generation: subject.generation, at, ...by }
    return this.#tickets.issue('second-factor', pending, ISSUER_LIMITS.users.factorSeconds)
  }

  /** @returns undefined if the ticket is not valid, or belongs to another sign-in */
  pending(ticket: string, at: string): PendingSignIn | undefined {
    const pending = this.#tickets.read<PendingSignIn>('second-factor', ticket)
    return pending?.at === at ? pending : undefined
  }

  /** Checks a code of the authenticator app, or a recovery code. Each works once. */
  async verify(subject: Account, text: string): Promise<CodeResult> {
    // Of all addresses together: the password is known already.
    if (!this.#throttle.admit(subject.id, ACCESS_LIMITS.attemptsMax.accountFromAddress)) return 'too_many'
    const code = normalizeCode(text)
    const isRight = await (isTotpCode(code)
      ? this.#useCode(subject, code)
      : this.#useRecoveryCode(subject, code))
    if (!isRight) return 'wrong'
    this.#throttle.reset(subject.id)
    return 'right'
  }

  /** Begins to switch the second factor on, for a person whose password was verified. @param brandName as apps show it */
  begin({ id, email }: Account, brandName: string): TotpSetup {
    const secret = newTotpSecret()
    const ticket = this.#tickets.issue(
      'totp-setup',
      { subjectId: id, secret },
      ISSUER_LIMITS.users.factorSeconds,
    )
    return { secret, link: totpLink(secret, brandName, email), ticket }
  }

  /** The setup that a ticket continues; undefined if it has expired, or is one of another person. */
  continueSetup({ id, email }: Account, brandName: string, ticket: string): TotpSetup | undefined {
    const setup = this.#tickets.read<{ subjectId: string; secret: string }>('totp-setup', ticket)
    if (setup?.subjectId !== id) return undefined
    return { secret: setup.secret, link: totpLink(setup.secret, brandName, email), ticket }
  }

  /** Enables the second factor. @returns undefined if the code is wrong, or the factor is enabled */
  async enable(subject: Account, { secret }: TotpSetup, code: string): Promise<Enrolment | undefined> {
    const step = totpStep(secret, normalizeCode(code))
    if (step === undefined) return undefined
    const { codes, sealed, digests } = this.#newCodes(subject, secret)
    return this.#enrol(
      subject,
      codes,
      sql`
      insert into second_factors as f (user_id, account_id, tenant_id, workspace_id, sealed, last_step, recovery)
      values (${ownerIds(subject)}, ${sealed}, ${step}, ${digests})
      on conflict (subject_id) do update set sealed = excluded.sealed, last_step = excluded.last_step,
        recovery = excluded.recovery, has_totp = true where not f.has_totp
      returning subject_id`,
    )
  }

  /**
   * Stores a passkey of an account, with recovery codes if the person has none yet: both or neither.
   * @param registration returns a row if it stores the passkey
   * @returns undefined if it was not stored
   */
  async addPasskey(
    person: Account,
    registration: Sql,
  ): Promise<{ readonly enrolment: Enrolment | undefined } | undefined> {
    const { codes, sealed, digests } = this.#newCodes(person, '')
    const row = await this.#system.row<{ is_first: boolean; generation: number | null }>(sql`
      with added as (${registration}), stored as (
        insert into second_factors (user_id, account_id, tenant_id, workspace_id, sealed, has_totp, last_step, recovery)
        select ${ownerIds(person)}, ${sealed}::bytea, false, 0, ${digests} where exists (select from added)
        on conflict (subject_id) do nothing returning subject_id
      ), signed_out as (${signOutOwner(person, isFirstOf(person))})
      select exists (select from stored) as is_first, (select generation from signed_out) as generation from added`)
    if (row === undefined) return undefined
    if (!row.is_first) return { enrolment: undefined }
    this.#forget(person.id)
    return { enrolment: { codes, person: { ...person, generation: row.generation ?? person.generation } } }
  }

  /** Recovery codes for passkeys, if the person has none yet. @returns undefined if there are some */
  async addRecoveryCodes(subject: Account): Promise<Enrolment | undefined> {
    const { codes, sealed, digests } = this.#newCodes(subject, '')
    return this.#enrol(
      subject,
      codes,
      sql`
      insert into second_factors (user_id, account_id, tenant_id, workspace_id, sealed, has_totp, last_step, recovery)
      values (${ownerIds(subject)}, ${sealed}, false, 0, ${digests})
      on conflict (subject_id) do nothing returning subject_id`,
    )
  }

  /** Replaces the recovery codes. @returns undefined if the person has no second factor */
  async renewRecoveryCodes(subject: Account): Promise<readonly string[] | undefined> {
    const stored = await this.#stored(subject)
    if (stored === undefined)
      return (await this.read(subject)) && (await this.addRecoveryCodes(subject))?.codes
    const { codes, sealed, digests } = this.#newCodes(subject, stored.secret)
    const row = await this.#system.row(sql`
      update second_factors set sealed = ${sealed}, recovery = ${digests}
      where ${isUnchanged(subject, stored)} returning subject_id`)
    // Something else has changed the factor since it was read.
    return row === undefined ? this.renewRecoveryCodes(subject) : codes
  }

  /** Ends the codes of the app; the recovery codes as well, unless they are for the passkeys of an account. */
  async disable(subject: Account): Promise<void> {
    const stored = await this.#stored(subject)
    if (stored === undefined) return
    const sealed = this.#seal(subject, { ...stored, secret: '' })
    const [changed = []] = await this.#system.batch(
      sql`update second_factors set has_totp = false, sealed = ${sealed}
        where ${isUnchanged(subject, stored)} returning subject_id`,
      sql`delete from second_factors where ${isUnchanged(subject, { sealed })} and not ${HAS_PASSKEYS_OF_ACCOUNT}`,
    )
    if (changed.length === 0) await this.disable(subject)
  }

  /** Stores a factor; the first one ends, at once, what was opened without it. @param insert returns a row if it stores one */
  async #enrol(person: Account, codes: readonly string[], insert: Sql): Promise<Enrolment | undefined> {
    const row = await this.#system.row<{ generation: number | null }>(sql`
      with stored as (${insert}), signed_out as (${signOutOwner(person, isFirstOf(person))})
      select (select generation from signed_out) as generation from stored`)
    if (row === undefined) return undefined
    this.#forget(person.id)
    return { codes, person: { ...person, generation: row.generation ?? person.generation } }
  }

  #newCodes(subject: Account, secret: string) {
    const codes = newRecoveryCodes()
    const recoveryKey = randomBytes(32).toString('base64url')
    const digests = codes.map((one) => recoveryDigest(recoveryKey, subject.id, one))
    const sealed = this.#seal(subject, { secret, recoveryKey })
    return { codes, sealed, digests: sql`${textArray(digests)}::text[]` }
  }

  async #useCode(subject: Account, code: string): Promise<boolean> {
    const stored = await this.#stored(subject)
    const step = stored?.secret ? totpStep(stored.secret, code) : undefined
    if (step === undefined) return false
    const used = await this.#system.row(sql`
      update second_factors set last_step = ${step} where subject_id = ${subject.id} and last_step < ${step} returning subject_id`)
    return used !== undefined
  }

  async #useRecoveryCode(subject: Account, code: string): Promise<boolean> {
    const stored = await this.#stored(subject)
    if (stored === undefined) return false
    const { id } = subject
    const digest = recoveryDigest(stored.recoveryKey, id, code)
    const used = await this.#system.row(sql`
      update second_factors set recovery = array_remove(recovery, ${digest}::text)
      where subject_id = ${id} and ${digest}::text = any(recovery) returning subject_id`)
    return used !== undefined
  }

  async #stored(subject: Account): Promise<(StoredFactor & { readonly sealed: Buffer }) | undefined> {
    const row = await this.#system.row<{ sealed: Buffer }>(
      sql`select sealed from second_factors where subject_id = ${subject.id}`,
    )
    return row && { ...this.#open(subject, row.sealed), sealed: row.sealed }
  }

  /** For this person: the database cannot give the secret of one to another. */
  #seal(subject: Account, { secret, recoveryKey }: StoredFactor): Buffer {
    return this.#secrets.seal(
      factorPurpose(subject),
      Buffer.from([subject.id, secret, recoveryKey].join(':')),
    )
  }

  #open(subject: Account, sealed: Buffer): StoredFactor {
    const plain = this.#secrets.open(factorPurpose(subject), sealed).toString()
    const [id, secret = '', recoveryKey = ''] = plain.split(':')
    if (id !== subject.id) throw new TypeError('the secret belongs to another person')
    return { secret, recoveryKey }
  }
}

/** Of a statement with a part `stored`, which sees the factors as they were before: it has stored the first one. */
const isFirstOf = ({ id }: Account): Sql =>
  sql`exists (select from stored) and not exists (select from second_factors where subject_id = ${id})`

/** Each write seals anew, so that no other was made since one was read. */
const isUnchanged = ({ id }: Account, { sealed }: { readonly sealed: Buffer }) =>
  sql`subject_id = ${id} and sealed = ${sealed}::bytea`

/** A passkey of a user needs no recovery codes: the password alone signs in as well. */
const HAS_PASSKEYS_OF_ACCOUNT = sql`exists (select from passkeys p where p.account_id = second_factors.account_id)`

/** The key of the recovery codes is stored with the secret, so that the codes last as long as it: nobody can compute their digests again. */
interface StoredFactor {
  /** In base32; empty if there are recovery codes alone. */
  readonly secret: string
  readonly recoveryKey: string
}

/** An operator is of no tenant, a tenant admin of no workspace. */
export const factorPurpose = ({ tenantId, workspaceId }: TenantBounds): string =>
  `workspace:${tenantId ?? ''}:${workspaceId ?? ''}:totp`

/** Ends recovery codes that no factor is left for: in the transaction that deletes a passkey. */
export const endUnusedCodes = ({ id }: Account): Sql =>
  sql`delete from second_factors where subject_id = ${id} and not has_totp and not ${HAS_PASSKEYS_OF_ACCOUNT}`
