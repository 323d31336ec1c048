/** Finds the webhook of a URL and verifies the signature of the delivery (Standard Webhooks 1.0), before the tenant is known. */

import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { LIMITS } from '../../../core/limits.ts'
import { isWorkspaceId, type TenantId, type WorkspaceId, type WorkspaceRef } from '../../../core/tenant.ts'
import { purposeIn, type Secrets } from '../../../infra/crypto/secrets.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { SystemScope } from '../../../infra/postgres/system-scope.ts'

/** A delivery with a verified signature. */
export interface VerifiedDelivery {
  readonly ref: WorkspaceRef
  readonly triggerId: string
  readonly signed: VerifiedHeaders
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

export class WebhookVerifier {
  readonly #system: SystemScope
  readonly #secrets: Secrets
  readonly #now: () => number
  /** A dummy secret, so that rejecting an unknown URL takes as long. */
  readonly #none = makeSecret()

  /** @param now milliseconds since the epoch; tests replace the clock */
  constructor(database: Database, secrets: Secrets, now: () => number = Date.now) {
    this.#system = new SystemScope('triggers', database)
    this.#secrets = secrets
    this.#now = now
  }

  /** @returns undefined if the workspace has no such webhook, or the signature is not valid now */
  async receive(ws: string, id: string, delivery: Delivery): Promise<VerifiedDelivery | undefined> {
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

  /** The secrets that are valid now. */
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

/** The encryption purpose of a webhook's secret. @param key of the trigger within its flow */
export const webhookPurpose = (flowId: string, key: string): string => `webhook:${flowId}:${key}`

/** A received delivery. */
export interface Delivery {
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, unknown>>
  /** The exact bytes, which the signature covers. */
  readonly body: Buffer
}

/** The verified id and time of a delivery. */
export interface VerifiedHeaders {
  /** Stable across repeated deliveries. */
  readonly id: string
  /** The time of this attempt. */
  readonly sentMs: number
}

const PREFIX = 'whsec_'
const SECRET_BYTES = 32
const MAC_BYTES = 32
/**
 * Without a full stop, the separator of the signed parts: otherwise id `a.1` at time 2 would have the signature of id `a` at
 * time 1 with a body that starts with `2.`.
 */
const ID = /^[!-\-/-~]{1,200}$/
const TIME = /^[0-9]{1,12}$/
const SIGNATURE = /^v1,([A-Za-z0-9+/]{43}=)$/
/** A sender that rotates its secret signs with both. */
const SIGNATURES_MAX = 8

/** A new secret: `whsec_` and 32 random bytes in base64. */
export function makeSecret(): string {
  return `${PREFIX}${randomBytes(SECRET_BYTES).toString('base64')}`
}

/** Computes the header `webhook-signature` of a body. */
export function sign(secret: string, id: string, sentSeconds: number, body: Buffer): string {
  return `v1,${computeMac(secret, id, String(sentSeconds), body).toString('base64')}`
}

/**
 * Verifies that the delivery is signed with one of the secrets, and that its time differs from our clock by at most
 * `webhookToleranceMs`. Takes constant time whichever secret matches, if any.
 * @returns undefined if the signature is missing or not valid
 */
export function verify(
  { headers, body }: Delivery,
  secrets: readonly string[],
  nowMs: number,
): VerifiedHeaders | undefined {
  const id = headers['webhook-id']
  const time = headers['webhook-timestamp']
  const signatures = headers['webhook-signature']
  if (typeof id !== 'string' || typeof time !== 'string' || typeof signatures !== 'string') return undefined
  if (!ID.test(id) || !TIME.test(time)) return undefined
  const given = signatures.split(' ').slice(0, SIGNATURES_MAX).map(parseMac)
  const wanted = secrets.map((secret) => computeMac(secret, id, time, body))
  const matches = wanted.flatMap((mac) => given.map((one) => timingSafeEqual(mac, one)))
  const sentMs = Number(time) * 1_000
  const isFresh = Math.abs(nowMs - sentMs) <= LIMITS.webhookToleranceMs
  return matches.includes(true) && isFresh ? { id, sentMs } : undefined
}

/** An invalid signature becomes zeros and is compared as well, for constant time. */
function parseMac(text: string): Buffer {
  const mac = SIGNATURE.exec(text)?.[1]
  return mac === undefined ? Buffer.alloc(MAC_BYTES) : Buffer.from(mac, 'base64')
}

function computeMac(secret: string, id: string, time: string, body: Buffer): Buffer {
  const key = Buffer.from(secret.slice(PREFIX.length), 'base64')
  return createHmac('sha256', key).update(`${id}.${time}.`).update(body).digest()
}
