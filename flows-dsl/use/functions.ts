/**
 * Knows what a call of a function under `use.functions` is: its task, given the arguments as its input. Compiled to
 * the kinds `do` and `set`, so that nothing that runs a flow has to know functions.
 */

import { type Checker, SCOPES } from '../checker.ts'
import type { TaskNode } from '../ir.ts'
import { entryOf, type Located, type LocatedEntry, type LocatedMap } from '../located.ts'

type CompileTask = (entry: LocatedEntry, checker: Checker) => TaskNode | undefined

/** Whether a task calls a function that the definition declares itself. */
export function callsDeclared(task: LocatedMap, checker: Checker): boolean {
  const name = entryOf(task, 'call')?.value
  return name?.kind === 'scalar' && checker.declared.has('functions', String(name.value))
}

/** The body of a `do`: first the arguments, where there are any, then the task. */
export function compileDeclaredCall(
  task: LocatedMap,
  checker: Checker,
  compileTask: CompileTask,
): { readonly tasks: readonly TaskNode[] } | undefined {
  const name = entryOf(task, 'call')?.value
  if (name?.kind !== 'scalar') return undefined
  const args = compileArguments(task, checker)
  const called = checker.extended.isOn
    ? checker.declared.find('functions', name, (entry) => compileTask(entry, checker))
    : checker.declared.find('functions', name, (entry) => compileTask(elsewhere(entry), checker), ['plain'])
  return args && called && { tasks: [...args, called] }
}

function compileArguments(task: LocatedMap, checker: Checker): readonly TaskNode[] | undefined {
  const given = entryOf(task, 'with')?.value
  if (given === undefined) return []
  const map = checker.map(given, '`with`')
  const value = map && checker.fields(map, SCOPES.task)
  return value && [{ kind: 'set', name: 'with', pointer: given.pointer, body: { value } }]
}

/**
 * The same function as extensions call it: not extended itself, or it would never end. A pointer names one task only,
 * so these have their own.
 */
function elsewhere({ key, at, value }: LocatedEntry): LocatedEntry {
  return { key, at, value: moved(value) }
}

function moved(value: Located): Located {
  const pointer = value.pointer.replace(/^\/use\/functions/, '/use/extensions/functions')
  if (value.kind === 'list') return { ...value, pointer, items: value.items.map(moved) }
  if (value.kind !== 'map') return { ...value, pointer }
  return { ...value, pointer, entries: value.entries.map(elsewhere) }
}
