/** The issuer's signing keys: the newest one that all nodes know signs, older ones verify until their tokens expire. */

import {
  CompactSign,
  calculateJwkThumbprint,
  createLocalJWKSet,
  exportJWK,
  generateKeyPair,
  importJWK,
  type JWK,
} from 'jose'
import type { Secrets } from '../../infra/crypto/secrets.ts'
import { INFRA_LIMITS } from '../../infra/limits.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { SystemScope } from '../../infra/postgres/system-scope.ts'
import { ACCESS_LIMITS } from '../limits.ts'

export const ALGORITHM = 'ES256'

export interface KeySet {
  /** Private keys; the first one signs, the others verify. */
  readonly keys: readonly [JWK, ...JWK[]]
  readonly find: ReturnType<typeof createLocalJWKSet>
}

export const SIGNING_KEY_PURPOSE = 'signing-key'

/** The lifetime of a token, the clock skew, and the seconds for which other nodes still sign with the old key. */
const VERIFIES_SECONDS = ACCESS_LIMITS.tokenSeconds + 60

/** A key signs only after every node has read it, so that all can verify its tokens. */
const SETTLED_SECONDS = INFRA_LIMITS.credentialCacheMs / 1_000 + 1

export class SigningKeys {
  readonly #system: SystemScope
  readonly #secrets: Secrets
  #known: KeySet | undefined
  #loading: Promise<KeySet> | undefined
  #readMs = Number.NEGATIVE_INFINITY

  constructor(database: Database, secrets: Secrets) {
    this.#system = new SystemScope('signing-keys', database)
    this.#secrets = secrets
  }

  /** The keys, cached for a few seconds; while the database is unavailable, the last known ones. */
  async current(): Promise<KeySet> {
    if (this.#known !== undefined && performance.now() - this.#readMs < INFRA_LIMITS.credentialCacheMs)
      return this.#known
    return this.#load().catch((error: unknown) => {
      if (this.#known === undefined) throw error
      return this.#known
    })
  }

  /** Reloads the keys for a token with an unknown one, though not for every such token. */
  async renewed(): Promise<KeySet> {
    if (performance.now() - this.#readMs < ACCESS_LIMITS.signingKeysReloadMs) return this.current()
    this.#readMs = Number.NEGATIVE_INFINITY
    return this.current()
  }

  /**
   * Signs a statement that is checked for longer than a token lives, such as a published manifest (RFC 7515).
   * @param typ media type without `application/`; any but that of tokens, so that no verifier takes a statement for a token
   * @param claims without `exp`, `sub` and `aud`, for the same reason
   * @returns a compact JWS, by the key that signs tokens now
   */
  sign(typ: string, claims: Readonly<Record<string, unknown>>): Promise<string> {
    return this.#sign(typ, claims)
  }

  /** Signs an access token (RFC 9068) that the issuer does not make itself. @param claims all that its verifier asks for */
  signToken(
    claims: Readonly<Record<'iss' | 'aud' | 'sub' | 'exp' | 'iat' | 'jti', unknown>>,
  ): Promise<string> {
    return this.#sign('at+jwt', claims)
  }

  async #sign(typ: string, claims: Readonly<Record<string, unknown>>): Promise<string> {
    const {
      keys: [jwk],
    } = await this.current()
    return new CompactSign(Buffer.from(JSON.stringify(claims)))
      .setProtectedHeader({ alg: ALGORITHM, typ, ...(jwk.kid !== undefined && { kid: jwk.kid }) })
      .sign(await importJWK(jwk, ALGORITHM))
  }

