/** `do`: runs a list of tasks, one after the other (OWS 1.0 "Do"). */

import type { TaskNode } from '../ir.ts'
import { entryOf } from '../located.ts'
import { doneAs, type TaskType } from './task.ts'

interface DoBody {
  readonly tasks: readonly TaskNode[]
}

/** Named with an underscore because `do` is a word of JavaScript. */
export const do_: TaskType<DoBody> = {
  kind: 'do',
  keys: ['do'],
  compile(task, compiling) {
    const list = entryOf(task, 'do')?.value
    const tasks = list && compiling.tasks(list)
    return tasks && { tasks }
  },
  lists({ tasks }) {
    return { do: tasks }
  },
  start(_body, { input }) {
    return { own: null, begin: [{ key: 'do', list: 'do', input }] }
  },
  next(_body, _own, ended) {
    return doneAs(ended)
  },
  summary({ tasks }) {
    return `do ${tasks.map(({ name }) => name).join(', ')}`
  },
}
