/** Entity tags in conditions (RFC 9110 §8.8.3, §13.1): lists are read, and tags compared, in one way. */

/** Commas and spaces may stand between tags in any number (§5.6.1.2). Sticky: no text is read twice. */
const SPACE = /[ \t,]*/y
const TAG = /(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"[ \t]*(?=,|$)/y

/**
 * The tags of `If-Match` or `If-None-Match`, each as it was sent: `"v1"`, `W/"v1"`.
 * @returns none where the list is malformed: such a condition names nothing
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
 * Whether a condition names the tag of what is there; `*` names whatever is there.
 * @param comparison `strong` for `If-Match`, where a weak tag equals nothing; `weak` for `If-None-Match` (§8.8.3.2)
 */
export function matches(list: string, tag: string, comparison: 'strong' | 'weak'): boolean {
  const tags = tagsOf(list)
  if (tags === '*') return true
  if (comparison === 'strong') return !tag.startsWith('W/') && tags.includes(tag)
  return tags.map(opaque).includes(opaque(tag))
}

const opaque = (tag: string) => tag.replace(/^W\//, '')
