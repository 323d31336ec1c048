/** All kinds of tasks there are, and those of OWS that will come. */

import { call } from './call.ts'
import { do_ } from './do.ts'
import { set } from './set.ts'
import { switch_ } from './switch.ts'
import type { TaskType } from './task.ts'
import { wait } from './wait.ts'

export const TASKS: readonly TaskType[] = [call, do_, set, switch_, wait]

/** Kinds that OWS 1.0 has and this release has not, with the keys that come with each. */
export const LATER_TASKS: readonly string[] = ['for', 'fork', 'try', 'raise', 'emit', 'listen', 'run']

/** The kind of that name; a compiled flow holds no others. */
export function taskType(kind: string): TaskType | undefined {
  return TASKS.find((type) => type.kind === kind)
}
