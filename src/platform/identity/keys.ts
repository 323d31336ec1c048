/** The form of API keys: `svc_anon_` or `svc_service_`, 32 random bytes, and a checksum that catches typos. */

import { hash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

export type KeyKind = 'anon' | 'service'

const FORM = /^svc_(anon|service)_([A-Za-z0-9_-]{43})([0-9a-f]{8})$/

/** A new key's text. It is shown once; what stays is its {@link keyHash}. */
export function makeKey(kind: KeyKind): string {
  const secret = randomBytes(32).toString('base64url')
  return `svc_${kind}_${secret}${checksum(kind, secret)}`
}

/** The kind where the text has the form of a key and its checksum holds; else undefined. */
export function keyKind(text: string): KeyKind | undefined {
  const [, kind, secret = '', sum] = FORM.exec(text) ?? []
  if (kind !== 'anon' && kind !== 'service') return undefined
  return sum === checksum(kind, secret) ? kind : undefined
}

/** SHA-256: the key holds 256 random bits, so nothing slower is needed. */
export function keyHash(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}

function checksum(kind: KeyKind, secret: string): string {
  return crc32(`${kind}:${secret}`).toString(16).padStart(8, '0')
}