  /**
   * Creates a key, which signs once all nodes have read it.
   * @param id of the key among those that are stored; a repetition with the same id creates no other
   * @param revoke deletes older keys, which ends their tokens; the new key then signs at once
   * @returns the new key's `kid`
   */
  async rotate(id: string, revoke: boolean): Promise<string> {
    const others = revoke ? [sql`delete from signing_keys where id <> ${id}`] : []
    const [, [row] = []] = await this.#system.batch(
      this.#insert(id, await makeKey()),
      sql`select sealed from signing_keys where id = ${id}`,
      ...others,
    )
    if (row === undefined) throw new TypeError('the key must be stored')
    this.#readMs = Number.NEGATIVE_INFINITY
    await this.#erasePrivateKeys()
    return this.#open(row['sealed'] as Buffer).kid ?? ''
  }

  /** All public keys but revoked ones: those that sign, and those that were replaced. Tokens are not verified by these. */
  async published(): Promise<{ keys: JWK[] }> {
    const rows = await this.#system.rows<{ sealed: Buffer }>(
      sql`select sealed from signing_keys order by created_at desc, id`,
    )
    return {
      keys: rows.map(({ sealed }) => ({ ...publicPart(this.#open(sealed)), alg: ALGORITHM, use: 'sig' })),
    }
  }

  /** Leaves the public part of keys whose tokens have expired. */
  async #erasePrivateKeys(): Promise<void> {
    const rows = await this.#system.rows<{ id: string; sealed: Buffer }>(
      sql`select id, sealed from signing_keys where id not in (select id from (${VERIFYING}) verifying)`,
    )
    const replaced = rows
      .map(({ id, sealed }) => ({ id, jwk: this.#open(sealed) }))
      .filter(({ jwk }) => jwk.d)
    await this.#system.batch(
      ...replaced.map(
        ({ id, jwk }) =>
          sql`update signing_keys set sealed = ${this.#seal(publicPart(jwk))} where id = ${id}`,
      ),
    )
  }

  #load(): Promise<KeySet> {
    this.#loading ??= this.#read().finally(() => {
      this.#loading = undefined
    })
    return this.#loading
  }

  async #read(): Promise<KeySet> {
    const startedMs = performance.now()
    const keys = await this.#rows()
    if (keys.length === 0) {
      // Nodes that do this at the same time insert the same id: one key wins.
      await this.#system.rows(this.#insert('first', await makeKey()))
      keys.push(...(await this.#rows()))
    }
    const [signing, ...others] = keys
    if (signing === undefined) throw new TypeError('the issuer has no signing key')
    this.#readMs = startedMs
    if (this.#known?.keys.map(({ kid }) => kid).join() === keys.map(({ kid }) => kid).join())
      return this.#known
    const find = createLocalJWKSet({ keys: keys.map(publicPart) })
    this.#known = { keys: [signing, ...others], find }
    return this.#known
  }

  async #rows(): Promise<JWK[]> {
    const rows = await this.#system.rows<{ sealed: Buffer }>(
      sql`select sealed from (${VERIFYING}) verifying
        order by created_at <= now() - make_interval(secs => ${SETTLED_SECONDS}) desc, created_at desc, id`,
    )
    return rows.map(({ sealed }) => this.#open(sealed))
  }

  #open(sealed: Buffer): JWK {
    return JSON.parse(this.#secrets.open(SIGNING_KEY_PURPOSE, sealed).toString())
  }

  #seal(key: JWK): Buffer {
    return this.#secrets.seal(SIGNING_KEY_PURPOSE, Buffer.from(JSON.stringify(key)))
  }

  #insert(id: string, key: JWK): Sql {
    return sql`insert into signing_keys (id, sealed, created_at) values (${id}, ${this.#seal(key)}, clock_timestamp())
      on conflict (id) do nothing`
  }
}

const publicPart = ({ d: _private, ...key }: JWK): JWK => key

/** The newest key, and those that were replaced recently. */
const VERIFYING = sql`
  select id, sealed, created_at from (
    select id, sealed, created_at, lead(created_at) over (order by created_at, id desc) as followed_at
    from signing_keys) all_keys
  where followed_at is null or followed_at > now() - make_interval(secs => ${VERIFIES_SECONDS})`

async function makeKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair(ALGORITHM, { extractable: true })
  const jwk = await exportJWK(privateKey)
  return { ...jwk, kid: await calculateJwkThumbprint(jwk) }
}
