/** Knows what a definition declares under `use` (OWS 1.0 "Use"): each section, and who compiles what stands in it. */

import type { Checker } from '../checker.ts'
import type { Extension, TaskNode, Timeout } from '../ir.ts'
import { entryOf, type Located, type LocatedMap } from '../located.ts'
import { compileAlone } from '../task-list.ts'
import { compileError, type RaiseBody } from '../tasks/raise.ts'
import { compileRetryPolicy, type Retry } from '../tasks/try-retry.ts'
import { compileTimeoutPolicy } from '../timeout.ts'
import { type Authentication, compilePolicy } from './authentication.ts'
import { compileCatalog } from './catalogs.ts'
import { compileExtensions } from './extensions.ts'
import { UNEXTENDED } from './functions.ts'
import { Named } from './named.ts'
import { compileSecrets } from './secrets.ts'

const MAPPINGS = ['authentications', 'catalogs', 'errors', 'functions', 'retries', 'timeouts'] as const
const SECTIONS = [...MAPPINGS, 'extensions', 'secrets']

export class Use {
  readonly authentications: Named<Authentication>
  readonly catalogs: Named<true>
  readonly errors: Named<RaiseBody>
  readonly functions: Named<TaskNode>
  readonly retries: Named<Retry>
  readonly timeouts: Named<Timeout>
  /** Names of secrets, in the order of their declaration. */
  readonly secrets: readonly string[]
  #extensions: readonly (Extension & { readonly kinds: readonly string[] })[] = []

  constructor(checker: Checker, map: LocatedMap | undefined) {
    const section = (name: (typeof MAPPINGS)[number]): Located | undefined => {
      const given = map && entryOf(map, name)?.value
      return given && checker.map(given, `\`${name}\``)
    }
    this.authentications = new Named(checker, 'authentications', section('authentications'), ({ value }) =>
      compilePolicy(value, checker),
    )
    this.catalogs = new Named(checker, 'catalogs', section('catalogs'), (entry) =>
      compileCatalog(entry, checker),
    )
    this.errors = new Named(checker, 'errors', section('errors'), ({ value }) => compileError(value, checker))
    this.functions = new Named(checker, 'functions', section('functions'), (entry, scope) =>
      checker.extending(!scope.includes(UNEXTENDED), () => compileAlone(entry, checker)),
    )
    this.retries = new Named(checker, 'retries', section('retries'), ({ value }, scope) =>
      checker.within(scope, () => compileRetryPolicy(value, checker)),
    )
    this.timeouts = new Named(checker, 'timeouts', section('timeouts'), ({ value }, scope) =>
      compileTimeoutPolicy(value, scope, checker),
    )
    this.secrets = map === undefined ? [] : compileSecrets(map, checker)
  }

  /** What comes before and after tasks of a kind, in the order of declaration. */
  extensionsOf(kind: string): readonly Extension[] {
    return this.#extensions
      .filter(({ kinds }) => kinds.includes(kind))
      .map(({ kinds: _kinds, ...extension }) => extension)
  }

  /** Compiles the extensions; their tasks may name what is declared here, so it is there before. */
  open(map: LocatedMap, checker: Checker): void {
    checker.keys(map, '`use`', SECTIONS)
    const list = entryOf(map, 'extensions')?.value
    if (list !== undefined) {
      this.#extensions = checker.extending(false, () => compileExtensions(list, checker))
    }
  }

  /** Notes the faults of what is declared and not used. */
  checkRest(): void {
    this.authentications.checkRest()
    this.catalogs.checkRest()
    this.errors.checkRest()
    this.functions.checkRest()
    this.retries.checkRest(['error'])
    this.timeouts.checkRest()
  }
}
