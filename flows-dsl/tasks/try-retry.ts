/** The retries of `try` (OWS 1.0 "Retry"): which errors, how often, how long in between. */

import { type Checker, SCOPES } from '../checker.ts'
import { DURATION_MS_MAX, durationIn, durationText } from '../duration.ts'
import type { Expression } from '../expression/expression.ts'
import { entryOf, type Located, type LocatedEntry, type LocatedMap } from '../located.ts'

const BACKOFFS = ['constant', 'linear', 'exponential'] as const

/** A condition, and one that must not hold. */
export interface Conditions {
  readonly when?: Expression
  readonly exceptWhen?: Expression
}

export interface Retry extends Conditions {
  readonly delayMs: number
  readonly backoff: (typeof BACKOFFS)[number]
  /** How often at most, after the first attempt. */
  readonly count?: number
  /** From the start of the first attempt to the start of the last. */
  readonly limitMs?: number
  /** Of each attempt, the first included. */
  readonly attemptMs?: number
  /** Is added to the delay. */
  readonly jitter?: { readonly fromMs: number; readonly toMs: number }
}

export function compileConditions(map: LocatedMap, checker: Checker): Conditions {
  const [when, exceptWhen] = ['when', 'exceptWhen'].map((key) => {
    const value = entryOf(map, key)?.value
    return value && checker.condition(value, `\`${key}\``, SCOPES.task)
  })
  return { ...(when !== undefined && { when }), ...(exceptWhen !== undefined && { exceptWhen }) }
}

/** @param variables those that only the handling of the error sees */
export function compileRetry(
  given: Located,
  variables: readonly string[],
  checker: Checker,
): Retry | undefined {
  if (given.kind === 'scalar' && typeof given.value === 'string') {
    const compile = ({ value }: LocatedEntry) =>
      checker.within(variables, () => compileRetryPolicy(value, checker))
    return checker.declared.find('retries', given, compile, variables)
  }
  return checker.within(variables, () => compileRetryPolicy(given, checker))
}

export function compileRetryPolicy(given: Located, checker: Checker): Retry | undefined {
  const map = checker.map(given, '`retry`')
  if (map === undefined) return undefined
  checker.keys(map, '`retry`', ['when', 'exceptWhen', 'delay', 'backoff', 'limit', 'jitter'])
  const delayMs = durationBelow(map, 'delay', 0, checker) ?? 0
  const jitter = compileJitter(map, checker)
  return {
    ...compileConditions(map, checker),
    delayMs,
    backoff: compileBackoff(map, checker),
    ...compileLimit(map, checker),
    ...(jitter !== undefined && { jitter }),
  }
}

function durationBelow(
  map: LocatedMap | undefined,
  key: string,
  minMs: 0 | 1,
  checker: Checker,
): number | undefined {
  const value = map && entryOf(map, key)?.value
  return value && durationIn(value, `\`${key}\``, minMs, checker)
}

function mapBelow(map: LocatedMap | undefined, key: string, checker: Checker): LocatedMap | undefined {
  const value = map && entryOf(map, key)?.value
  return value && checker.map(value, `\`${key}\``)
}

function compileBackoff(retry: LocatedMap, checker: Checker): Retry['backoff'] {
  const map = mapBelow(retry, 'backoff', checker)
  if (map === undefined) return 'constant'
  checker.keys(map, '`backoff`', BACKOFFS)
  const [name, other] = BACKOFFS.filter((one) => entryOf(map, one) !== undefined)
  if (name === undefined) {
    const hint = `Write one of: ${BACKOFFS.map((one) => `{ ${one}: {} }`).join(', ')}.`
    if (map.entries.length === 0) checker.fault('missing_key', map, '`backoff` must say how.', hint)
  } else if (other !== undefined) {
    const place = entryOf(map, other)?.at ?? map
    checker.fault('value_invalid', place, `\`backoff\` is \`${name}\` and \`${other}\` at once.`)
  }
  for (const one of BACKOFFS) {
    const options = mapBelow(map, one, checker)
    if (options !== undefined) checker.keys(options, `\`${one}\``, [])
  }
  return name ?? 'constant'
}

function compileLimit(retry: LocatedMap, checker: Checker): Pick<Retry, 'count' | 'limitMs' | 'attemptMs'> {
  const limit = mapBelow(retry, 'limit', checker)
  if (limit !== undefined) checker.keys(limit, '`limit`', ['attempt', 'duration'])
  const attempt = mapBelow(limit, 'attempt', checker)
  if (attempt !== undefined) checker.keys(attempt, '`attempt`', ['count', 'duration'])
  const given = attempt && entryOf(attempt, 'count')?.value
  const count = given && checker.integer(given, '`count`', 1)
  const limitMs = durationBelow(limit, 'duration', 1, checker)
  const attemptMs = durationBelow(attempt, 'duration', 1, checker)
  return {
    ...(count !== undefined && { count }),
    ...(limitMs !== undefined && { limitMs }),
    ...(attemptMs !== undefined && { attemptMs }),
  }
}

function compileJitter(retry: LocatedMap, checker: Checker): Retry['jitter'] {
  const jitter = mapBelow(retry, 'jitter', checker)
  if (jitter === undefined) return undefined
  checker.keys(jitter, '`jitter`', ['from', 'to'])
  const from = checker.required(jitter, '`jitter`', 'from')
  const to = checker.required(jitter, '`jitter`', 'to')
  const fromMs = from && durationIn(from, '`from`', 0, checker)
  const toMs = to && durationIn(to, '`to`', 0, checker)
  if (to === undefined || fromMs === undefined || toMs === undefined) return undefined
  if (fromMs <= toMs) return { fromMs, toMs }
  return checker.fault('value_invalid', to, '`to` must not be shorter than `from`.')
}

/** How far a `try` has come; retries are numbered from 1. */
interface Progress {
  readonly number: number
  /** Since the first attempt began. */
  readonly spentMs: number
  readonly random: () => number
}

/** The wait before a retry, or nothing if there is none. Linear adds the delay each time, exponential doubles it. */
export function delayBefore(retry: Retry, { number, spentMs, random }: Progress): number | undefined {
  const { delayMs, backoff, jitter, count, limitMs } = retry
  if (count !== undefined && number > count) return undefined
  const factor = { constant: 1, linear: number, exponential: 2 ** (number - 1) }[backoff]
  const extraMs = jitter === undefined ? 0 : jitter.fromMs + random() * (jitter.toMs - jitter.fromMs)
  // The factor grows beyond all numbers, and that often nothing is no number.
  const laterMs = delayMs === 0 ? 0 : delayMs * factor
  const waitMs = Math.min(DURATION_MS_MAX, Math.round(laterMs + extraMs))
  return limitMs !== undefined && spentMs + waitMs > limitMs ? undefined : waitMs
}

/** `retry 2 of 5 in 4 seconds` */
export function retryText({ count }: Retry, number: number, delayMs: number): string {
  return `retry ${number}${count === undefined ? '' : ` of ${count}`} in ${durationText(delayMs)}`
}
