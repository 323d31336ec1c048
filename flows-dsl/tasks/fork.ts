/** `fork`: runs tasks at the same time, for all their outputs or for the first (OWS 1.0 "Fork"). */

import type { Json, TaskNode } from '../ir.ts'
import { entryOf } from '../located.ts'
import type { TaskType } from './task.ts'

interface ForkBody {
  readonly branches: readonly TaskNode[]
  readonly compete: boolean
}

/** What branches have yielded so far, by their places. */
interface Yields {
  readonly outputs: Record<string, Json>
  readonly contexts: Record<string, Json>
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
  lists({ branches }) {
    return { branches }
  },
  start({ branches }, { input }) {
    const begin = branches.map(
      (_, index) => ({ key: String(index), task: ['branches', index], input, apart: true }) as const,
    )
    return { own: { outputs: {}, contexts: {} }, begin }
  },
  next({ branches, compete }, own, { key, output, left, context }, running) {
    const { outputs, contexts } = own as unknown as Yields
    if (compete || left === 'end')
      return {
        done: output,
        ...(left === 'end' && { next: left }),
        ...(context !== undefined && { context }),
      }
    outputs[key] = output
    if (context !== undefined) contexts[key] = context
    if (Object.keys(outputs).length < branches.length) return { own }
    const last = Object.keys(contexts)
      .map(Number)
      .sort((a, b) => a - b)
      .at(-1)
    const exported = last === undefined ? {} : { context: contexts[last] ?? null }
    return { done: running.bounded(branches.map((_, index) => outputs[index] ?? null)), ...exported }
  },
  summary({ branches, compete }) {
    return `${compete ? 'race' : 'fork'} ${branches.map(({ name }) => name).join(', ')}`
  },
}
