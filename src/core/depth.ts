/** How deep a JSON value goes. */

/** Whether a value is nested deeper than `limit`; the walk itself goes no deeper than that. */
export function deeper(value: unknown, limit: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (limit === 0) return true
  return Object.values(value).some((member) => deeper(member, limit - 1))
}
