/** `fork`: runs tasks at the same time, for all their outputs or for the first (OWS 1.0 "Fork"). */

import type { Json, TaskNode } from '../ir.ts'
import { namesOf, type TaskType } from './task.ts'

interface ForkBody {
  readonly branches: readonly TaskNode[]
  readonly compete: boolean
}

/** The results of branches so far, by index. */
interface Results {
  readonly outputs: Record<string, Json>
  readonly contexts: Record<string, Json>
}

export const fork: TaskType<ForkBody> = {
  kind: 'fork',
  keys: ['fork'],
  compile(task, { context, branches: compileBranches }) {
    const map = context.optionalMap(task, 'fork', ['branches', 'compete'])
    if (map === undefined) return undefined
    const compete = context.boolean(map, 'compete', false) ?? false
    const list = context.required(map, '`fork`', 'branches')
    const branches = list && compileBranches(list)
    return branches && { branches, compete }
  },
  lists({ branches }) {
    return { branches }
  },
  start({ branches }, { input }) {
    const children = branches.map(
      (_, index) => ({ key: String(index), task: ['branches', index], input, isolated: true }) as const,
    )
    return { taskState: { outputs: {}, contexts: {} }, start: children }
  },
  onChildEnd({ branches, compete }, taskState, { key, output, left, context }, task) {
    const { outputs, contexts } = taskState as unknown as Results
    if (compete || left === 'end') {
      const next = left === 'end' ? { next: left } : {}
      return { done: output, ...next, ...(context !== undefined && { context }) }
    }
    outputs[key] = output
    if (context !== undefined) contexts[key] = context
    if (Object.keys(outputs).length < branches.length) return { taskState }
    const indexes = branches.map((_, index) => index)
    const last = indexes.findLast((index) => Object.hasOwn(contexts, index))
    const exported = last === undefined ? {} : { context: contexts[last] ?? null }
    return { done: task.checkSize(indexes.map((index) => outputs[index] ?? null)), ...exported }
  },
  summary({ branches, compete }) {
    return `${compete ? 'race' : 'fork'} ${namesOf(branches)}`
  },
}
