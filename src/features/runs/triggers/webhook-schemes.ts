/**
 * Verifies deliveries by the schemes of their senders: GitHub, Stripe, Slack, Shopify, Twilio, an HMAC that the target
 * describes, or a token. Comparisons take the same time whichever secret matches, if any.
 */

import { createHmac, hash, randomUUID, timingSafeEqual } from 'node:crypto'
import type { WebhookVerification } from '../../../../flows-dsl/ir.ts'
import { TRIGGER_LIMITS } from './limits.ts'
import { type Delivery, isDeliveryId, type VerifiedHeaders, verify } from './standard-webhooks.ts'

/** The result of a scheme if a secret matches; `sentMs` only if the signature covers a time. */
interface Verified {
  readonly id: string
  readonly sentMs?: number
}

type Scheme<Verification = WebhookVerification> = (
  delivery: Delivery,
  secrets: readonly string[],
  verification: Verification,
) => Verified | undefined

/** A header may contain several signatures, for example while the sender rotates its secret. */
const SIGNATURES_MAX = 8

/**
 * Verifies a delivery. The id is the same for each attempt and for a replay, so that a replay starts nothing: it derives from
 * what the signature covers. A token covers nothing; then a header of the sender names the delivery.
 * @returns undefined if no secret matches, or its signed time differs from our clock by more than `webhookToleranceMs`
 */
export function verifyDelivery(
  verification: WebhookVerification | undefined,
  delivery: Delivery,
  secrets: readonly string[],
  nowMs: number,
): VerifiedHeaders | undefined {
  if (verification === undefined) return verify(delivery, secrets, nowMs)
  const verified =
    verification.scheme === 'hmac'
      ? hmac(delivery, secrets, verification)
      : SCHEMES[verification.scheme](delivery, secrets, verification)
  if (verified === undefined) return undefined
  const { id, sentMs = nowMs } = verified
  return Math.abs(nowMs - sentMs) <= TRIGGER_LIMITS.webhookToleranceMs ? { id, sentMs } : undefined
}

/** https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries */
const github: Scheme = (delivery, secrets) => {
  const signature = headerOf(delivery, 'x-hub-signature-256')
  const isValid = matches([signature], secrets, (secret) => `sha256=${mac(secret, delivery.body)}`)
  // `x-github-delivery` is not signed: with another one, a replay would start a second execution.
  return isValid ? { id: digestOf(delivery.body) } : undefined
}

/** https://docs.stripe.com/webhooks#verify-manually */
const stripe: Scheme = (delivery, secrets) => {
  const parts = headerOf(delivery, 'stripe-signature').split(',')
  const valuesOf = (name: string) =>
    parts.flatMap((part) => (part.startsWith(`${name}=`) ? [part.slice(name.length + 1)] : []))
  const [time = ''] = valuesOf('t')
  const signatures = valuesOf('v1').slice(0, SIGNATURES_MAX)
  const isValid = matches(signatures, secrets, (secret) => mac(secret, `${time}.`, delivery.body))
  return isValid ? timed(time, memberOf(delivery.body, 'id'), delivery) : undefined
}

/** https://docs.slack.dev/authentication/verifying-requests-from-slack */
const slack: Scheme = (delivery, secrets) => {
  const time = headerOf(delivery, 'x-slack-request-timestamp')
  const signature = headerOf(delivery, 'x-slack-signature')
  const isValid = matches([signature], secrets, (secret) => `v0=${mac(secret, `v0:${time}:`, delivery.body)}`)
  return isValid ? timed(time, memberOf(delivery.body, 'event_id'), delivery) : undefined
}

/** https://shopify.dev/docs/apps/build/webhooks/subscribe/https */
const shopify: Scheme = (delivery, secrets) => {
  const signature = headerOf(delivery, 'x-shopify-hmac-sha256')
  const isValid = matches([signature], secrets, (secret) =>
    macOf('sha256', secret, delivery.body).toString('base64'),
  )
  return isValid ? { id: digestOf(delivery.body) } : undefined
}

/** https://www.twilio.com/docs/usage/security#validating-requests */
const twilio: Scheme = ({ headers, body, url }, secrets) => {
  const signature = headerOf({ headers }, 'x-twilio-signature')
  const isForm = headerOf({ headers }, 'content-type').startsWith('application/x-www-form-urlencoded')
  // The signature of another body covers its hash, which is in the URL.
  const hasBodyHash =
    isForm || body.length === 0 || isEqual(parameterOf(url, 'bodySHA256'), hash('sha256', body))
  const signed = url + (isForm ? twilioParameters(body) : '')
  const isValid = matches([signature], secrets, (secret) => macOf('sha1', secret, signed).toString('base64'))
  return isValid && hasBodyHash ? { id: digestOf(Buffer.from(signed)) } : undefined
}

