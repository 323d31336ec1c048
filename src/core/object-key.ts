/** Validates names of buckets and keys of objects. */

import { CORE_LIMITS } from './limits.ts'
import { Problem } from './problem.ts'

/** The platform's bucket for payloads that are too large for Temporal. No workspace gets it. */
export const PAYLOAD_BUCKET = 'tenon-payloads'

/** The rule of S3 without dots and without suffixes that S3 clients interpret. */
export const BUCKET_PATTERN = '^(?!.*(?:--[a-z0-9]+-s3|-s3alias)$)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$'
const BUCKET = new RegExp(BUCKET_PATTERN)

/** @throws Problem `InvalidBucketName` */
export function checkBucket(name: string): string {
  if (!BUCKET.test(name)) throw new Problem('InvalidBucketName')
  return name
}

/**
 * @returns the key
 * @throws Problem `InvalidKey` or `KeyTooLongError`
 */
export function checkKey(key: string): string {
  const fault = faultOf(key)
  if (fault !== undefined) throw fault
  return key
}

/** True for a prefix of keys that a rule may name: readable, and with a slash at its end. */
export function isPrefix(text: string): boolean {
  return text.endsWith('/') && !text.startsWith('/') && !/\p{Cc}/u.test(text) && faultOf(text) === undefined
}

/** The reason why a key is invalid; undefined if it is valid. */
function faultOf(key: string): Problem | undefined {
  const bytes = Buffer.byteLength(key)
  if (bytes === 0) return invalid('The key is empty.')
  if (bytes > CORE_LIMITS.objectKeyBytesMax) {
    return tooLong(
      `A key has at most ${CORE_LIMITS.objectKeyBytesMax} bytes of UTF-8; this one has ${bytes}.`,
    )
  }
  if (/\0|\p{Cs}/u.test(key)) return invalid('The key contains NUL or an unpaired surrogate.')
  // Clients and proxies resolve them in URLs (RFC 3986 §5.2.4), some of them also between backslashes.
  if (key.split(/[/\\]/).some((segment) => segment === '.' || segment === '..')) {
    return invalid('A key cannot have `.` or `..` as a part.')
  }
  return undefined
}

const invalid = (detail: string) => new Problem('InvalidKey', { detail })
const tooLong = (detail: string) => new Problem('KeyTooLongError', { detail })
