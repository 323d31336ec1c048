/**
 * `switch`: goes where the first case that holds says (OWS 1.0 "Switch"). The data passes through unchanged.
 */

import { SCOPES } from '../checker.ts'
import type { Expression } from '../expression/expression.ts'
import { entryOf, type Located } from '../located.ts'
import type { Compiling, TaskType } from './task.ts'

interface Case {
  readonly name: string
  /** The default has none. */
  readonly when?: Expression
  readonly next: string
}

interface SwitchBody {
  readonly cases: readonly Case[]
}

export const switch_: TaskType<SwitchBody> = {
  kind: 'switch',
  keys: ['switch'],
  compile(task, compiling) {
    const list = entryOf(task, 'switch')?.value
    if (list === undefined) return undefined
    if (list.kind !== 'list' || list.items.length === 0) {
      return compiling.checker.fault('wrong_type', list, '`switch` must be a list of cases, at least one.')
    }
    const cases = list.items.map((item) => compileCase(item, compiling)).filter((one) => one !== undefined)
    refuseTwins(list.items, compiling)
    return { cases }
  },
  ways({ cases }) {
    return cases.map(({ name }) => name)
  },
  start({ cases }, { test, input }) {
    const found = cases.find(({ when }) => when !== undefined && test(when, input))
    const taken = found ?? cases.find(({ when }) => when === undefined)
    return taken === undefined ? { done: input } : { done: input, next: taken.next, took: taken.name }
  },
  summary({ cases }) {
    return `switch ${cases.map(({ name }) => name).join(', ')}`
  },
}

function compileCase(item: Located, { checker, target }: Compiling): Case | undefined {
  const entry = item.kind === 'map' && item.entries.length === 1 ? item.entries[0] : undefined
  if (entry === undefined) {
    return checker.fault('task_not_single', item, 'A case must be one name with `when` and `then` below it.')
  }
  const body = checker.map(entry.value, `The case \`${entry.key}\``)
  if (body === undefined) return undefined
  checker.keys(body, `the case \`${entry.key}\``, ['when', 'then'])
  const condition = entryOf(body, 'when')?.value
  const when = condition && checker.condition(condition, '`when`', SCOPES.task)
  const directive = checker.required(body, `The case \`${entry.key}\``, 'then')
  const next = directive && target(directive)
  if (next === undefined) return undefined
  return { name: entry.key, ...(when !== undefined && { when }), next }
}

function refuseTwins(items: readonly Located[], { checker }: Compiling): void {
  const names = new Set<string>()
  let defaults = 0
  for (const { key, at, value } of items.flatMap((item) => (item.kind === 'map' ? item.entries : []))) {
    if (names.has(key)) checker.fault('task_name_duplicate', at, `Two cases are named \`${key}\`.`)
    names.add(key)
    const isDefault = value.kind === 'map' && entryOf(value, 'when') === undefined
    if (isDefault && ++defaults > 1) {
      checker.fault('value_invalid', at, 'A second case without `when` can never be taken.')
    }
  }
}
