/** What the issuer keeps between two requests, in PostgreSQL, so that every API process knows it: never the ids. */

import { hash } from 'node:crypto'
import { type Adapter, type AdapterPayload, errors } from 'oidc-provider'
import type { Database } from '../pg/database.ts'
import { sql } from '../pg/sql.ts'
import type { Secrets } from '../secrets.ts'
import { SystemScope } from '../system.ts'

const PURPOSE = 'issuer-state'

interface StateRow {
  readonly sealed: Buffer
  readonly consumed_at: string | null
}

/** Opens the table for one kind of thing at a time, as the provider asks for it. */
export class IssuerState {
  readonly #system: SystemScope
  readonly #secrets: Secrets

  constructor(database: Database, secrets: Secrets) {
    this.#system = new SystemScope('issuer', database)
    this.#secrets = secrets
  }

  of(model: string): Adapter {
    return new ModelState(model, this.#system, this.#secrets)
  }
}

/** Ids are bearer secrets, a grant's and a session's too: the table has digests of them. */
const keyOf = (kind: string, id: string) => hash('sha256', `${kind}:${id}`, 'buffer')
const optionalKeyOf = (kind: string, id: string | undefined) => (id === undefined ? null : keyOf(kind, id))

/** A few at a time, with whatever is written. */
const FORGET_EXPIRED = sql`
  delete from issuer_state where ctid = any(array(
    select ctid from issuer_state where expires_at <= now() order by expires_at limit 20 for update skip locked))`

class ModelState implements Adapter {
  readonly #model: string
  readonly #system: SystemScope
  readonly #secrets: Secrets

  constructor(model: string, system: SystemScope, secrets: Secrets) {
    this.#model = model
    this.#system = system
    this.#secrets = secrets
  }

  async upsert(id: string, payload: AdapterPayload, expiresInSeconds: number): Promise<void> {
    const { uid, accountId, clientId } = payload
    // A grant belongs to its own family: whoever has a token of it has nothing when it is gone.
    const grantId = this.#model === 'Grant' ? id : payload.grantId
    const sealed = this.#secrets.seal(PURPOSE, Buffer.from(JSON.stringify(payload)))
    const upsert = sql`
      insert into issuer_state (id, model, grant_key, uid_key, account_id, client_id, sealed, expires_at)
      values (${keyOf(this.#model, id)}, ${this.#model}, ${optionalKeyOf('grant', grantId)},
        ${optionalKeyOf(`${this.#model}:uid`, uid)}, ${accountId ?? null}, ${clientId ?? null}, ${sealed},
        now() + make_interval(secs => ${expiresInSeconds}))
      on conflict (id) do update set grant_key = excluded.grant_key, uid_key = excluded.uid_key,
        account_id = excluded.account_id, client_id = excluded.client_id, sealed = excluded.sealed,
        expires_at = excluded.expires_at`
    await this.#system.batch(upsert, FORGET_EXPIRED)
  }

  async find(id: string): Promise<AdapterPayload | undefined> {
    return this.#opened(
      await this.#system.row<StateRow>(sql`
        select sealed, consumed_at from issuer_state
        where id = ${keyOf(this.#model, id)} and expires_at > now()`),
    )
  }

  async findByUid(uid: string): Promise<AdapterPayload | undefined> {
    return this.#opened(
      await this.#system.row<StateRow>(sql`
        select sealed, consumed_at from issuer_state
        where uid_key = ${keyOf(`${this.#model}:uid`, uid)} and model = ${this.#model} and expires_at > now()`),
    )
  }

  async findByUserCode(): Promise<undefined> {}

  /**
   * Of two at once one consumes it. The other has it twice, so the whole family goes (RFC 9700 §4.14.2).
   * @throws InvalidGrant for the other
   */
  async consume(id: string): Promise<void> {
    const key = keyOf(this.#model, id)
    const consumed = await this.#system.row<{ id: Buffer }>(
      sql`update issuer_state set consumed_at = now() where id = ${key} and consumed_at is null returning id`,
    )
    if (consumed !== undefined) return
    await this.#system.rows(
      sql`delete from issuer_state where grant_key = (select grant_key from issuer_state where id = ${key})`,
    )
    throw new errors.InvalidGrant('already used')
  }

  async destroy(id: string): Promise<void> {
    await this.#system.rows(sql`delete from issuer_state where id = ${keyOf(this.#model, id)}`)
  }

  async revokeByGrantId(grantId: string): Promise<void> {
    await this.#system.rows(
      sql`delete from issuer_state where grant_key = ${keyOf('grant', grantId)} and model = ${this.#model}`,
    )
  }

  #opened(row: StateRow | undefined): AdapterPayload | undefined {
    if (row === undefined) return undefined
    const payload = JSON.parse(this.#secrets.open(PURPOSE, row.sealed).toString()) as AdapterPayload
    const { consumed_at: consumedAt } = row
    return consumedAt === null
      ? payload
      : { ...payload, consumed: Math.floor(Date.parse(consumedAt) / 1_000) }
  }
}
