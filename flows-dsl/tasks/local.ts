/** Whether a call is made beside the run, without a task of its own: short, and harmless where it is made twice. */

import type { Checker } from '../checker.ts'
import { booleanBelow } from '../choice.ts'
import { entryOf, type LocatedMap } from '../located.ts'

/** `brief`: only as long as it is, and otherwise with a task of its own; whoever is asked may not be ours. */
export type Local = boolean | 'brief'

/**
 * `metadata: { tenon: { local: … } }` decides, where the author says so.
 * @param call whether it may be local, and whether it is where nobody says anything
 */
export function compileLocal(
  task: LocatedMap,
  call: { readonly may: boolean; readonly does: boolean },
  checker: Checker,
): boolean {
  const metadata = entryOf(task, 'metadata')?.value
  const own = metadata?.kind === 'map' ? entryOf(metadata, 'tenon')?.value : undefined
  const map = own && checker.map(own, '`tenon`')
  if (map === undefined) return call.does
  checker.keys(map, '`tenon`', ['local'])
  const local = booleanBelow(map, 'local', call.does, checker) ?? call.does
  const given = entryOf(map, 'local')
  if (!local || call.may || given === undefined) return local
  const hint = 'Calls that read may be, and those that make a document or publish an event.'
  checker.fault('value_invalid', given.value, 'This call must not be local: it may be made twice.', hint)
  return false
}
