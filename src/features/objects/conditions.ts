/** Preconditions and ranges of requests for objects (RFC 9110 §13, §14), as the store gets them. */

import { matches } from '../../core/etag.ts'
import { Problem } from '../../core/problem.ts'

/** Header values, as RFC 9110 writes them. */
export interface Conditions {
  readonly if_match?: string | undefined
  readonly if_none_match?: string | undefined
  readonly if_modified_since?: string | undefined
  readonly if_unmodified_since?: string | undefined
  readonly if_range?: string | undefined
  readonly range?: string | undefined
}

/** The facts that the store has of the object of a condition. */
export interface Validators {
  readonly ETag?: string | undefined
  readonly LastModified?: Date | undefined
}

/**
 * Conditions of GET and HEAD. `If-None-Match` is compared weakly (RFC 9110 §13.1.2): a proxy that compresses sends `W/"…"`. With
 * it, or with an invalid date, `If-Modified-Since` does not count (§13.1.3); `If-Match` likewise (§13.1.4).
 */
export function readConditions({
  if_match,
  if_none_match,
  if_modified_since,
  if_unmodified_since,
  range,
}: Conditions) {
  const since = if_none_match === undefined ? dateOf(if_modified_since) : undefined
  const unmodified = if_match === undefined ? dateOf(if_unmodified_since) : undefined
  return {
    ...(if_match !== undefined && { IfMatch: if_match }),
    ...(if_none_match !== undefined && { IfNoneMatch: if_none_match.replaceAll(/\bW\/(?=")/g, '') }),
    ...(since !== undefined && { IfModifiedSince: since }),
    ...(unmodified !== undefined && { IfUnmodifiedSince: unmodified }),
    ...(range !== undefined && { Range: bounded(range) }),
  }
}

/** A position beyond every object (RFC 9110 §14.1.1 has no limit) as the end, since stores read it into 64 bits. */
const bounded = (range: string): string =>
  range.replace(/^(bytes=)(\d*)-\d{16,}$/, (_, unit, first) => `${unit}${first || 0}-`)

/**
 * True if the range of `If-Range` is of this version: the ETag is compared strongly, a date exactly (RFC 9110 §13.1.5).
 * @param validator the value of `If-Range`
 */
export function isSameVersion(validator: string, { ETag, LastModified }: Validators): boolean {
  if (validator.startsWith('"')) return validator === ETag
  const date = dateOf(validator)
  return date !== undefined && date.getTime() === LastModified?.getTime()
}

/** True if the version is one that `If-Match`, or without it `If-Unmodified-Since`, asks for (RFC 9110 §13.2.2, steps 1 and 2). */
export function isExpectedVersion(
  { if_match, if_unmodified_since }: Conditions,
  { ETag, LastModified }: Validators,
): boolean {
  if (if_match !== undefined) return ETag !== undefined && matches(if_match, ETag, 'strong')
  const date = dateOf(if_unmodified_since)
  return date === undefined || (LastModified?.getTime() ?? 0) <= date.getTime()
}

/**
 * The condition of a change, which the store checks as it makes it.
 * @param known what the store has now; undefined if there is no object; a Problem if the store did not answer
 * @throws Problem `PreconditionFailed`; `known`, if it is a Problem and its date is needed
 */
export function writeConditions(
  { if_match, if_none_match, if_unmodified_since }: Conditions,
  known: Validators | Problem | undefined,
): { IfMatch?: string; IfNoneMatch?: string } {
  const date = if_match === undefined ? dateOf(if_unmodified_since) : undefined
  if (date === undefined) return conditionOf(if_match, if_none_match)
  if (known instanceof Problem) throw known
  if (!isExpectedVersion({ if_unmodified_since }, known ?? {}))
    throw new Problem('PreconditionFailed', { detail: `The object has changed since ${date.toUTCString()}.` })
  // Only the state that the date was compared with may be changed: that version, or still no object.
  return known?.ETag === undefined ? { IfNoneMatch: '*' } : conditionOf(known.ETag, if_none_match)
}

const conditionOf = (match: string | undefined, noneMatch: string | undefined) => ({
  ...(match !== undefined && { IfMatch: match }),
  ...(noneMatch !== undefined && { IfNoneMatch: noneMatch }),
})

/** An HTTP date; undefined if it is absent or none, which RFC 9110 says to ignore. */
function dateOf(text: string | undefined): Date | undefined {
  const ms = text === undefined || !/\bGMT$/.test(text) ? Number.NaN : Date.parse(text)
  return Number.isNaN(ms) ? undefined : new Date(ms)
}
