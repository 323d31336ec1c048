/** Matches a text with a pattern of `like`. */

import { AT_ONCE, type Effort } from './effort.ts'
import type { Pattern, PatternPart } from './filter.ts'

/** The parts of a pattern between two `any`. */
type Run = readonly Exclude<PatternPart, 'any'>[]

/**
 * Finds each run at its first place after the one before; the first and the last are bound to the ends of the text.
 * @param fold letters match without their case
 * @throws EffortExhausted
 */
export function isLike(text: string, pattern: Pattern, fold: boolean, effort: Effort): boolean {
  effort.spend(text.length / AT_ONCE)
  const subject = fold ? text.toLowerCase() : text
  const [first = [], ...others] = runsOf(pattern, fold)
  let at = endOf(first, subject, 0, effort)
  const last = others.pop()
  if (last === undefined) return at === subject.length
  for (const run of others) {
    if (at === undefined) return false
    at = endOfNext(run, subject, at, effort)
  }
  if (at === undefined) return false
  const start = backwards(subject, last)
  return start >= at && endOf(last, subject, start, effort) === subject.length
}

function runsOf(pattern: Pattern, fold: boolean): Run[] {
  const runs: Exclude<PatternPart, 'any'>[][] = [[]]
  for (const part of pattern) {
    if (part === 'any') runs.push([])
    else runs.at(-1)?.push(part === 'one' || !fold ? part : { text: part.text.toLowerCase() })
  }
  return runs
}

/** Where a run that begins at an index ends; undefined if it does not match there. */
function endOf(run: Run, subject: string, from: number, effort: Effort): number | undefined {
  let at = from
  for (const part of run) {
    if (part === 'one') {
      effort.spend(1)
      if (at >= subject.length) return undefined
      at += unitsAt(subject, at)
      continue
    }
    effort.spend(1 + part.text.length / AT_ONCE)
    if (!subject.startsWith(part.text, at)) return undefined
    at += part.text.length
  }
  return at
}

/** The end of the first match of a run from an index on. */
function endOfNext(run: Run, subject: string, from: number, effort: Effort): number | undefined {
  const [head, ...tail] = run
  if (head === undefined) return from
  for (let at = from; at <= subject.length; at += unitsAt(subject, at)) {
    if (head !== 'one') {
      const found = subject.indexOf(head.text, at)
      effort.spend(1 + ((found < 0 ? subject.length : found) - at) / AT_ONCE)
      if (found < 0) return undefined
      at = found
      if (tail.length === 0) return at + head.text.length
    }
    const end = endOf(run, subject, at, effort)
    if (end !== undefined) return end
  }
  return undefined
}

/** Where a run begins that ends with the text; negative if the text is too short. */
function backwards(subject: string, run: Run): number {
  let at = subject.length
  for (const part of run.toReversed()) {
    if (part !== 'one') at -= part.text.length
    else at -= at > 1 && unitsAt(subject, at - 2) === 2 ? 2 : 1
  }
  return at
}

/** Code units of the character at an index. */
const unitsAt = (text: string, at: number): number => ((text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1)
