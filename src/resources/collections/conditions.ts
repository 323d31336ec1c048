/** Conditions of a change (RFC 9110 §13.1) as the versions of the document that they let through. */

import { tagsOf } from '../../core/etag.ts'

interface Conditions {
  readonly if_match?: string | undefined
  readonly if_none_match?: string | undefined
}

/**
 * Strong tags only: a tag that is not one of ours matches no version.
 * @returns undefined where any version will do
 */
export function versionsOf({ if_match, if_none_match }: Conditions): readonly number[] | undefined {
  // A change is of a document that is there, which is what `If-None-Match: *` excludes.
  if (if_none_match !== undefined && tagsOf(if_none_match) === '*') return []
  const tags = if_match === undefined ? '*' : tagsOf(if_match)
  return tags === '*' ? undefined : tags.flatMap(versionOf)
}

function versionOf(tag: string): number[] {
  const [, digits] = /^"v([0-9]{1,15})"$/.exec(tag) ?? []
  return digits === undefined ? [] : [Number(digits)]
}
