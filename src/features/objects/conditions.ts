/** Preconditions and ranges of requests for objects (RFC 9110 §13, §14), decided by the entry of the catalogue. */

import { matches } from '../../core/etag.ts'
import { Problem } from '../../core/problem.ts'
import type { ByteRange } from './blobs.ts'
import type { CatalogueEntry } from './catalogue.ts'

/** Header values, as RFC 9110 writes them. */
export interface Conditions {
  readonly if_match?: string | undefined
  readonly if_none_match?: string | undefined
  readonly if_modified_since?: string | undefined
  readonly if_unmodified_since?: string | undefined
  readonly if_range?: string | undefined
  readonly range?: string | undefined
}

export const tagOf = ({ etag }: Pick<CatalogueEntry, 'etag'>): string => `"${etag}"`

/** The entity tag of what is kept with an object: it differs after each change, also of the metadata alone. */
export const versionTagOf = ({ version }: Pick<CatalogueEntry, 'version'>): string => `"${version}"`

/** HTTP dates have seconds (RFC 9110 §5.6.7). */
const dateOf = ({ modifiedMs }: CatalogueEntry): number => Math.floor(modifiedMs / 1_000) * 1_000

/**
 * Decides the conditions of a request that reads, in the order of RFC 9110 §13.2.2.
 * @returns false if the client has this version already: the status is 304
 * @throws Problem `PreconditionFailed`
 */
export function isToBeSent(conditions: Conditions, entry: CatalogueEntry): boolean {
  requireExpected(conditions, entry)
  const { if_none_match, if_modified_since } = conditions
  if (if_none_match !== undefined) return !matches(if_none_match, tagOf(entry), 'weak')
  const since = readDate(if_modified_since)
  return since === undefined || dateOf(entry) > since
}

/**
 * Decides the conditions of a change. `If-None-Match` fails for a version that it names; `*` for any.
 * @param entry undefined if there is no such object
 * @throws Problem `PreconditionFailed`
 */
export function requireChangeable(conditions: Conditions, entry: CatalogueEntry | undefined): void {
  requireExpected(conditions, entry)
  const { if_none_match } = conditions
  if (if_none_match === undefined || entry === undefined) return
  if (matches(if_none_match, tagOf(entry), 'weak'))
    throw new Problem('PreconditionFailed', {
      detail:
        if_none_match.trim() === '*'
          ? 'The object exists already.'
          : 'The object has an ETag that the condition excludes.',
    })
}

/**
 * Decides a change of what is kept with an object. The entity tag of the bytes would let two such changes lose one.
 * @throws Problem `PreconditionFailed`
 */
export function requireVersion(ifMatch: string | undefined, entry: CatalogueEntry): void {
  if (ifMatch === undefined || matches(ifMatch, versionTagOf(entry), 'strong')) return
  throw new Problem('PreconditionFailed', {
    detail: 'The object, its metadata or its tags have changed since the version of If-Match.',
    hint: 'Read GET /v1/buckets/{bucket}/object again, and send its ETag: that of the bytes is another one.',
  })
}

/** `If-Match`, or without it `If-Unmodified-Since` (steps 1 and 2). An object that does not exist was not modified. */
function requireExpected(
  { if_match, if_unmodified_since }: Conditions,
  entry: CatalogueEntry | undefined,
): void {
  if (if_match !== undefined) {
    if (entry !== undefined && matches(if_match, tagOf(entry), 'strong')) return
    throw new Problem('PreconditionFailed')
  }
  const date = readDate(if_unmodified_since)
  if (date === undefined || entry === undefined || dateOf(entry) <= date) return
  throw new Problem('PreconditionFailed', {
    detail: `The object has changed since ${new Date(date).toUTCString()}.`,
  })
}

/**
 * The range that is sent. `If-Range` must name this version: an ETag is compared strongly, a date exactly (RFC 9110 §13.1.5).
 * @returns undefined for the whole object: without a range, with several, with one of another unit or version, or a malformed one (§14.2)
 * @throws Problem `InvalidRange` if it begins behind the end of the object
 */
export function rangeOf({ range, if_range }: Conditions, entry: CatalogueEntry): ByteRange | undefined {
  const [, first = '', last = ''] = /^bytes=[ \t]*(\d*)-(\d*)[ \t]*$/i.exec(range ?? '') ?? []
  if (first === '' && last === '') return undefined
  if (if_range !== undefined && !isSameVersion(if_range, entry)) return undefined
  const end = entry.size - 1
  const found =
    first === ''
      ? { first: Math.max(entry.size - Number(last), 0), last: Number(last) === 0 ? -1 : end }
      : { first: Number(first), last: last === '' ? end : Math.min(Number(last), end) }
  if (first !== '' && last !== '' && Number(last) < Number(first)) return undefined
  if (found.first <= found.last) return found
  throw new Problem('InvalidRange', { headers: { 'content-range': `bytes */${entry.size}` } })
}

function isSameVersion(validator: string, entry: CatalogueEntry): boolean {
  if (validator.startsWith('"')) return validator === tagOf(entry)
  return readDate(validator) === dateOf(entry)
}

/** An HTTP date in milliseconds; undefined if it is absent or none, which RFC 9110 says to ignore. */
function readDate(text: string | undefined): number | undefined {
  const ms = text === undefined || !/\bGMT$/.test(text) ? Number.NaN : Date.parse(text)
  return Number.isNaN(ms) ? undefined : ms
}
