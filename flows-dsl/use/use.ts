/** Knows what a definition declares under `use` (OWS 1.0 "Use"): each section, and who compiles what stands in it. */

import { type Checker, SCOPES } from '../checker.ts'
import { entryOf, type LocatedMap } from '../located.ts'
import { compileAlone } from '../task-list.ts'
import { compileError } from '../tasks/raise.ts'
import { compileRetryPolicy } from '../tasks/try-retry.ts'
import { compileTimeoutPolicy } from '../timeout.ts'
import { compilePolicy } from './authentication.ts'
import { compileCatalog } from './catalogs.ts'
import { SECTIONS } from './declarations.ts'
import { compileExtensions } from './extensions.ts'
import { compileSecrets } from './secrets.ts'

/** Reads what the definition declares, so that it is there before anything refers to it. */
export function openUse(flow: LocatedMap, checker: Checker): void {
  const given = entryOf(flow, 'use')?.value
  const use = given && checker.map(given, '`use`')
  if (use === undefined) return
  checker.keys(use, '`use`', [...SECTIONS, 'extensions', 'secrets'])
  for (const section of SECTIONS) {
    const value = entryOf(use, section)?.value
    const map = value && checker.map(value, `\`${section}\``)
    if (map !== undefined) checker.declared.declare(section, map)
  }
  checker.declaredSecrets = compileSecrets(use, checker)
  const list = entryOf(use, 'extensions')?.value
  if (list === undefined) return
  checker.extended.by(() => compileExtensions(list, checker))
}

/** Notes the faults of what is declared and not used. */
export function checkUnused(checker: Checker): void {
  const { declared } = checker
  declared.checkRest('authentications', ({ value }) => compilePolicy(value, checker))
  declared.checkRest('catalogs', (entry) => compileCatalog(entry, checker))
  declared.checkRest('errors', ({ value }) => compileError(value, checker))
  declared.checkRest('functions', (entry) => compileAlone(entry, checker))
  declared.checkRest('retries', ({ value }) =>
    checker.within(['error'], () => compileRetryPolicy(value, checker)),
  )
  declared.checkRest('timeouts', ({ value }) => compileTimeoutPolicy(value, SCOPES.task, checker))
}
