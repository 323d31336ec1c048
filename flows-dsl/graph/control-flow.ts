/** The types of a flow graph, and for each task type the edges into its lists and out of it. */

import type { JsonObject, TaskNode } from '../ir.ts'
import { taskType } from '../tasks/index.ts'

/** A way out of a task; `next` is the flow directive that it follows, `continue` if there is none. */
export interface Way {
  readonly from: string
  readonly kind: EdgeKind
  readonly label?: string | undefined
  readonly next?: string | undefined
}

/** A list of tasks within a task. */
export interface InnerList {
  readonly name: string
  readonly tasks: readonly TaskNode[]
  /** Why the first task is entered: an edge each. */
  readonly entries: readonly Pick<Way, 'kind' | 'label'>[]
  /** Each of the tasks is entered by itself; all of them must go on for what comes after, or any. */
  readonly apart?: 'all' | 'any'
  /** Where its end leads: on from the task, perhaps by a directive (`next`), or back to the task. */
  readonly goes: 'on' | 'back' | 'nowhere'
  readonly next?: string | undefined
}

/** `ways` lead from the task itself to what comes after it. */
interface Shape {
  readonly ways: readonly Way[]
  readonly lists: readonly InnerList[]
}

/** The text of the scalar at a JSON pointer, without `${ }`. */
type TextAt = (pointer: string) => string | undefined

/** How a task leads on, as it stands: without what is put into it from elsewhere. */
export function shapeOf(task: TaskNode, textAt: TextAt): Shape {
  return shapeWith(task, textAt, (inner) => inner.pointer.startsWith(`${task.pointer}/`))
}

/** How a task leads on, with the functions that `use` declares: they are put in wherever they are named. */
export function wholeShapeOf(task: TaskNode): Shape {
  return shapeWith(
    task,
    () => undefined,
    () => true,
  )
}

function shapeWith(task: TaskNode, textAt: TextAt, isShown: (inner: TaskNode) => boolean): Shape {
  const within = Object.entries(taskType(task.kind)?.lists?.(task.body) ?? {})
  const lists = within
    .filter(([, tasks]) => tasks.length > 0 && tasks.every(isShown))
    .map(([name, tasks]) => innerList(name, tasks, task, textAt))
  const ways = waysOf(task, lists, textAt)
  return { ways, lists: task.compensate === undefined ? lists : [...lists, undoing(task.compensate)] }
}

/** The ways that lead out of the task itself, not of the tasks within it. */
function waysOf(task: TaskNode, lists: readonly InnerList[], textAt: TextAt): readonly Way[] {
  switch (task.kind) {
    case 'do':
    case 'fork':
      return lists.length > 0 ? [] : [{ from: task.pointer, kind: 'next' }]
    case 'raise':
      return []
    case 'switch':
      return casesOf(task, textAt)
    case 'try':
      return uncaughtOf(task, textAt)
    default:
      return [{ from: task.pointer, kind: 'next' }]
  }
}

function innerList(name: string, tasks: readonly TaskNode[], task: TaskNode, textAt: TextAt): InnerList {
  if (task.kind === 'for' && name === 'do')
    return { name, tasks, entries: [{ kind: 'loop', label: eachOf(task, textAt) }], goes: 'back' }
  if (task.kind === 'fork') {
    const apart = (task.body as { readonly compete: boolean }).compete ? 'any' : 'all'
    return { name, tasks, entries: [{ kind: 'branch' }], apart, goes: 'on' }
  }
  if (task.kind === 'try' && name === 'try') return { name, tasks, entries: attemptsOf(task), goes: 'on' }
  if (task.kind === 'try' && name === 'catch') {
    const { next } = catchOf(task)
    return { name, tasks, entries: [{ kind: 'catch', label: caughtText(task, textAt) }], goes: 'on', next }
  }
  // What runs again and again beside a task that waits, such as for each event that it hears.
  if (name === 'foreach') return { name, tasks, entries: [{ kind: 'loop' }], goes: 'back' }
  return { name, tasks, entries: [{ kind: 'next' }], goes: 'on' }
}

