/** `fork`: runs tasks at the same time, for all their outputs or for the first (OWS 1.0 "Fork"). */

import type { TaskNode } from '../ir.ts'
import { entryOf } from '../located.ts'
import { outcomeOf, type TaskType } from './task.ts'

interface ForkBody {
  readonly branches: readonly TaskNode[]
  readonly compete: boolean
}

export const fork: TaskType<ForkBody> = {
  kind: 'fork',
  keys: ['fork'],
  compile(task, compiling) {
    const { checker } = compiling
    const given = entryOf(task, 'fork')?.value
    const map = given && checker.map(given, '`fork`')
    if (map === undefined) return undefined
    checker.keys(map, '`fork`', ['branches', 'compete'])
    const compete = entryOf(map, 'compete')?.value
    const isRace = compete?.kind === 'scalar' ? compete.value : undefined
    if (compete !== undefined && typeof isRace !== 'boolean') {
      checker.fault('wrong_type', compete, '`compete` must be true or false.')
    }
    const list = checker.required(map, '`fork`', 'branches')
    const branches = list && compiling.branches(list)
    return branches && { branches, compete: isRace === true }
  },
  async run({ branches, compete }, input, running) {
    return outcomeOf(await running.branches(branches, input, { compete }))
  },
  summary({ branches, compete }) {
    return `${compete ? 'race' : 'fork'} ${branches.map(({ name }) => name).join(', ')}`
  },
}
