/** Knows how values of few choices are read from a definition: words, true and false, small numbers. */

import type { Checker } from './checker.ts'
import { entryOf, type Located, type LocatedMap } from './located.ts'

/** The word below a key, or the fallback. Answers undefined where it has noted a fault. */
export function choiceBelow<Word extends string>(
  map: LocatedMap,
  key: string,
  words: readonly [fallback: Word, ...more: Word[]],
  checker: Checker,
): Word | undefined {
  const given = entryOf(map, key)?.value
  if (given === undefined) return words[0]
  const text = checker.text(given, `\`${key}\``)
  if (text === undefined) return undefined
  const word = words.find((one) => one === text)
  if (word !== undefined) return word
  return checker.unknown('value_invalid', given, `\`${key}\` cannot be \`${text}\`.`, text, words)
}

/** The boolean below a key, or the fallback. Answers undefined where it has noted a fault. */
export function booleanBelow(
  map: LocatedMap,
  key: string,
  fallback: boolean,
  checker: Checker,
): boolean | undefined {
  const given = entryOf(map, key)?.value
  if (given === undefined) return fallback
  if (given.kind === 'scalar' && typeof given.value === 'boolean') return given.value
  return checker.fault('wrong_type', given, `\`${key}\` must be true or false.`)
}

/** A whole number from 1 to `max`. Answers undefined where it has noted a fault. */
export function integerUpTo(given: Located, what: string, max: number, checker: Checker): number | undefined {
  const count = checker.integer(given, what, 1)
  if (count === undefined || count <= max) return count
  return checker.fault('value_invalid', given, `${what} must be at most ${max}.`)
}
