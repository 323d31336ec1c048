/** Knows `use.extensions`: tasks that run before and after others (OWS 1.0 "Extension"). */

import { type Checker, SCOPES } from '../checker.ts'
import { entryOf, type Located, type LocatedEntry } from '../located.ts'
import { compileTasks } from '../task-list.ts'
import { TASKS } from '../tasks/index.ts'
import type { ForKinds } from './extended.ts'

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
