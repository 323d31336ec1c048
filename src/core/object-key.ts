/** Names of buckets and objects: which are taken, and how the store keeps each key apart from every other. */

import { LIMITS } from './limits.ts'
import { Problem } from './problem.ts'

/** S3's rule without dots; the endings are names that S3 clients give a meaning of their own. */
export const BUCKET_PATTERN = '^(?!.*(?:--[a-z0-9]+-s3|-s3alias)$)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$'
const BUCKET = new RegExp(BUCKET_PATTERN)

/** @throws Problem `InvalidBucketName` */
export function checkBucket(name: string): string {
  if (!BUCKET.test(name)) throw new Problem('InvalidBucketName')
  return name
}

// The tree behind the store folds `a//b` to `a/b` and `\` to `/`, keeps no content of what ends in `/`, and hides
// a first `.uploads`: keys that S3 keeps apart would overwrite each other. So those characters are escaped.
const EMPTY = '%-'
const BACKSLASH = '%5C'
const PERCENT = '%25'
const FIRST_DOT = '%2E'

/**
 * The key as the store keeps it: two keys never share one form.
 * @throws Problem `InvalidKey` or `KeyTooLongError`, before the store is asked
 */
export function storedKey(key: string): string {
  checkKey(key)
  const stored = storedPrefix(`${key}/`).slice(0, -1)
  const longest = Math.max(...stored.split('/').map((segment) => Buffer.byteLength(segment)))
  const max = LIMITS.objectKeySegmentBytesMax
  if (longest > max) {
    throw tooLong(`At most ${max} bytes are taken between two slashes, and % and \\ count as three.`)
  }
  return stored
}

/** The stored form of a prefix: `storedKey(key)` begins with it exactly where `key` begins with `prefix`. */
export function storedPrefix(prefix: string): string {
  const segments = prefix.replaceAll('%', PERCENT).replaceAll('\\', BACKSLASH).split('/')
  const last = segments.length - 1
  const stored = segments.map((segment, index) => (segment === '' && index < last ? EMPTY : segment))
  return stored.join('/').replace(/^\./, FIRST_DOT)
}

/** The caller's key of a stored one. */
export function givenKey(stored: string): string {
  const segments = stored.replace(/^%2E/, '.').split('/')
  return segments
    .map((segment) => (segment === EMPTY ? '' : segment.replaceAll(BACKSLASH, '\\').replaceAll(PERCENT, '%')))
    .join('/')
}

function checkKey(key: string): void {
  const bytes = Buffer.byteLength(key)
  if (bytes === 0) throw invalid('It is empty.')
  if (bytes > LIMITS.objectKeyBytesMax) {
    throw tooLong(`A key has at most ${LIMITS.objectKeyBytesMax} bytes of UTF-8; this one has ${bytes}.`)
  }
  if (/\p{Cc}|\p{Cs}/u.test(key)) throw invalid('It holds a control character or half a surrogate.')
  if (key.split(/[/\\]/).some((segment) => segment === '.' || segment === '..')) {
    throw invalid('`.` and `..` are not taken as parts of a key.')
  }
}

const invalid = (detail: string) => new Problem('InvalidKey', { detail })
const tooLong = (detail: string) => new Problem('KeyTooLongError', { detail })
