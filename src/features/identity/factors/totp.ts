/** Time-based one-time passwords (RFC 6238) as authenticator apps make them: SHA-1, 30 s, 6 digits; and recovery codes. */

import { createHmac, randomBytes } from 'node:crypto'
import { Secret, TOTP } from 'otpauth'

const PARAMETERS = { algorithm: 'SHA1', digits: 6, period: 30 } as const

/** RFC 4226 §4: at least 128 bits, 160 recommended. */
const SECRET_BYTES = 20

/** Steps of tolerance before and after the current one, for clocks that differ (RFC 6238 §5.2). */
const WINDOW = 1

const RECOVERY_CODES = 10

/** In a recovery code: 50 bits. */
const RECOVERY_CHARS = 10

/** Of base32 (RFC 4648): without 0 and 1, which look like letters. */
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567'

/** A new secret, in base32. */
export const newTotpSecret = (): string => new Secret({ size: SECRET_BYTES }).base32

/** The `otpauth://` link that authenticator apps open. @param issuer the name of the application @param label the account */
export const totpLink = (secret: string, issuer: string, label: string): string =>
  // The format separates the two names by a colon.
  new TOTP({ ...PARAMETERS, secret, issuer: issuer.replaceAll(':', ' '), label }).toString()

/**
 * The time step that a code belongs to, among the present one and its neighbours.
 * @param secret in base32 @param nowMs since 1970
 * @returns undefined if the code is wrong
 */
export function totpStep(secret: string, code: string, nowMs = Date.now()): number | undefined {
  if (!isTotpCode(code)) return undefined
  const config = { ...PARAMETERS, secret: Secret.fromBase32(secret) }
  const delta = TOTP.validate({ ...config, token: code, window: WINDOW, timestamp: nowMs })
  return delta === null ? undefined : TOTP.counter({ period: PARAMETERS.period, timestamp: nowMs }) + delta
}

/** True for a text that may be a code of an authenticator app, not a recovery code. */
export const isTotpCode = (text: string): boolean => /^\d{6}$/.test(text)

/** Removes what people add to codes: spaces, hyphens and capitals. */
export const normalizeCode = (text: string): string => text.replaceAll(/[\s-]/g, '').toLowerCase()

/** New recovery codes, normalized. */
export function newRecoveryCodes(): string[] {
  const code = () =>
    Array.from(randomBytes(RECOVERY_CHARS), (byte) => ALPHABET[byte % ALPHABET.length]).join('')
  return Array.from({ length: RECOVERY_CODES }, code)
}

/** A keyed digest: without the key, a leaked table reveals no code. @param key of the user @param code normalized */
export const recoveryDigest = (key: string, userId: string, code: string): string =>
  createHmac('sha256', key).update(`${userId}:${code}`).digest('base64url')
