/** Stores state of the issuer in PostgreSQL, for all API processes: sessions, grants, codes, tokens, revocations. */

import { hash } from 'node:crypto'
import { type Adapter, type AdapterPayload, errors } from 'oidc-provider'
import type { IssuedToken } from '../../../access/authentication/claims.ts'
import type { Secrets } from '../../../infra/crypto/secrets.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { SystemScope } from '../../../infra/postgres/system-scope.ts'
import { TtlCache } from '../../../infra/ttl-cache.ts'
import { ISSUER_LIMITS } from '../limits.ts'
import { sessionIdOf } from '../sessions/sessions.ts'

export const ISSUER_STATE_PURPOSE = 'issuer-state'

interface FamilyRow {
  readonly id: Buffer
  readonly model: string
  readonly accountId: string | null
}

interface SealedRow {
  readonly id: Buffer
  readonly sealed: Buffer
}

/** A grant of an account, as the provider stored it. */
export interface StoredGrant {
  /** As {@link grantIdOf} gives it. */
  readonly id: string
  readonly payload: AdapterPayload
  readonly expiresAt: string
  /** When the client last used a refresh token of it. */
  readonly renewedAt: string | null
}

/** A used code, or a refresh token used long ago, that was presented again; its whole family was deleted (RFC 9700 §4.14.2). */
export class TokenReused extends errors.InvalidGrant {
  readonly accountId: string | undefined

  constructor(accountId: string | null | undefined) {
    super('already used')
    this.accountId = accountId ?? undefined
  }
}

/** The grant as access tokens name it: its own id is a bearer secret, so they carry a digest. */
export const grantIdOf = (id: string): string => keyOf('Grant', id).toString('base64url')

/** Model of the rows that stand for revoked access tokens. */
const REVOKED = 'RevokedToken'

export class IssuerState {
  readonly #system: SystemScope
  readonly #secrets: Secrets
  /** By token and grant. */
  readonly #known = new TtlCache<IssuedToken & { readonly isNotRevoked: boolean }>()
  readonly #forgetGrant = (grantId: string) => this.#known.forget((token) => token.grantId === grantId)

  constructor(database: Database, secrets: Secrets) {
    this.#system = new SystemScope('issuer', database)
    this.#secrets = secrets
  }

