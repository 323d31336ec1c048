/** Passkeys of users and accounts (Web Authentication): registered on the account page, they replace password and code at a sign-in. */

import { isIP } from 'node:net'
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import Type, { type Static } from 'typebox'
import { Value } from 'typebox/value'
import { idPattern } from '../../../core/ids.ts'
import type { Secrets } from '../../../infra/crypto/secrets.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { SystemScope } from '../../../infra/postgres/system-scope.ts'
import type { Account } from '../accounts/accounts-store.ts'
import type { IssuerState } from '../issuer/issuer-state.ts'
import { ISSUER_LIMITS } from '../limits.ts'
import { ownerIds } from './factor-owner.ts'
import { Tickets } from './tickets.ts'

/** A passkey, as its owner sees it. */
export interface Passkey {
  readonly id: string
  readonly name: string
  /** RFC 3339. */
  readonly createdAt: string
  readonly lastUsedAt: string | null
}

/** Loaded when the first passkey is used: the library takes 30 MB of memory. */
const webauthn = () => import('@simplewebauthn/server')

/** Base64url. */
const Bytes = Type.String({ pattern: '^[A-Za-z0-9_-]+$', maxLength: 8_192 })

/** The credential that a page sends, `PublicKeyCredential.toJSON()`. Unused members are dropped. */
const Credential = Type.Object({
  id: Type.String({ pattern: '^[A-Za-z0-9_-]{16,1400}$' }),
  response: Type.Object({
    clientDataJSON: Bytes,
    attestationObject: Type.Optional(Bytes),
    authenticatorData: Type.Optional(Bytes),
    signature: Type.Optional(Bytes),
    userHandle: Type.Optional(Type.Union([Bytes, Type.Null()])),
  }),
})
type Credential = Static<typeof Credential>

/** Of a user or an account. */
const SUBJECT_ID = new RegExp(`${idPattern('usr')}|${idPattern('acct')}`)

/** COSE: EdDSA, ES256, RS256. */
const ALGORITHMS = [-8, -7, -257]

const USER_VERIFICATION = { residentKey: 'required', userVerification: 'required' } as const

export class Passkeys {
  readonly #system: SystemScope
  readonly #state: IssuerState
  readonly #tickets: Tickets
  readonly #origin: string
  readonly #host: string

  /** @param url of the API, as browsers see it: its host is the id of the relying party */
  constructor(database: Database, secrets: Secrets, state: IssuerState, url: string) {
    this.#system = new SystemScope('issuer', database)
    this.#state = state
    this.#tickets = new Tickets(secrets)
    const { origin, hostname } = new URL(url)
    this.#origin = origin
    this.#host = hostname
  }

