/** Finds the webhook of an address and verifies the delivery's signature (Standard Webhooks 1.0), before any tenant is known. */

import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { LIMITS } from '../../../core/limits.ts'
import { isWorkspaceId, type TenantId, type WorkspaceId, type WorkspaceRef } from '../../../core/tenant.ts'
import { purposeIn, type Secrets } from '../../../infra/crypto/secrets.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { SystemScope } from '../../../infra/postgres/system-scope.ts'

/** A delivery with a verified signature. */
export interface Received {
  readonly ref: WorkspaceRef
  readonly triggerId: string
  readonly signed: Signed
}

interface SecretRow {
  readonly tenant_id: TenantId
  readonly workspace_id: WorkspaceId
  readonly id: string
  readonly flow_id: string
  readonly key: string
  readonly sealed: Buffer
  readonly previous: Buffer | null
  readonly previous_until: string | null
}

export class Webhooks {
  readonly #system: SystemScope
  readonly #secrets: Secrets
  readonly #now: () => number
  /** A secret of no webhook, so that an unknown address takes as long to reject. */
  readonly #none = makeSecret()

  /** @param now milliseconds since the epoch; tests have a clock of their own */
  constructor(database: Database, secrets: Secrets, now: () => number = Date.now) {
    this.#system = new SystemScope('triggers', database)
    this.#secrets = secrets
    this.#now = now
  }

  /** @returns undefined where there is no such webhook in that workspace, or it has not signed this, or not now */
  async receive(ws: string, id: string, delivery: Delivery): Promise<Received | undefined> {
    const row = isWorkspaceId(ws) ? await this.#find(ws, id) : undefined
    const nowMs = this.#now()
    const signed = verify(delivery, row === undefined ? [this.#none] : this.#open(row, nowMs), nowMs)
    if (row === undefined || signed === undefined) return undefined
    return { ref: refOf(row), triggerId: row.id, signed }
  }

  #find(ws: WorkspaceId, id: string): Promise<SecretRow | undefined> {
    return this.#system.row<SecretRow>(sql`
      select t.tenant_id, t.workspace_id, t.id, t.flow_id, t.key, s.sealed, s.previous, s.previous_until
      from flow_triggers t join webhook_secrets s
        on s.tenant_id = t.tenant_id and s.workspace_id = t.workspace_id and s.trigger_id = t.id
      where t.workspace_id = ${ws} and t.id = ${id} and t.kind = 'webhook'`)
  }

  /** The secrets that count at this moment. */
  #open(row: SecretRow, nowMs: number): string[] {
    const { sealed, previous, previous_until: until } = row
    const both = previous !== null && until !== null && nowMs <= Date.parse(until)
    const purpose = purposeIn(refOf(row), webhookPurpose(row.flow_id, row.key))
    return [sealed, ...(both ? [previous] : [])].map((one) => this.#secrets.open(purpose, one).toString())
  }
}

const refOf = ({ tenant_id, workspace_id }: SecretRow): WorkspaceRef => ({
  tenantId: tenant_id,
  workspaceId: workspace_id,
})

/** The purpose that a webhook's secret is encrypted for. @param key of the trigger within its flow */
export const webhookPurpose = (flowId: string, key: string): string => `webhook:${flowId}:${key}`

/** A delivery as it came. */
export interface Delivery {
  /** Headers by their names in small letters. */
  readonly headers: Readonly<Record<string, unknown>>
  /** Not one byte changed: it is what was signed. */
  readonly body: Buffer
}

/** The verified id and time of a delivery. */
export interface Signed {
  /** The same each time that the sender sends it again. */
  readonly id: string
  /** When this attempt was sent. */
  readonly sentMs: number
}

const PREFIX = 'whsec_'
const SECRET_BYTES = 32
const MAC_BYTES = 32
/**
 * Without a full stop, which stands between the parts that are signed: `a.1` sent at 2 would else have the signature
 * of `a` sent at 1 with a body that begins with `2.`.
 */
const ID = /^[!-\-/-~]{1,200}$/
const TIME = /^[0-9]{1,12}$/
const SIGNATURE = /^v1,([A-Za-z0-9+/]{43}=)$/
/** A sender that changes its secret signs twice. */
const SIGNATURES_MAX = 8

/** A new secret: `whsec_` and 32 random bytes in base64. */
export function makeSecret(): string {
  return `${PREFIX}${randomBytes(SECRET_BYTES).toString('base64')}`
}

/** The header `webhook-signature` for a body. */
export function sign(secret: string, id: string, sentSeconds: number, body: Buffer): string {
  return `v1,${macOf(secret, id, String(sentSeconds), body).toString('base64')}`
}

/**
 * Verifies that one of the secrets has signed the delivery, and that it differs from our clock by no more than
 * `webhookToleranceMs`. It takes as long whichever secret it was, and whether it was any.
 * @returns undefined where it is not, or not signed at all
 */
export function verify(
  { headers, body }: Delivery,
  secrets: readonly string[],
  nowMs: number,
): Signed | undefined {
  const id = headers['webhook-id']
  const time = headers['webhook-timestamp']
  const signatures = headers['webhook-signature']
  if (typeof id !== 'string' || typeof time !== 'string' || typeof signatures !== 'string') return undefined
  if (!ID.test(id) || !TIME.test(time)) return undefined
  const given = signatures.split(' ').slice(0, SIGNATURES_MAX).map(macIn)
  const wanted = secrets.map((secret) => macOf(secret, id, time, body))
  const matches = wanted.flatMap((mac) => given.map((one) => timingSafeEqual(mac, one)))
  const sentMs = Number(time) * 1_000
  const isFresh = Math.abs(nowMs - sentMs) <= LIMITS.webhookToleranceMs
  return matches.includes(true) && isFresh ? { id, sentMs } : undefined
}

/** An invalid signature becomes zeros and is compared as well, so that it takes as long. */
function macIn(text: string): Buffer {
  const mac = SIGNATURE.exec(text)?.[1]
  return mac === undefined ? Buffer.alloc(MAC_BYTES) : Buffer.from(mac, 'base64')
}

function macOf(secret: string, id: string, time: string, body: Buffer): Buffer {
  const key = Buffer.from(secret.slice(PREFIX.length), 'base64')
  return createHmac('sha256', key).update(`${id}.${time}.`).update(body).digest()
}
