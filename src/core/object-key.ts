/** Validates names of buckets and keys of objects, and maps keys to distinct paths of the object store. */

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

// The object store normalises `a//b` to `a/b` and `\` to `/`, stores no content under keys that end in `/`, and does not
// list its internal folders. Without a mapping, distinct S3 keys would overwrite each other or be invisible.
const BACKSLASH = '%5C'
const PERCENT = '%25'
/** Suffix of a path segment that the object store would interpret. */
const MARK = '%-'
const MARKED = /^$|^\.uploads$|\.versions$/

/**
 * The stored form of a key; distinct keys have distinct forms.
 * @throws Problem `InvalidKey` or `KeyTooLongError`
 */
export function storedKey(key: string): string {
  const fault = faultOf(key)
  if (fault !== undefined) throw fault
  const stored = storedPrefix(`${key}/`).slice(0, -1)
  const longest = Math.max(...stored.split('/').map((segment) => Buffer.byteLength(segment)))
  const max = CORE_LIMITS.objectKeySegmentBytesMax
  if (longest > max) {
    throw tooLong(`At most ${max} bytes are taken between two slashes, and % and \\ count as three.`)
  }
  return stored
}

/** The stored form of a prefix: `storedKey(key)` starts with it if and only if `key` starts with `prefix`. */
export function storedPrefix(prefix: string): string {
  const segments = prefix.replaceAll('%', PERCENT).replaceAll('\\', BACKSLASH).split('/')
  const last = segments.length - 1
  return segments.map((name, index) => (index < last && MARKED.test(name) ? name + MARK : name)).join('/')
}

/** The caller's key of a stored one. */
export function givenKey(stored: string): string {
  const names = stored.split('/').map((name) => (name.endsWith(MARK) ? name.slice(0, -MARK.length) : name))
  return names.join('/').replaceAll(BACKSLASH, '\\').replaceAll(PERCENT, '%')
}

/** True for a valid prefix of keys that ends with a slash. */
export function isPrefix(text: string): boolean {
  return text.endsWith('/') && !text.startsWith('/') && faultOf(text) === undefined
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
  if (/\p{Cc}|\p{Cs}/u.test(key))
    return invalid('The key contains a control character or an unpaired surrogate.')
  if (key.split(/[/\\]/).some((segment) => segment === '.' || segment === '..')) {
    return invalid('A key cannot have `.` or `..` as a part.')
  }
  return undefined
}

const invalid = (detail: string) => new Problem('InvalidKey', { detail })
const tooLong = (detail: string) => new Problem('KeyTooLongError', { detail })