const undoing = (tasks: readonly TaskNode[]): InnerList => ({
  name: 'compensate',
  tasks,
  entries: [{ kind: 'compensate' }],
  goes: 'nowhere',
})

/** `each line, 4 at a time`, `each line while .ok` */
function eachOf({ body, pointer }: TaskNode, textAt: TextAt): string {
  const condition = textAt(`${pointer}/while`)
  const { each, concurrency } = body as { each: string; concurrency?: number }
  const pace = concurrency === undefined ? '' : `, ${concurrency} at a time`
  return `each ${each}${pace}${condition === undefined ? '' : ` while ${condition}`}`
}

/** A switch in which no case holds goes on as if it were no switch. */
function casesOf({ pointer, body }: TaskNode, textAt: TextAt): Way[] {
  const { cases } = body as { cases: readonly { name: string; when?: unknown; next: string }[] }
  const ways = cases.map(({ name, when, next }, index): Way => {
    const key = name.replaceAll('~', '~0').replaceAll('/', '~1')
    const condition = textAt(`${pointer}/switch/${index}/${key}/when`)
    return when === undefined
      ? { from: pointer, kind: 'default', label: name, next }
      : { from: pointer, kind: 'case', label: condition ?? name, next }
  })
  const hasDefault = ways.some(({ kind }) => kind === 'default')
  return hasDefault ? ways : [...ways, { from: pointer, kind: 'default' }]
}

interface Catch {
  readonly errors: JsonObject
  readonly retry?: { readonly count?: number }
  readonly tasks?: readonly TaskNode[]
  readonly next?: string
}

const catchOf = ({ body }: TaskNode) => (body as { catch: Catch }).catch

/** What is caught and not handled goes on, unless retries have failed. */
function uncaughtOf(task: TaskNode, textAt: TextAt): Way[] {
  const { tasks, retry, next } = catchOf(task)
  if (tasks !== undefined || retry !== undefined) return []
  return [{ from: task.pointer, kind: 'catch', label: caughtText(task, textAt), next }]
}

/** A retry begins with the first task again. */
function attemptsOf(task: TaskNode): InnerList['entries'] {
  const { retry } = catchOf(task)
  if (retry === undefined) return [{ kind: 'next' }]
  const label = retry.count === undefined ? undefined : `at most ${retry.count}`
  return [{ kind: 'next' }, { kind: 'retry', label }]
}

/** Which errors are caught. */
function caughtText(task: TaskNode, textAt: TextAt): string | undefined {
  const condition = textAt(`${task.pointer}/catch/when`)
  const wanted = Object.entries(catchOf(task).errors).map(([field, value]) => `${field} ${String(value)}`)
  const texts = [...wanted, ...(condition === undefined ? [] : [condition])]
  return texts.length === 0 ? undefined : texts.join(', ')
}

/** Tasks have a place in the source; `parent` and `list` say in which list of which task one stands. */
export interface GraphNode {
  /** The JSON pointer of the task, or `start`, or `end`. */
  readonly id: string
  readonly kind: string
  readonly name: string
  /** One line that says what it will do. */
  readonly label: string
  readonly pointer?: string
  readonly line?: number
  readonly column?: number
  readonly parent?: string
  readonly list?: string
}

/** Why an edge is taken. `loop` leads into the tasks of a loop, and from their end back to it. */
export const EDGE_KINDS = [
  'next',
  'case',
  'default',
  'catch',
  'retry',
  'exit',
  'end',
  'branch',
  'loop',
  'compensate',
] as const

export type EdgeKind = (typeof EDGE_KINDS)[number]

export interface GraphEdge {
  readonly from: string
  readonly to: string
  readonly kind: EdgeKind
  readonly label?: string
}

export interface Graph {
  readonly nodes: readonly GraphNode[]
  readonly edges: readonly GraphEdge[]
}
