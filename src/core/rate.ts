/** Parses request rates of settings and keys. */

/** `300/min burst 30`; the burst is a minute's requests by default. */
export const RATE_PATTERN = '^[1-9][0-9]{0,6}/min( burst [1-9][0-9]{0,6})?$'

export interface Rate {
  readonly perMinute: number
  readonly burst: number
}

/** @param text of the form of {@link RATE_PATTERN} */
export function parseRate(text: string): Rate {
  const [perMinute = 1, burst = perMinute] = (text.match(/[0-9]+/g) ?? []).map(Number)
  return { perMinute, burst }
}
