/** From the wishes of one request to its changes, each planned on what the ones before it will leave. */

import { Problem } from '../../core/problem.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import type { CpuBudget } from '../../platform/turns.ts'
import { comparedAs } from '../schemas/canonical.ts'
import type { Fault } from '../schemas/validate.ts'
import { after, type Fields } from './fields.ts'
import { isToBeJudged, judgeInThread } from './judge.ts'
import type { Collection } from './store.ts'
import type { Where } from './stores.ts'
import { type Current, type Planned, planAlone, planOn, type Wish } from './wishes.ts'

export interface Task extends Where {
  readonly wish: Wish
  /** Of a document that comes to be. */
  readonly id: string
}

export type Plan = (task: Task, index: number) => Planned

/** A planned change whose document is validated. */
export interface Judged extends Planned {
  readonly warnings: readonly Fault[]
}

/** One after the other, with time for others between them. @throws Problem of the first that cannot be planned */
export async function planAll(
  scope: WorkspaceScope,
  tasks: readonly Task[],
  plan: Plan,
  turns: CpuBudget,
): Promise<Judged[]> {
  const judged: Judged[] = []
  try {
    for (const [index, task] of tasks.entries()) {
      const planned = turns.run(() => plan(task, index))
      judged.push(isJudged(planned) ? planned : await judgedApart(scope, planned, turns))
      await turns.yield()
    }
  } catch (error) {
    throw located(error, judged.length, tasks)
  }
  return judged
}

const isJudged = (planned: Planned): planned is Judged => !isToBeJudged(planned.warnings)

/** Validates the document of a planned change, in a worker thread if that takes many steps. @throws Problem as `judgeInThread` does */
export async function judgedApart(
  scope: WorkspaceScope,
  planned: Planned,
  turns: CpuBudget,
): Promise<Judged> {
  const { warnings } = planned
  return {
    ...planned,
    warnings: isToBeJudged(warnings) ? await judgeInThread(scope, warnings, turns) : warnings,
  }
}

export const alone: Plan = ({ collection, wish, id }) => planAlone(collection, wish, id)

/** Each on what the ones before it will have left. */
export function planner(currents: readonly (Current | undefined)[]): Plan {
  const left = new Map<string, Left>()
  return (task, index) => {
    const current = lastOf(left, task, currents[index])
    const planned = planOn(task.collection, task.wish, current, task.id)
    const { id } = planned.change
    left.set(keyIn(task.collection, id), { collection: task.collection, ...next(planned, current) })
    return planned
  }
}

/** A document as an earlier task leaves it; undefined where that deletes it. */
interface Left {
  readonly collection: Collection
  readonly current: Current | undefined
}

const keyIn = (collection: Collection, id: string) => `${collection.name}/${id}`

function lastOf(left: Map<string, Left>, task: Task, read: Current | undefined): Current | undefined {
  const { wish, collection } = task
  if (wish.op === 'create') return undefined
  if (wish.op === 'upsert' && read === undefined) return newlyMade(left, collection, wish)
  const id = 'id' in wish ? wish.id : (read?.id ?? '')
  const known = left.get(keyIn(collection, id))
  return known === undefined ? read : known.current
}

function newlyMade(
  left: Map<string, Left>,
  collection: Collection,
  { on, data }: Extract<Wish, { op: 'upsert' }>,
): Current | undefined {
  const value = (fields: Fields | undefined, field: string) =>
    comparedAs(collection.declared?.formats.get(field), fields?.[field])
  const made = [...left.values()].find(
    ({ collection: { name }, current }) =>
      name === collection.name && on.every((field) => value(current?.fields, field) === value(data, field)),
  )
  return made?.current
}

function next({ change }: Planned, current: Current | undefined): Pick<Left, 'current'> {
  if (change.verb === 'delete') return { current: undefined }
  const { id, content } = change
  if (change.verb !== 'update')
    return { current: { id, fields: content.fields, version: (current?.version ?? 0) + 1 } }
  const untouched = Object.keys(content.fields).length + change.unset.length === 0
  const version = (current?.version ?? 0) + (untouched ? 0 : 1)
  return { current: { id, fields: after(current?.fields ?? {}, content.fields, change.unset), version } }
}

/** Of several, which one it is about. */
export function located(error: unknown, index: number, tasks: readonly Task[]): unknown {
  if (!(error instanceof Problem) || tasks.length === 1) return error
  return error.with({ op_index: index })
}
