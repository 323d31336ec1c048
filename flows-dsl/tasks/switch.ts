/** `switch`: follows the directive of the first case that holds (OWS 1.0 "Switch"). Data passes through unchanged. */

import { SCOPES } from '../compile/compile-context.ts'
import { entryOf, type SourceNode, valueAt } from '../compile/source-nodes.ts'
import type { Expression } from '../jq/expression.ts'
import { namesOf, type TaskCompiler, type TaskType } from './task.ts'

interface Case {
  readonly name: string
  /** The default case has none. */
  readonly when?: Expression
  readonly next: string
}

interface SwitchBody {
  readonly cases: readonly Case[]
}

export const switch_: TaskType<SwitchBody> = {
  kind: 'switch',
  keys: ['switch'],
  compile(task, compiler) {
    const list = valueAt(task, 'switch')
    if (list === undefined) return undefined
    if (list.kind !== 'list' || list.items.length === 0) {
      return compiler.context.report('wrong_type', list, '`switch` must be a list of at least one case.')
    }
    const cases = list.items.map((item) => compileCase(item, compiler)).filter((one) => one !== undefined)
    checkUnique(list.items, compiler)
    return { cases }
  },
  outcomes({ cases }) {
    return cases.map(({ name }) => name)
  },
  start({ cases }, { test, input }) {
    const found = cases.find(({ when }) => when !== undefined && test(when, input))
    const chosen = found ?? cases.find(({ when }) => when === undefined)
    return chosen === undefined ? { done: input } : { done: input, next: chosen.next, took: chosen.name }
  },
  summary({ cases }) {
    return `switch ${namesOf(cases)}`
  },
}

function compileCase(item: SourceNode, { context, target }: TaskCompiler): Case | undefined {
  const entry = context.singleEntry(item, 'A case must be one name with `when` and `then` below it.')
  if (entry === undefined) return undefined
  const body = context.map(entry.value, `The case \`${entry.key}\``, ['when', 'then'])
  if (body === undefined) return undefined
  const when = context.optionalCondition(body, 'when', SCOPES.task)
  const directive = context.required(body, `The case \`${entry.key}\``, 'then')
  const next = directive && target(directive)
  return next === undefined ? undefined : { name: entry.key, ...(when !== undefined && { when }), next }
}

function checkUnique(items: readonly SourceNode[], { context }: TaskCompiler): void {
  const names = new Set<string>()
  let defaults = 0
  for (const { key, at, value } of items.flatMap((item) => (item.kind === 'map' ? item.entries : []))) {
    if (names.has(key)) context.report('task_name_duplicate', at, `Two cases are named \`${key}\`.`)
    names.add(key)
    const isDefault = value.kind === 'map' && entryOf(value, 'when') === undefined
    if (isDefault && ++defaults > 1) {
      context.report('value_invalid', at, 'A second case without `when` can never be taken.')
    }
  }
}