  of(model: string): Adapter {
    return new ModelState(model, this.#system, this.#secrets, this.#forgetGrant)
  }

  /**
   * True if neither the token nor its grant was revoked. Cached for `INFRA_LIMITS.credentialCacheMs`, so a revocation on another node
   * takes effect within that time; one on this node takes effect at once.
   */
  async isNotRevoked(token: IssuedToken): Promise<boolean> {
    const { tokenId = '', parentId = '', grantId = '' } = token
    if (tokenId === '' && grantId === '') return true
    const known = await this.#known.load(`${tokenId} ${parentId} ${grantId}`, async () => {
      const row = await this.#system.row<{ isNotRevoked: boolean }>(sql`
        select not exists (select from issuer_state where id in (${keyOf(REVOKED, tokenId)}, ${keyOf(REVOKED, parentId)}))
          and (${grantId} = '' or exists (
            select from issuer_state where id = ${Buffer.from(grantId, 'base64url')} and expires_at > now())) as "isNotRevoked"`)
      return { tokenId, parentId, grantId, isNotRevoked: row?.isNotRevoked === true }
    })
    return known.isNotRevoked
  }

  /** Ends one access token. @param expiresAt seconds since 1970, when it expires */
  async revoke(tokenId: string, expiresAt: number): Promise<void> {
    const sealed = this.#secrets.seal(ISSUER_STATE_PURPOSE, Buffer.from('{}'))
    // Verifiers tolerate clock skew, and links that the token has signed may outlive it.
    await this.#system.rows(sql`
      insert into issuer_state (id, model, sealed, expires_at)
      values (${keyOf(REVOKED, tokenId)}, ${REVOKED}, ${sealed}, greatest(to_timestamp(${expiresAt}::bigint) + interval '5 minutes', now() + interval '7 days'))
      on conflict (id) do nothing`)
    this.#known.forget((token) => token.tokenId === tokenId || token.parentId === tokenId)
  }

  /** The newest grants of an account. */
  async readGrants(accountId: string, max: number): Promise<StoredGrant[]> {
    const rows = await this.#system.rows<SealedRow & Pick<StoredGrant, 'expiresAt' | 'renewedAt'>>(sql`
      select g.id, g.sealed, g.expires_at as "expiresAt",
        (select max(t.consumed_at) from issuer_state t
          where t.grant_key = g.grant_key and t.model = 'RefreshToken') as "renewedAt"
      from issuer_state g
      where g.account_id = ${accountId} and g.model = 'Grant' and g.expires_at > now()
      order by g.expires_at desc limit ${max}`)
    return rows.map(({ id, sealed, ...times }) => ({ ...this.#opened({ id, sealed }), ...times }))
  }

  /**
   * Ends grants of an account with their refresh tokens, and with them their access tokens as {@link isNotRevoked} describes.
   * @param id as {@link grantIdOf} gives it. Default: all
   * @returns the grants that have ended
   */
  async endGrants(accountId: string, id?: string): Promise<Pick<StoredGrant, 'id' | 'payload'>[]> {
    const which = id === undefined ? sql`true` : sql`id = ${Buffer.from(id, 'base64url')}`
    const family = await this.#system.rows<SealedRow & { readonly model: string }>(sql`
      delete from issuer_state where grant_key in (
        select grant_key from issuer_state where account_id = ${accountId} and model = 'Grant' and ${which})
      returning id, model, sealed`)
    const ended = family.filter(({ model }) => model === 'Grant').map((row) => this.#opened(row))
    for (const grant of ended) this.#forgetGrant(grant.id)
    return ended
  }

  #opened({ id, sealed }: SealedRow): Pick<StoredGrant, 'id' | 'payload'> {
    return { id: id.toString('base64url'), payload: openPayload(this.#secrets, sealed) }
  }

  /** Marks a value as used. @param seconds for which this is remembered @returns false if it was used before */
  async useOnce(model: string, value: string, seconds: number): Promise<boolean> {
    const sealed = this.#secrets.seal(ISSUER_STATE_PURPOSE, Buffer.from('{}'))
    const insert = sql`
      insert into issuer_state (id, model, sealed, expires_at)
      values (${keyOf(model, value)}, ${model}, ${sealed}, now() + make_interval(secs => ${seconds}))
      on conflict (id) do nothing returning id`
    const [rows = []] = await this.#system.batch(insert, FORGET_EXPIRED)
    return rows.length > 0
  }
}

/**
 * Ids of tokens, grants and sessions are bearer secrets, so the table stores their digests. The kind is the model of the row, such as
 * `Grant` for the key of a grant's own row; `grant` for the family that a row belongs to; `<model>:uid` for a session's second id.
 */
const keyOf = (kind: string, id: string) => hash('sha256', `${kind}:${id}`, 'buffer')
const optionalKeyOf = (kind: string, id: string | undefined) => (id === undefined ? null : keyOf(kind, id))

const openPayload = (secrets: Secrets, sealed: Buffer): AdapterPayload =>
  JSON.parse(secrets.open(ISSUER_STATE_PURPOSE, sealed).toString())

/** Deletes a few expired rows with each write. */
const FORGET_EXPIRED = sql`
  delete from issuer_state where ctid = any(array(
    select ctid from issuer_state where expires_at <= now() order by expires_at limit 20 for update skip locked))`

class ModelState implements Adapter {
  readonly #model: string
  readonly #system: SystemScope
  readonly #secrets: Secrets
  readonly #forgetGrant: (grantId: string) => void

  constructor(model: string, system: SystemScope, secrets: Secrets, forgetGrant: (grantId: string) => void) {
    this.#model = model
    this.#system = system
    this.#secrets = secrets
    this.#forgetGrant = forgetGrant
  }

  async upsert(id: string, payload: AdapterPayload, expiresInSeconds: number): Promise<void> {
    const { uid, accountId, clientId } = payload
    const sessionUid = this.#model === 'Session' ? uid : payload['sessionUid']
    const sessionId =
      typeof sessionUid === 'string' && accountId !== undefined ? sessionIdOf(sessionUid, accountId) : null
    // A grant belongs to its own family: its tokens end with it.
    const grantId = this.#model === 'Grant' ? id : payload.grantId
    const sealed = this.#secrets.seal(ISSUER_STATE_PURPOSE, Buffer.from(JSON.stringify(payload)))
    const upsert = sql`
      insert into issuer_state (id, model, grant_key, uid_key, account_id, client_id, session_id, sealed, expires_at)
      values (${keyOf(this.#model, id)}, ${this.#model}, ${optionalKeyOf('grant', grantId)},
        ${optionalKeyOf(`${this.#model}:uid`, uid)}, ${accountId ?? null}, ${clientId ?? null}, ${sessionId}, ${sealed},
        now() + make_interval(secs => ${expiresInSeconds}))
      on conflict (id) do update set grant_key = excluded.grant_key, uid_key = excluded.uid_key,
        account_id = excluded.account_id, client_id = excluded.client_id, session_id = excluded.session_id, sealed = excluded.sealed,
        expires_at = excluded.expires_at`
    await this.#system.batch(upsert, FORGET_EXPIRED)
  }

  find(id: string): Promise<AdapterPayload | undefined> {
    return this.#one(sql`id = ${keyOf(this.#model, id)}`)
  }

  findByUid(uid: string): Promise<AdapterPayload | undefined> {
    return this.#one(sql`uid_key = ${keyOf(`${this.#model}:uid`, uid)} and model = ${this.#model}`)
  }

  async findByUserCode(): Promise<undefined> {}

  /**
   * Consumes a code or a refresh token. A second use deletes the whole family: the grant, its refresh tokens, and with the
   * grant its access tokens (RFC 9700 §4.14.2). A refresh token may be used again for `ISSUER_LIMITS.refreshGraceSeconds` after its
   * first use: by windows of one client that share it, or after a lost response.
   * @throws TokenReused at the second use
   */
  async consume(id: string): Promise<void> {
    const key = keyOf(this.#model, id)
    // Without a grace no time is compared: that of a transaction which began first is before the use that it waited for.
    const isInGrace =
      this.#model === 'RefreshToken'
        ? sql`or consumed_at > now() - make_interval(secs => ${ISSUER_LIMITS.refreshGraceSeconds})`
        : sql``
    const consumed = await this.#system.row<{ id: Buffer }>(sql`
      update issuer_state set consumed_at = coalesce(consumed_at, now())
      where id = ${key} and (consumed_at is null ${isInGrace})
      returning id`)
    if (consumed !== undefined) return
    const family = await this.#system.rows<FamilyRow>(sql`
      delete from issuer_state where grant_key = (select grant_key from issuer_state where id = ${key})
      returning id, model, account_id as "accountId"`)
    for (const { id: deletedId, model } of family)
      if (model === 'Grant') this.#forgetGrant(deletedId.toString('base64url'))
    throw new TokenReused(family[0]?.accountId)
  }

  async destroy(id: string): Promise<void> {
    await this.#system.rows(sql`delete from issuer_state where id = ${keyOf(this.#model, id)}`)
    if (this.#model === 'Grant') this.#forgetGrant(grantIdOf(id))
  }

  async revokeByGrantId(grantId: string): Promise<void> {
    await this.#system.rows(
      sql`delete from issuer_state where grant_key = ${keyOf('grant', grantId)} and model = ${this.#model}`,
    )
  }

  async #one(condition: Sql): Promise<AdapterPayload | undefined> {
    const row = await this.#system.row<{ sealed: Buffer }>(
      sql`select sealed from issuer_state where ${condition} and expires_at > now()`,
    )
    // The payload has no `consumed`, so that the provider always calls `consume`, which detects reuse.
    return row && openPayload(this.#secrets, row.sealed)
  }
}
