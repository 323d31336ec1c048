/** One text for equal JSON values. */

/** JSON without spaces, members in code unit order (as RFC 8785 has it). The depth is the caller's to bound. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item ?? null)).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  let members = ''
  for (const name of Object.keys(value).sort()) {
    const member = (value as Record<string, unknown>)[name]
    if (member !== undefined)
      members += `${members === '' ? '' : ','}${JSON.stringify(name)}:${canonical(member)}`
  }
  return `{${members}}`
}
