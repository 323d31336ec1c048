/** Plans document commands: from what callers ask for to the changes that a store writes. */

import { mergePatch } from '../../../flows-dsl/merge-patch.ts'
import { Problem } from '../../core/problem.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import type { Turns } from '../../platform/turns.ts'
import { comparedAs } from '../schemas/canonical.ts'
import { withDefaults } from '../schemas/columns.ts'
import type { Fault } from '../schemas/validate.ts'
import { after, checkFields, type Fields } from './fields.ts'
import { isToBeJudged, type Judgement, judge, judgeChange, judgeInThread, judgesAlone } from './judge.ts'
import { type Change, type Collection, type Content, missing, type Stored, stale } from './store.ts'
import type { Right, Where } from './stores.ts'

interface OnOne {
  readonly id: string
  /** Versions that the caller takes; where absent, any. */
  readonly ifVersions?: readonly number[] | undefined
}

type Update = { readonly op: 'update'; readonly data: Fields; readonly unset: readonly string[] } & OnOne

export type Wish =
  | { readonly op: 'create'; readonly data: Fields }
  /** Updates the document with these values in the unique fields `on`; creates one where there is none. */
  | { readonly op: 'upsert'; readonly on: readonly string[]; readonly data: Fields }
  | Update
  /** RFC 7396. */
  | ({ readonly op: 'merge'; readonly data: Fields } & OnOne)
  | ({ readonly op: 'replace'; readonly data: Fields } & OnOne)
  | ({ readonly op: 'increment'; readonly field: string; readonly by: number } & OnOne)
  | ({ readonly op: 'delete' } & OnOne)

/** What anon keys need for it. What was read shows in what comes back, but for a new document. */
export const RIGHTS: Readonly<Record<Wish['op'], readonly Right[]>> = {
  create: ['create'],
  upsert: ['read', 'create', 'update'],
  update: ['read', 'update'],
  merge: ['read', 'update'],
  replace: ['read', 'update'],
  increment: ['read', 'update'],
  delete: ['read', 'delete'],
}

/** A document as it is, or as earlier changes of the same transaction will have left it. */
export type Current = Pick<Stored, 'id' | 'fields' | 'version'>

export interface Planned {
  readonly change: Change
  readonly warnings: Judgement
  /** It rests on what was read: where that has changed meanwhile, it is planned again. */
  readonly again: boolean
}

/** Whether the change can be told without the document. */
export function standsAlone(collection: Collection, wish: Wish): boolean {
  if (wish.op === 'update')
    return judgesAlone(collection) && (wish.unset.length === 0 || collection.declared === undefined)
  return wish.op === 'create' || wish.op === 'replace' || wish.op === 'delete'
}

/** The change of a wish that stands alone. @param newId the id of a document that comes to be */
export function planAlone(collection: Collection, wish: Wish, newId: string): Planned {
  if (wish.op === 'create') return creation(collection, wish.data, newId)
  if (wish.op !== 'update' && wish.op !== 'replace' && wish.op !== 'delete')
    throw new TypeError(`${wish.op} does not stand alone`)
  const at = { id: wish.id, ...(wish.ifVersions !== undefined && { ifVersions: wish.ifVersions }) }
  if (wish.op === 'delete') return { change: { verb: 'delete', ...at }, warnings: [], again: false }
  if (wish.op === 'replace') {
    const { content, warnings } = checked(collection, defaulted(collection, wish.data))
    return { change: { verb: 'replace', ...at, content }, warnings, again: false }
  }
  const content = checkFields(wish.data)
  const warnings = judgeChange(collection, content.fields)
  return { change: { verb: 'update', ...at, content, unset: wish.unset }, warnings, again: false }
}

/**
 * The change of any wish, from what is there. What is judged is the document that comes out; it is written on the
 * condition that nobody else has written meanwhile.
 * @throws Problem where there is nothing, it is at another version, or what came of it may not be
 */
export function planOn(
  collection: Collection,
  wish: Wish,
  current: Current | undefined,
  newId: string,
): Planned {
  if (wish.op === 'create') return creation(collection, wish.data, newId)
  if (wish.op === 'upsert') return planUpsert(collection, wish.data, current, newId)
  if (current === undefined) throw missing()
  const { id, version } = current
  if (wish.ifVersions !== undefined && !wish.ifVersions.includes(version)) throw stale(version)
  const at = { id, ifVersions: [version] }
  switch (wish.op) {
    case 'delete':
      return { change: { verb: 'delete', ...at }, warnings: [], again: true }
    case 'replace':
      return written(collection, at, defaulted(collection, wish.data))
    case 'merge':
      if (Object.keys(wish.data).length === 0) return setting(collection, at, current, NOTHING)
      // The patch is held to the same bounds as what comes of it.
      return written(collection, at, mergePatch(current.fields, checkFields(wish.data).fields))
    case 'update':
      return setting(collection, at, current, wish)
    case 'increment': {
      const data = { [wish.field]: increased(current.fields, wish.field, wish.by) }
      return setting(collection, at, current, { data, unset: [] })
    }
  }
}

function planUpsert(
  collection: Collection,
  data: Fields,
  current: Current | undefined,
  newId: string,
): Planned {
  if (current === undefined) return { ...creation(collection, data, newId), again: true }
  const at = { id: current.id, ifVersions: [current.version] }
  return setting(collection, at, current, { data, unset: [] })
}

function creation(collection: Collection, data: Fields, id: string): Planned {
  const { content, warnings } = checked(collection, defaulted(collection, data))
  return { change: { verb: 'create', id, content }, warnings, again: false }
}

const NOTHING = { data: {}, unset: [] } as const

type At = { readonly id: string; readonly ifVersions: readonly number[] }

function written(collection: Collection, at: At, fields: Fields): Planned {
  const { content, warnings } = checked(collection, fields)
  return { change: { verb: 'replace', ...at, content }, warnings, again: true }
}

function setting(
  collection: Collection,
  at: At,
  current: Current,
  { data, unset }: Pick<Update, 'data' | 'unset'>,
): Planned {
  const content = checkFields(data)
  const { warnings } = checked(collection, after(current.fields, content.fields, unset))
  return { change: { verb: 'update', ...at, content, unset }, warnings, again: true }
}

function checked(collection: Collection, fields: Fields): { content: Content; warnings: Judgement } {
  const content = checkFields(fields)
  return { content, warnings: judge(collection, content.fields) }
}

/** In any mode: a default is no condition. */
function defaulted({ declared }: Collection, fields: Fields): Fields {
  return declared === undefined ? fields : withDefaults(declared.defaults, fields)
}

function increased(fields: Fields, field: string, by: number): number {
  const now = Object.hasOwn(fields, field) ? fields[field] : 0
  if (typeof now === 'number') return now + by
  throw new Problem('state_conflict', { detail: `The field ${field.slice(0, 100)} is not a number.` })
}

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
  turns: Turns,
): Promise<Judged[]> {
  const judged: Judged[] = []
  try {
    for (const [index, task] of tasks.entries()) {
      const planned = turns.take(() => plan(task, index))
      judged.push(isJudged(planned) ? planned : await judgedApart(scope, planned, turns))
      await turns.rest()
    }
  } catch (error) {
    throw located(error, judged.length, tasks)
  }
  return judged
}

const isJudged = (planned: Planned): planned is Judged => !isToBeJudged(planned.warnings)

/** Validates the document of a planned change, in a worker thread if that takes many steps. @throws Problem as `judgeInThread` does */
export async function judgedApart(scope: WorkspaceScope, planned: Planned, turns: Turns): Promise<Judged> {
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
