/** JSON Merge Patch (RFC 7396). */

type Members = Record<string, unknown>

const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** What the target becomes; neither is changed. @param patch no deeper than a document may be */
export function mergePatch(target: Members, patch: Members): Members {
  const merged = new Map(Object.entries(target))
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) merged.delete(name)
    else merged.set(name, isObject(value) ? mergePatch(membersOf(merged.get(name)), value) : value)
  }
  // Entries become own members whatever their name, `__proto__` too.
  return Object.fromEntries(merged)
}

const membersOf = (value: unknown): Members => (isObject(value) ? value : {})
