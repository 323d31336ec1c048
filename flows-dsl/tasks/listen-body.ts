/** What a `listen` is, and how it is compiled (OWS 1.0 "Listen", "Subscription Iterator"). */

import { type Checker, SCOPES } from '../checker.ts'
import { choiceBelow } from '../choice.ts'
import { compileExport, compileOutput } from '../data-flow.ts'
import type { Expression } from '../expression/expression.ts'
import type { EventStrategy, TaskNode } from '../ir.ts'
import { entryOf, type Located, type LocatedMap } from '../located.ts'
import { compileStrategy } from './event-filters.ts'
import type { Compiling } from './task.ts'

const READS = ['data', 'envelope', 'raw'] as const

/** What is done with each event that was taken. */
interface Iterator {
  /** Names of variables. */
  readonly item: string
  readonly at: string
  /** Its `output.as` and `export.as` are those of the iterator. */
  readonly task: TaskNode
}

export interface ListenBody {
  readonly to: EventStrategy
  /** When `any` has enough: a condition, asked after each event, or events that are no part of the output. */
  readonly until?: { readonly when: Expression } | { readonly events: EventStrategy }
  readonly read: (typeof READS)[number]
  readonly foreach?: Iterator
}

/** Compiles the keys `listen` and `foreach` of a task. */
export function compileListen(task: LocatedMap, compiling: Compiling): ListenBody | undefined {
  const { checker } = compiling
  const given = entryOf(task, 'listen')?.value
  const map = given && checker.map(given, '`listen`')
  const loop = entryOf(task, 'foreach')?.value
  const foreach = loop && compileForeach(loop, compiling)
  if (map === undefined) return undefined
  checker.keys(map, '`listen`', ['to', 'read'])
  const source = checker.required(map, '`listen`', 'to')
  const to = source && checker.map(source, '`to`')
  if (to === undefined) return undefined
  checker.keys(to, '`to`', ['one', 'any', 'all', 'until'])
  const strategy = compileStrategy(to, '`to`', checker)
  const until = compileUntil(to, checker)
  const read = choiceBelow(map, 'read', READS, checker)
  if (strategy === undefined || read === undefined) return undefined
  return { to: strategy, ...until, read, ...(foreach !== undefined && { foreach }) }
}

function compileUntil(to: LocatedMap, checker: Checker): Pick<ListenBody, 'until'> | undefined {
  const until = entryOf(to, 'until')
  if (until === undefined) return {}
  if (entryOf(to, 'any') === undefined) {
    return checker.fault('value_invalid', until.at, '`until` goes with `any` alone.')
  }
  if (until.value.kind !== 'map') {
    const when = checker.condition(until.value, '`until`', SCOPES.task)
    return when && { until: { when } }
  }
  const events = compileEnd(until.value, checker)
  return events && { until: { events } }
}

/** OWS allows `until: false` within `until`, which says what is so anyway. */
function compileEnd(map: LocatedMap, checker: Checker): EventStrategy | undefined {
  checker.keys(map, '`until`', ['one', 'any', 'all', 'until'])
  const inner = entryOf(map, 'until')?.value
  if (inner !== undefined && !(inner.kind === 'scalar' && inner.value === false)) {
    checker.fault('value_invalid', inner, 'The events that end a `listen` have no `until` of their own.')
  }
  return compileStrategy(map, '`until`', checker)
}

function compileForeach(value: Located, { checker, tasks }: Compiling): Iterator | undefined {
  const map = checker.map(value, '`foreach`')
  if (map === undefined) return undefined
  checker.keys(map, '`foreach`', ['item', 'at', 'do', 'output', 'export'])
  const item = checker.variable(map, 'item', 'item')
  const at = checker.variable(map, 'at', 'index')
  if (item === at) {
    const place = entryOf(map, 'at')?.value ?? entryOf(map, 'item')?.value ?? map
    checker.fault('value_invalid', place, `The event and its index are both named $${at}.`)
  }
  const list = entryOf(map, 'do')?.value
  const nodes = list === undefined ? [] : tasks(list, [item, at])
  const [output, exported] = checker.within([item, at], () => [
    compileOutput(map, SCOPES.task, checker),
    compileExport(map, checker),
  ])
  const task = {
    kind: 'do',
    name: item,
    pointer: map.pointer,
    ...(output !== undefined && { output }),
    ...(exported !== undefined && { export: exported }),
    body: { tasks: nodes ?? [] },
  }
  return { item, at, task }
}
