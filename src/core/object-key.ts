/** Names of buckets and objects: which are taken, and how the store keeps each key apart from every other. */

import { LIMITS } from './limits.ts'
import { Problem } from './problem.ts'

/** The platform's own: payloads of runs that are too large for Temporal. No workspace is given it. */
export const PAYLOAD_BUCKET = 'tenon-payloads'

/** S3's rule without dots; the endings are names that S3 clients give a meaning of their own. */
export const BUCKET_PATTERN = '^(?!.*(?:--[a-z0-9]+-s3|-s3alias)$)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$'
const BUCKET = new RegExp(BUCKET_PATTERN)

/** @throws Problem `InvalidBucketName` */
export function checkBucket(name: string): string {
  if (!BUCKET.test(name)) throw new Problem('InvalidBucketName')
  return name
}

// The tree behind the store folds `a//b` to `a/b` and `\` to `/`, keeps no content of what ends in `/`, and does not
// list what lies in folders of its own: keys that S3 keeps apart would overwrite each other, or be there unseen.
const BACKSLASH = '%5C'
const PERCENT = '%25'
/** Stands after a whole name that the tree would take for something else. */
const MARK = '%-'
const MARKED = /^$|^\.uploads$|\.versions$/

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
  return segments.map((name, index) => (index < last && MARKED.test(name) ? name + MARK : name)).join('/')
}

/** The caller's key of a stored one. */
export function givenKey(stored: string): string {
  const names = stored.split('/').map((name) => (name.endsWith(MARK) ? name.slice(0, -MARK.length) : name))
  return names.join('/').replaceAll(BACKSLASH, '\\').replaceAll(PERCENT, '%')
}

/** Whether it is the beginning of keys that ends at a slash, and has none of what no key has. */
export function isPrefix(text: string): boolean {
  return text.endsWith('/') && !text.startsWith('/') && faultOf(text) === undefined
}

function checkKey(key: string): void {
  const fault = faultOf(key)
  if (fault !== undefined) throw fault
}

/** Why it is no key; undefined if it is one. */
function faultOf(key: string): Problem | undefined {
  const bytes = Buffer.byteLength(key)
  if (bytes === 0) return invalid('It is empty.')
  if (bytes > LIMITS.objectKeyBytesMax) {
    return tooLong(`A key has at most ${LIMITS.objectKeyBytesMax} bytes of UTF-8; this one has ${bytes}.`)
  }
  if (/\p{Cc}|\p{Cs}/u.test(key)) return invalid('It holds a control character or half a surrogate.')
  if (key.split(/[/\\]/).some((segment) => segment === '.' || segment === '..')) {
    return invalid('`.` and `..` are not taken as parts of a key.')
  }
  return undefined
}

const invalid = (detail: string) => new Problem('InvalidKey', { detail })
const tooLong = (detail: string) => new Problem('KeyTooLongError', { detail })
