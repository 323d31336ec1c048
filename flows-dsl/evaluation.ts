/** Knows how a definition wants its expressions told from its texts (OWS 1.0 "Evaluate"). */

import type { Checker } from './checker.ts'
import { entryOf, type LocatedMap } from './located.ts'

const MODES = ['strict', 'loose']

/**
 * Whether every text is an expression, and stands for itself where it cannot be evaluated. In the strict mode, which
 * is the default, an expression stands in `${ }`; conditions and filters, which can be nothing else, need no signs.
 */
export function isLoose(flow: LocatedMap, checker: Checker): boolean {
  const given = entryOf(flow, 'evaluate')?.value
  const map = given && checker.map(given, '`evaluate`')
  if (map === undefined) return false
  checker.keys(map, '`evaluate`', ['language', 'mode'])
  const value = entryOf(map, 'language')?.value
  const language = value && checker.text(value, '`language`')
  if (value !== undefined && language !== undefined && language !== 'jq') {
    const message = `Expressions in \`${language}\` are not supported.`
    checker.fault('unsupported_feature', value, message, 'The language of expressions is jq.')
  }
  const chosen = entryOf(map, 'mode')?.value
  const mode = chosen && checker.text(chosen, '`mode`')
  if (chosen !== undefined && mode !== undefined && !MODES.includes(mode)) {
    checker.unknown('value_invalid', chosen, `There is no mode \`${mode}\`.`, mode, MODES)
  }
  return mode === 'loose'
}
