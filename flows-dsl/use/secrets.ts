/** Knows which secrets a definition declares (OWS 1.0 "Secret"). */

import type { Checker } from '../checker.ts'
import { entryOf, type LocatedMap } from '../located.ts'

/** Of a secret, wherever it is kept. */
export const SECRET_NAME = /^[A-Za-z_][A-Za-z0-9_.-]{0,62}$/

/** The names of `use.secrets`. */
export function compileSecrets(use: LocatedMap, checker: Checker): readonly string[] {
  const list = entryOf(use, 'secrets')?.value
  if (list === undefined) return []
  if (list.kind !== 'list') {
    checker.fault('wrong_type', list, '`secrets` must be a list of names.')
    return []
  }
  const names = new Set<string>()
  for (const item of list.items) {
    const name = checker.text(item, 'The name of a secret')
    if (name === undefined) continue
    if (!SECRET_NAME.test(name)) {
      checker.fault('value_invalid', item, `\`${name}\` cannot be the name of a secret.`)
    } else if (names.has(name)) {
      checker.fault('value_invalid', item, `The secret \`${name}\` is declared twice.`)
    }
    names.add(name)
  }
  return [...names]
}