/** Names and values in the order of names, without separators; a name with several values repeats. */
function twilioParameters(body: Buffer): string {
  const parameters = new URLSearchParams(body.toString())
  const names = [...new Set(parameters.keys())].toSorted()
  return names
    .flatMap((name) => [...new Set(parameters.getAll(name))].toSorted().map((value) => name + value))
    .join('')
}

const hmac: Scheme<Extract<WebhookVerification, { scheme: 'hmac' }>> = (delivery, secrets, verification) => {
  const { header, algorithm, encoding, prefix = '' } = verification
  const text = headerOf(delivery, header)
  const signature = encoding === 'hex' ? prefix + text.slice(prefix.length).toLowerCase() : text
  const isPrefixed = text.startsWith(prefix)
  const isValid = matches(
    [signature],
    secrets,
    (secret) => prefix + macOf(algorithm, secret, delivery.body).toString(encoding),
  )
  return isValid && isPrefixed ? { id: digestOf(delivery.body) } : undefined
}

const bearer: Scheme = (delivery, secrets) => {
  const credential = headerOf(delivery, 'authorization')
  return matches([credential], secrets, (secret) => `Bearer ${secret}`) ? unsigned(delivery) : undefined
}

const url: Scheme = (delivery, secrets) => {
  const token = parameterOf(delivery.url, TOKEN_PARAMETER)
  return matches([token], secrets, (secret) => secret) ? unsigned(delivery) : undefined
}

/** The query parameter with the secret of a webhook whose URL is secret. */
export const TOKEN_PARAMETER = 'token'

const SCHEMES: Readonly<Record<Exclude<WebhookVerification['scheme'], 'hmac'>, Scheme>> = {
  github,
  stripe,
  slack,
  shopify,
  twilio,
  bearer,
  url,
}

const parameterOf = (address: string, name: string): string => new URL(address).searchParams.get(name) ?? ''

/** Compares each received text with the expected one of each secret, without an early end. */
function matches(
  received: readonly string[],
  secrets: readonly string[],
  expected: (secret: string) => string,
): boolean {
  const results = secrets.map(expected).flatMap((wanted) => received.map((one) => isEqual(one, wanted)))
  return results.includes(true)
}

/** Constant time also for texts of different lengths, since their hashes are compared. */
const isEqual = (one: string, other: string): boolean =>
  timingSafeEqual(hash('sha256', one, 'buffer'), hash('sha256', other, 'buffer'))

function macOf(algorithm: string, secret: string, ...parts: readonly (string | Buffer)[]): Buffer {
  const made = createHmac(algorithm, secret)
  for (const part of parts) made.update(part)
  return made.digest()
}

const mac = (secret: string, ...parts: readonly (string | Buffer)[]): string =>
  macOf('sha256', secret, ...parts).toString('hex')

function headerOf({ headers }: Pick<Delivery, 'headers'>, name: string): string {
  const value = headers[name]
  return typeof value === 'string' ? value : ''
}

const digestOf = (body: Buffer): string => `sha256:${hash('sha256', body)}`

/** A delivery with a signed time in seconds. Its id is one that its body names, else it derives from time and body. */
function timed(time: string, id: string | undefined, { body }: Delivery): Verified | undefined {
  if (!/^[0-9]{1,12}$/.test(time)) return undefined
  return { id: id ?? digestOf(Buffer.concat([Buffer.from(`${time}.`), body])), sentMs: Number(time) * 1_000 }
}

/** A token proves the sender and nothing else: without an id of the sender's, each delivery is another one. */
function unsigned(delivery: Delivery): Verified {
  return { id: ownIdOf(delivery, ['webhook-id', 'idempotency-key']) ?? randomUUID() }
}

function ownIdOf(delivery: Delivery, names: readonly string[]): string | undefined {
  return names.map((name) => headerOf(delivery, name)).find(isDeliveryId)
}

/** A member of a JSON body that can be the id of a delivery. */
function memberOf(body: Buffer, name: string): string | undefined {
  try {
    const value = (JSON.parse(body.toString()) as Record<string, unknown> | null)?.[name]
    return typeof value === 'string' && isDeliveryId(value) ? value : undefined
  } catch {
    return undefined
  }
}
