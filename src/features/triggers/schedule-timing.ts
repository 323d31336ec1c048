/** Cron expressions and time zones as Temporal takes them. */

/** If both days are given, either matches (POSIX); Temporal requires both, so each gets an expression of its own. */
export function cronsOf(text: string): string[] {
  const [minute, hour, day, month, weekday] = text.split(' ')
  if (day === '*' || weekday === '*') return [text]
  return [`${minute} ${hour} ${day} ${month} *`, `${minute} ${hour} * ${month} ${weekday}`]
}

/** The canonical spelling of a time zone, which Temporal requires. */
export const spelledZone = (timezone: string): string =>
  new Intl.DateTimeFormat('en', { timeZone: timezone }).resolvedOptions().timeZone

/** By default, a start that is late by more than this is skipped. */
export const CATCH_UP_MS = 60_000
