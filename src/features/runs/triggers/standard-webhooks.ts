/** Signatures of deliveries according to Standard Webhooks 1.0, and what other schemes share with them. */

import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { Problem } from '../../../core/problem.ts'
import { TRIGGER_LIMITS } from './limits.ts'

/** The encryption purpose of a webhook's secret. @param key of the trigger within its target */
export const webhookPurpose = (targetId: string, key: string): string => `webhook:${targetId}:${key}`

/** A received delivery. */
export interface Delivery {
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, unknown>>
  /** The exact bytes, which the signature covers. */
  readonly body: Buffer
  /** The public URL to which it was sent, with its query as it was sent. */
  readonly url: string
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
/** True for a text that can be the id of a delivery. */
export const isDeliveryId = (text: string): boolean => ID.test(text)

const TIME = /^[0-9]{1,12}$/
const SIGNATURE = /^v1,([A-Za-z0-9+/]{43}=)$/
/** A sender that rotates its secret signs with both. */
const SIGNATURES_MAX = 8

/** A new secret: `whsec_` and 32 random bytes in base64. */
export function makeSecret(): string {
  return `${PREFIX}${randomBytes(SECRET_BYTES).toString('base64')}`
}

/** @throws Problem `validation_failed` if the text is no secret of Standard Webhooks: `whsec_` and 24 to 64 bytes in base64 */
export function checkSecret(text: string): void {
  const bytes = Buffer.from(text.slice(PREFIX.length), 'base64')
  const isValid = text === `${PREFIX}${bytes.toString('base64')}` && bytes.length >= 24 && bytes.length <= 64
  if (isValid) return
  const detail = '`secret` of a Standard Webhook is `whsec_` and 24 to 64 bytes in base64.'
  throw new Problem('validation_failed', { detail })
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
  { headers, body }: Pick<Delivery, 'headers' | 'body'>,
  secrets: readonly string[],
  nowMs: number,
): VerifiedHeaders | undefined {
  const id = headers['webhook-id']
  const time = headers['webhook-timestamp']
  const signatures = headers['webhook-signature']
  if (typeof id !== 'string' || typeof time !== 'string' || typeof signatures !== 'string') return undefined
  if (!ID.test(id) || !TIME.test(time)) return undefined
  const received = signatures.split(' ').slice(0, SIGNATURES_MAX).map(parseMac)
  const wanted = secrets.map((secret) => computeMac(secret, id, time, body))
  const matches = wanted.flatMap((mac) => received.map((one) => timingSafeEqual(mac, one)))
  const sentMs = Number(time) * 1_000
  const isFresh = Math.abs(nowMs - sentMs) <= TRIGGER_LIMITS.webhookToleranceMs
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
