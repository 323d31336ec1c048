/** Compiles the section `use` of a definition (OWS 1.0 "Use"). */

import { type Checker, SCOPES } from '../checker.ts'
import { compileTimeoutPolicy } from '../data-flow.ts'
import { entryOf, type Located, type LocatedEntry, type LocatedMap } from '../located.ts'
import { compileAlone, compileTasks } from '../task-list.ts'
import { TASKS } from '../tasks/index.ts'
import { compileError } from '../tasks/raise.ts'
import { compileRetryPolicy } from '../tasks/try.ts'
import { compilePolicy } from './authentication.ts'
import { type ForKinds, SECTIONS } from './declarations.ts'
import { compileCatalog } from './functions.ts'

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

/** What OWS calls a composite: tasks that do nothing but run others. */
const COMPOSITES = ['do', 'fork']

export function compileExtensions(list: Located, checker: Checker): readonly ForKinds[] {
  if (list.kind !== 'list') {
    checker.fault('wrong_type', list, '`extensions` must be a list of named extensions.')
    return []
  }
  return list.items.map((item) => compileItem(item, checker)).filter((one) => one !== undefined)
}

function compileItem(item: Located, checker: Checker): ForKinds | undefined {
  const [entry, other] = item.kind === 'map' ? item.entries : []
  if (entry !== undefined && other === undefined) return compileExtension(entry, checker)
  const message = 'An extension must be one name with its keys below.'
  return checker.fault('task_not_single', other?.at ?? item, message)
}

function compileExtension({ key, at, value }: LocatedEntry, checker: Checker): ForKinds | undefined {
  const map = checker.map(value, `The extension \`${key}\``)
  if (map === undefined) return undefined
  checker.keys(map, `the extension \`${key}\``, ['extend', 'when', 'before', 'after'])
  const extend = checker.required(map, `The extension \`${key}\``, 'extend')
  const kinds = extend && compileKinds(extend, checker)
  const condition = entryOf(map, 'when')?.value
  const when = condition && checker.condition(condition, '`when`', SCOPES.taskInput)
  const [before, after] = (['before', 'after'] as const).map((name) => {
    const tasks = entryOf(map, name)?.value
    return tasks && compileTasks(tasks, checker)
  })
  if (entryOf(map, 'before') === undefined && entryOf(map, 'after') === undefined) {
    return checker.fault('missing_key', at, `The extension \`${key}\` needs \`before\` or \`after\`.`)
  }
  if (kinds === undefined) return undefined
  return {
    name: key,
    kinds,
    ...(when !== undefined && { when }),
    ...(before !== undefined && { before }),
    ...(after !== undefined && { after }),
  }
}

function compileKinds(extend: Located, checker: Checker): readonly string[] | undefined {
  const kind = checker.text(extend, '`extend`')
  const kinds = TASKS.map((type) => type.kind)
  if (kind === undefined || kind === 'all') return kind && kinds
  if (kind === 'composite') return COMPOSITES
  if (kinds.includes(kind)) return [kind]
  const known = ['all', 'composite', ...kinds]
  return checker.unknown('value_invalid', extend, `There is no kind of task \`${kind}\`.`, kind, known)
}

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
