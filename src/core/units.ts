/** Quantities with units in settings and inputs: durations such as `90s`, request rates such as `300/min burst 30`. */

import Type from 'typebox'
import { Problem } from './problem.ts'

export const MINUTE_MS = 60_000

const UNIT_MS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: MINUTE_MS,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
}

export const Duration = (description: string) =>
  Type.String({
    pattern: '^[0-9]{1,9}[smhdw]$',
    description: `${description} Format: \`90s\`, \`15m\`, \`1h\`.`,
  })

/** @param text in the form of {@link Duration} */
export function durationMs(text: string): number {
  return Number(text.slice(0, -1)) * (UNIT_MS[text.slice(-1)] ?? 0)
}

/**
 * @param text in the form of {@link Duration}
 * @throws Problem `validation_failed` if the duration is out of bounds
 * @example
 * ```ts
 * const field = { in: 'body', name: 'timeout', pointer: '/timeout' } as const
 * boundedMs(field, '90s', { minMs: 1_000, maxMs: 900_000 }) // 90_000
 * ```
 */
export function boundedMs(
  field: { readonly in: 'body' | 'query'; readonly name: string; readonly pointer: string },
  text: string,
  bounds: { readonly minMs: number; readonly maxMs: number },
): number {
  const ms = durationMs(text)
  if (ms >= bounds.minMs && ms <= bounds.maxMs) return ms
  const detail = `${field.name} lies between ${bounds.minMs / 1_000}s and ${bounds.maxMs / 1_000}s.`
  throw new Problem('validation_failed', { detail, errors: [{ ...field, detail }] })
}

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
