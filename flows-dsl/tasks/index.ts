/** The list of all task types: those of OWS 1.0, and `approve`. */

import { approve } from './approve.ts'
import { call } from './call.ts'
import { do_ } from './do.ts'
import { emit } from './emit.ts'
import { for_ } from './for.ts'
import { fork } from './fork.ts'
import { listen } from './listen.ts'
import { raise } from './raise.ts'
import { run } from './run.ts'
import { set } from './set.ts'
import { switch_ } from './switch.ts'
import type { TaskType } from './task.ts'
import { try_ } from './try.ts'
import { wait } from './wait.ts'

export const TASKS: readonly TaskType[] = [
  approve,
  call,
  do_,
  emit,
  for_,
  fork,
  listen,
  raise,
  run,
  set,
  switch_,
  try_,
  wait,
]

/** The task type of a kind. Compiled flows contain no other kinds. */
export function taskType(kind: string): TaskType | undefined {
  return TASKS.find((type) => type.kind === kind)
}
