/** Names of time zones, from the ICU tables of the host that compiles: must not become part of a workflow. */

/** Tests if a name is in the IANA database. Offsets are rejected, because they ignore daylight saving time. */
export function isTimezone(name: string): boolean {
  try {
    return (
      /^[A-Z][A-Z0-9_+/-]{0,63}$/i.test(name) && new Intl.DateTimeFormat('en', { timeZone: name }) !== null
    )
  } catch {
    return false
  }
}

/** Canonical names. `isTimezone` accepts older aliases, too. */
export const timezones = (): readonly string[] => ['UTC', ...Intl.supportedValuesOf('timeZone')]
