/**
 * Signatures of webhooks (Standard Webhooks 1.0): HMAC-SHA256 over id, time and the bytes of the body. The library of the
 * project tests this; it verifies by its own clock, one secret, and a body that is text.
 */

import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { LIMITS } from '../../core/limits.ts'

/** A delivery as it came. */
export interface Delivery {
  /** Headers by their names in small letters. */
  readonly headers: Readonly<Record<string, unknown>>
  /** Not one byte changed: it is what was signed. */
  readonly body: Buffer
}

/** What the sender has signed. */
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
 * What is signed, if one of the secrets has signed it and it is no older, and no more ahead of our clock, than
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

/** What is no signature of this version is compared as well, and is equal to none. */
function macIn(text: string): Buffer {
  const mac = SIGNATURE.exec(text)?.[1]
  return mac === undefined ? Buffer.alloc(MAC_BYTES) : Buffer.from(mac, 'base64')
}

function macOf(secret: string, id: string, time: string, body: Buffer): Buffer {
  const key = Buffer.from(secret.slice(PREFIX.length), 'base64')
  return createHmac('sha256', key).update(`${id}.${time}.`).update(body).digest()
}
