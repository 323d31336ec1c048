/** All kinds of tasks there are, and those of OWS that will come. */

import { call } from './call.ts'
import { do_ } from './do.ts'
import { emit } from './emit.ts'
import { for_ } from './for.ts'
import { fork } from './fork.ts'
import { raise } from './raise.ts'
import { set } from './set.ts'
import { switch_ } from './switch.ts'
import type { TaskType } from './task.ts'
import { try_ } from './try.ts'
import { wait } from './wait.ts'

export const TASKS: readonly TaskType[] = [call, do_, emit, for_, fork, raise, set, switch_, try_, wait]

/** Kinds that OWS 1.0 has and this release has not, with the keys that come with each. */
export const LATER_TASKS: readonly string[] = ['listen', 'run']

/** The kind of that name; a compiled flow holds no others. */
export function taskType(kind: string): TaskType | undefined {
  return TASKS.find((type) => type.kind === kind)
}