  /** False if the API is at an IP address: a relying party is a domain (Web Authentication §5.1.2). */
  get isAvailable(): boolean {
    return isIP(this.#host.replace(/^\[|\]$/g, '')) === 0
  }

  /** Oldest first. */
  list({ id }: Pick<Account, 'id'>): Promise<Passkey[]> {
    return this.#system.rows<Passkey>(sql`
      select id, name, created_at as "createdAt", last_used_at as "lastUsedAt" from passkeys
      where subject_id = ${id} order by created_at, id`)
  }

  /** Options for `navigator.credentials.create`, for a person whose password was verified. */
  async registrationOptions(subject: Account, brandName: string): Promise<string> {
    const known = await this.list(subject)
    const { generateRegistrationOptions } = await webauthn()
    const options = await generateRegistrationOptions({
      rpName: brandName,
      rpID: this.#host,
      userID: Uint8Array.from(Buffer.from(subject.id)),
      userName: subject.email,
      // All workspaces and the administrators share the relying party, so the browser shows where a passkey belongs.
      userDisplayName: `${subject.email} – ${brandName}`,
      challenge: this.#challenge(registrationOf(subject)),
      attestationType: 'none',
      excludeCredentials: known.map(({ id }) => ({ id })),
      authenticatorSelection: USER_VERIFICATION,
      supportedAlgorithmIDs: ALGORITHMS,
      timeout: ISSUER_LIMITS.users.factorSeconds * 1_000,
    })
    return JSON.stringify(options)
  }

  /** Options for `navigator.credentials.get`. @param at the sign-in that the challenge is for */
  authenticationOptions(at: string): string {
    const challenge = Buffer.from(this.#challenge(at)).toString('base64url')
    const timeout = ISSUER_LIMITS.users.factorSeconds * 1_000
    return JSON.stringify({ challenge, rpId: this.#host, userVerification: 'required', timeout })
  }

  /**
   * The statement that stores a new passkey, unless there are too many; it returns a row if it stores one.
   * @param text the credential as JSON @returns undefined if that is not valid
   */
  async registration(subject: Account, name: string, text: string): Promise<Sql | undefined> {
    const credential = credentialIn(text)
    const challenge = credential && (await this.#useChallenge(credential, registrationOf(subject)))
    const key = challenge && (await this.#verifyNew(credential as Credential, challenge))
    if (!key) return undefined
    return sql`
      insert into passkeys (id, user_id, account_id, tenant_id, workspace_id, public_key, counter, name)
      select ${key.id}, ${ownerIds(subject)}, ${Buffer.from(key.publicKey)}::bytea,
        ${key.counter}::bigint, ${name}
      where (select count(*) from passkeys where subject_id = ${subject.id}) < ${ISSUER_LIMITS.users.passkeysMax}
      on conflict do nothing returning id`
  }

  /** Stores a passkey of a user. @returns false if there are too many */
  async add(registration: Sql): Promise<boolean> {
    return (await this.#system.row(registration)) !== undefined
  }

  /**
   * Checks a passkey at a sign-in.
   * @param text the credential as JSON
   * @returns the id of the user or account that it belongs to
   */
  async authenticate(at: string, text: string): Promise<string | undefined> {
    const credential = credentialIn(text)
    const challenge = credential && (await this.#useChallenge(credential, at))
    if (credential === undefined || challenge === undefined) return undefined
    // Resident keys, which alone are registered, name their owner.
    const subjectId = Buffer.from(credential.response.userHandle ?? '', 'base64url').toString()
    if (!SUBJECT_ID.test(subjectId)) return undefined
    const found = await this.#system.row<{ publicKey: Buffer; counter: string }>(sql`
      select public_key as "publicKey", counter::text as counter from passkeys
      where subject_id = ${subjectId} and id = ${credential.id}`)
    if (found === undefined) return undefined
    const counter = await this.#verify(credential, challenge, found)
    if (counter === undefined) return undefined
    const used = await this.#system.row(sql`
      update passkeys set counter = ${counter}, last_used_at = now()
      where subject_id = ${subjectId} and id = ${credential.id}
        and counter = ${found.counter}::bigint returning id`)
    return used === undefined ? undefined : subjectId
  }

  /** @param after a statement of the same transaction @returns false if the person has no such passkey */
  async delete({ id: subjectId }: Account, id: string, after: Sql): Promise<boolean> {
    const [deleted = []] = await this.#system.batch(
      sql`delete from passkeys where subject_id = ${subjectId} and id = ${id} returning id`,
      after,
    )
    return deleted.length > 0
  }

  #challenge(at: string): Uint8Array<ArrayBuffer> {
    const ticket = this.#tickets.issue('passkey', { at }, ISSUER_LIMITS.users.factorSeconds)
    return Uint8Array.from(Buffer.from(ticket, 'base64url'))
  }

  /** Uses up the challenge that a credential answers. @returns undefined if it is for something else, old, or was used before */
  async #useChallenge({ response }: Credential, at: string): Promise<string | undefined> {
    const challenge = challengeIn(response.clientDataJSON)
    if (this.#tickets.read<{ at: string }>('passkey', challenge)?.at !== at) return undefined
    const bytes = Buffer.from(challenge, 'base64url').toString('hex')
    const isFirst = await this.#state.useOnce('PasskeyChallenge', bytes, ISSUER_LIMITS.users.factorSeconds)
    return isFirst ? challenge : undefined
  }

  async #verifyNew(credential: Credential, challenge: string) {
    const { attestationObject = '' } = credential.response
    if (!(await isUnattested(attestationObject))) return undefined
    const { verifyRegistrationResponse } = await webauthn()
    const { registrationInfo } = await undefinedIfInvalid(() =>
      verifyRegistrationResponse({
        response: toLibrary(credential) as RegistrationResponseJSON,
        supportedAlgorithmIDs: ALGORITHMS,
        ...this.#expected(challenge),
      }),
    )
    return registrationInfo?.credential
  }

  /** @returns the new counter; undefined if the signature is wrong, or the user was not verified */
  async #verify(
    credential: Credential,
    challenge: string,
    { publicKey, counter }: { readonly publicKey: Buffer; readonly counter: string },
  ): Promise<number | undefined> {
    const { verifyAuthenticationResponse } = await webauthn()
    const known = { id: credential.id, publicKey: Uint8Array.from(publicKey), counter: Number(counter) }
    const { verified, authenticationInfo } = await undefinedIfInvalid(() =>
      verifyAuthenticationResponse({
        response: toLibrary(credential) as AuthenticationResponseJSON,
        credential: known,
        ...this.#expected(challenge),
      }),
    )
    return verified === true ? authenticationInfo?.newCounter : undefined
  }

  #expected(challenge: string) {
    return {
      expectedChallenge: challenge,
      expectedOrigin: this.#origin,
      expectedRPID: this.#host,
      requireUserVerification: true,
    }
  }
}

const registrationOf = ({ id, generation }: Account) => `registration ${id} ${generation}`

function credentialIn(text: string): Credential | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return Value.Check(Credential, value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Only checked members, so that the library reads nothing else. */
function toLibrary({ id, response }: Credential): object {
  const { userHandle, ...rest } = response
  return {
    ...{ id, rawId: id, type: 'public-key', clientExtensionResults: {} },
    response: { ...rest, ...(typeof userHandle === 'string' && { userHandle }) },
  }
}

function challengeIn(clientData: string): string {
  try {
    const { challenge } = JSON.parse(Buffer.from(clientData, 'base64url').toString())
    return typeof challenge === 'string' ? challenge : ''
  } catch {
    return ''
  }
}

/**
 * True without certificates: the library would parse them and fetch their revocation lists, past the guard of outbound
 * requests. Pages request no attestation, so browsers send none, or self attestation (Web Authentication §5.1.3).
 */
async function isUnattested(attestationObject: string): Promise<boolean> {
  const { decodeAttestationObject } = await import('@simplewebauthn/server/helpers')
  try {
    const decoded = decodeAttestationObject(Uint8Array.from(Buffer.from(attestationObject, 'base64url')))
    const format = decoded.get('fmt')
    return format === 'none' || (format === 'packed' && decoded.get('attStmt').get('x5c') === undefined)
  } catch {
    return false
  }
}

/** The library throws plain errors for everything that is wrong with a credential. */
async function undefinedIfInvalid<T extends object>(verify: () => Promise<T>): Promise<Partial<T>> {
  try {
    return await verify()
  } catch {
    return {}
  }
}
