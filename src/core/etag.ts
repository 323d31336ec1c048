/** Parses and compares entity tags of conditional requests (RFC 9110 §8.8.3, §13.1). */

/** Any number of commas and spaces may separate tags (§5.6.1.2). Sticky, so that no text is scanned twice. */
const SPACE = /[ \t,]*/y
const TAG = /(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"[ \t]*(?=,|$)/y

/**
 * The tags of `If-Match` or `If-None-Match`, each as sent: `"v1"`, `W/"v1"`.
 * @returns an empty list if it is malformed
 */
export function tagsOf(list: string): '*' | readonly string[] {
  if (list.trim() === '*') return '*'
  const tags: string[] = []
  for (let at = skip(list, 0); at < list.length; at = skip(list, at)) {
    TAG.lastIndex = at
    const [tag] = TAG.exec(list) ?? []
    if (tag === undefined) return []
    tags.push(tag.trimEnd())
    at += tag.length
  }
  return tags
}

function skip(list: string, at: number): number {
  SPACE.lastIndex = at
  return at + (SPACE.exec(list)?.[0].length ?? 0)
}

/**
 * True if a condition contains the tag of the current representation; `*` matches any.
 * @param comparison `strong` for `If-Match`, where a weak tag never matches; `weak` for `If-None-Match` (§8.8.3.2)
 */
export function matches(list: string, tag: string, comparison: 'strong' | 'weak'): boolean {
  const tags = tagsOf(list)
  if (tags === '*') return true
  if (comparison === 'strong') return !tag.startsWith('W/') && tags.includes(tag)
  return tags.map(opaque).includes(opaque(tag))
}

const opaque = (tag: string) => tag.replace(/^W\//, '')
