/** Defines the types of a flow graph, and the edges of each task type into its lists and out of it. */

import type { TaskNode } from '../ir.ts'
import { pointerTo } from '../json.ts'
import { taskType } from '../tasks/index.ts'
import type { TryBody } from '../tasks/try.ts'

/** An edge out of a task; `next` is its flow directive, by default `continue`. */
export interface OutgoingEdge {
  readonly from: string
  readonly kind: EdgeKind
  readonly label?: string | undefined
  readonly next?: string | undefined
}

/** A list of tasks within a task. */
export interface NestedList {
  readonly name: string
  readonly tasks: readonly TaskNode[]
  readonly entries: readonly Pick<OutgoingEdge, 'kind' | 'label'>[]
  /** The tasks are branches, and the enclosing task continues when all of them do, or any. */
  readonly join?: 'all' | 'any'
  /** After the last task, the enclosing task continues (with the directive `next`), is repeated, or neither. */
  readonly atEnd: 'continue' | 'repeat' | 'stop'
  readonly next?: string | undefined
}

/** The control flow of a task: the edges out of the task itself, and the lists within it. */
interface ControlFlow {
  readonly edges: readonly OutgoingEdge[]
  readonly lists: readonly NestedList[]
}

/** The text of the scalar at a JSON pointer, without `${ }`. */
type TextAt = (pointer: string) => string | undefined

/** The control flow of a task as the definition shows it, without the functions that it calls. */
export function controlFlowOf(task: TaskNode, textAt: TextAt): ControlFlow {
  return expandedControlFlowOf(task, textAt, (inner) => inner.pointer.startsWith(`${task.pointer}/`))
}

/** The control flow of a task with the functions that it calls. */
export function expandedControlFlowOf(
  task: TaskNode,
  textAt: TextAt = () => undefined,
  isIncluded: (inner: TaskNode) => boolean = () => true,
): ControlFlow {
  const within = Object.entries(taskType(task.kind)?.lists?.(task.body) ?? {})
  const lists = within
    .filter(([, tasks]) => tasks.length > 0 && tasks.every(isIncluded))
    .map(([name, tasks]) => nestedList(name, tasks, task, textAt))
  const edges = ownEdges(task, lists, textAt)
  const { compensate } = task
  if (compensate === undefined) return { edges, lists }
  const entries = [{ kind: 'compensate' }] as const
  return { edges, lists: [...lists, { name: 'compensate', tasks: compensate, entries, atEnd: 'stop' }] }
}

/** The edges out of the task itself, without those of the tasks within it. */
function ownEdges(task: TaskNode, lists: readonly NestedList[], textAt: TextAt): readonly OutgoingEdge[] {
  switch (task.kind) {
    case 'do':
    case 'fork':
      return lists.length > 0 ? [] : [{ from: task.pointer, kind: 'next' }]
    case 'raise':
      return []
    case 'switch':
      return caseEdges(task, textAt)
    case 'try':
      return catchEdges(task, textAt)
    default:
      return [{ from: task.pointer, kind: 'next' }]
  }
}

function nestedList(name: string, tasks: readonly TaskNode[], task: TaskNode, textAt: TextAt): NestedList {
  if (task.kind === 'for' && name === 'do')
    return { name, tasks, entries: [{ kind: 'loop', label: eachOf(task, textAt) }], atEnd: 'repeat' }
  if (task.kind === 'fork') {
    const join = (task.body as { readonly compete: boolean }).compete ? 'any' : 'all'
    return { name, tasks, entries: [{ kind: 'branch' }], join, atEnd: 'continue' }
  }
  if (task.kind === 'try' && name === 'try')
    return { name, tasks, entries: tryEntries(task), atEnd: 'continue' }
  if (task.kind === 'try' && name === 'catch') {
    const { next } = catchOf(task)
    return {
      name,
      tasks,
      entries: [{ kind: 'catch', label: caughtText(task, textAt) }],
      atEnd: 'continue',
      next,
    }
  }
  // The tasks of `listen` for each event.
  if (name === 'foreach') return { name, tasks, entries: [{ kind: 'loop' }], atEnd: 'repeat' }
  return { name, tasks, entries: [{ kind: 'next' }], atEnd: 'continue' }
}

/** `each line, 4 at a time`, `each line while .ok` */
function eachOf({ body, pointer }: TaskNode, textAt: TextAt): string {
  const condition = textAt(`${pointer}/while`)
  const { each, concurrency } = body as { each: string; concurrency?: number }
  const pace = concurrency === undefined ? '' : `, ${concurrency} at a time`
  return `each ${each}${pace}${condition === undefined ? '' : ` while ${condition}`}`
}

/** A switch without a matching case continues with the next task. */
function caseEdges({ pointer, body }: TaskNode, textAt: TextAt): OutgoingEdge[] {
  const { cases } = body as { cases: readonly { name: string; when?: unknown; next: string }[] }
  const edges = cases.map(({ name, when, next }, index): OutgoingEdge => {
    const condition = textAt(`${pointerTo(`${pointer}/switch/${index}`, name)}/when`)
    return when === undefined
      ? { from: pointer, kind: 'default', label: name, next }
      : { from: pointer, kind: 'case', label: condition ?? name, next }
  })
  const hasDefault = edges.some(({ kind }) => kind === 'default')
  return hasDefault ? edges : [...edges, { from: pointer, kind: 'default' }]
}

const catchOf = ({ body }: TaskNode) => (body as TryBody).catch

/** An error that is caught but has neither a handler nor retries: the task continues. */
function catchEdges(task: TaskNode, textAt: TextAt): OutgoingEdge[] {
  const { tasks, retry, next } = catchOf(task)
  if (tasks !== undefined || retry !== undefined) return []
  return [{ from: task.pointer, kind: 'catch', label: caughtText(task, textAt), next }]
}

/** A retry starts again at the first task. */
function tryEntries(task: TaskNode): NestedList['entries'] {
  const { retry } = catchOf(task)
  if (retry === undefined) return [{ kind: 'next' }]
  const label = retry.count === undefined ? undefined : `at most ${retry.count}`
  return [{ kind: 'next' }, { kind: 'retry', label }]
}

function caughtText(task: TaskNode, textAt: TextAt): string | undefined {
  const condition = textAt(`${task.pointer}/catch/when`)
  const wanted = Object.entries(catchOf(task).errors).map(([field, value]) => `${field} ${String(value)}`)
  const texts = [...wanted, ...(condition === undefined ? [] : [condition])]
  return texts.length === 0 ? undefined : texts.join(', ')
}

/** A node. Tasks have a location in the source; `parent` and `list` are the enclosing task and its list. */
export interface GraphNode {
  /** The JSON pointer of the task, or `start`, or `end`. */
  readonly id: string
  readonly kind: string
  readonly name: string
  readonly label: string
  readonly pointer?: string
  readonly line?: number
  readonly column?: number
  readonly parent?: string
  readonly list?: string
}

/** The reason for an edge. `loop` leads into the tasks of a loop, and from their end back to it. */
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
