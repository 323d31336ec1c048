/** Knows the names of time zones, from the tables of the machine that compiles: never a part of a workflow. */

/** An offset is no name: it would not follow the summer. */
export function isTimezone(name: string): boolean {
  try {
    return (
      /^[A-Z][A-Z0-9_+/-]{0,63}$/i.test(name) && new Intl.DateTimeFormat('en', { timeZone: name }) !== null
    )
  } catch {
    return false
  }
}

/** Without the older names, which count as well. */
export const timezones = (): readonly string[] => ['UTC', ...Intl.supportedValuesOf('timeZone')]
