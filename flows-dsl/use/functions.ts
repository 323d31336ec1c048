/**
 * Knows what a call of a function under `use.functions` is: its task, given the arguments as its input. Compiled to
 * the kinds `do` and `set`, so that nothing that runs a flow has to know functions.
 */

import { type Checker, SCOPES } from '../checker.ts'
import type { TaskNode } from '../ir.ts'
import { entryOf, type LocatedMap } from '../located.ts'

/** Says to `use.functions` that an extension calls one: nothing extends it then, or it would never end. */
export const UNEXTENDED = 'unextended'

/** Whether a task calls a function that the definition declares itself. */
export function callsDeclared(task: LocatedMap, checker: Checker): boolean {
  const name = entryOf(task, 'call')?.value
  return name?.kind === 'scalar' && checker.use?.functions.has(String(name.value)) === true
}

/** The body of a `do`: first the arguments, where there are any, then the task. */
export function compileDeclaredCall(
  task: LocatedMap,
  checker: Checker,
): { readonly tasks: readonly TaskNode[] } | undefined {
  const name = entryOf(task, 'call')?.value
  if (name?.kind !== 'scalar') return undefined
  const args = compileArguments(task, checker)
  const called = checker.use?.functions.find(name, checker.isExtending ? [] : [UNEXTENDED])
  return args && called && { tasks: [...args, called] }
}

function compileArguments(task: LocatedMap, checker: Checker): readonly TaskNode[] | undefined {
  const given = entryOf(task, 'with')?.value
  if (given === undefined) return []
  const map = checker.map(given, '`with`')
  const value = map && checker.fields(map, SCOPES.task)
  return value && [{ kind: 'set', name: 'with', pointer: given.pointer, body: { value } }]
}
