/** `do`: runs a list of tasks, one after the other (OWS 1.0 "Do"). */

import { valueAt } from '../compile/source-nodes.ts'
import type { TaskNode } from '../ir.ts'
import { namesOf, resultOf, type TaskType } from './task.ts'

interface DoBody {
  readonly tasks: readonly TaskNode[]
}

export const do_: TaskType<DoBody> = {
  kind: 'do',
  keys: ['do'],
  compile(task, compiler) {
    const list = valueAt(task, 'do')
    const tasks = list && compiler.tasks(list)
    return tasks && { tasks }
  },
  lists({ tasks }) {
    return { do: tasks }
  },
  start(_body, { input }) {
    return { own: null, start: [{ key: 'do', list: 'do', input }] }
  },
  onChildEnd(_body, _own, ended) {
    return resultOf(ended)
  },
  summary({ tasks }) {
    return `do ${namesOf(tasks)}`
  },
}
