/** Knows how each kind of task leads on: into the lists within it, and out of it. */

import type { JsonObject, TaskNode } from '../ir.ts'
import type { EdgeKind } from './graph.ts'

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
  /** Each of the tasks is entered by itself. */
  readonly apart?: boolean
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

type ShapeOf = (task: TaskNode, textAt: TextAt) => Shape

/** The kinds that do not just go on. */
const SHAPES: Readonly<Record<string, ShapeOf>> = {
  do: (task) => ({ ways: [], lists: [{ name: 'do', tasks: tasksOf(task), entries: [NEXT], goes: 'on' }] }),
  for: (task, textAt) => ({
    ways: [wayFrom(task)],
    lists: [
      {
        name: 'do',
        tasks: tasksOf(task),
        entries: [{ kind: 'loop', label: eachOf(task, textAt) }],
        goes: 'back',
      },
    ],
  }),
  fork: (task) => ({
    ways: [],
    lists: [
      {
        name: 'branches',
        tasks: (task.body as { branches: readonly TaskNode[] }).branches,
        entries: [{ kind: 'branch' }],
        apart: true,
        goes: 'on',
      },
    ],
  }),
  raise: () => ({ ways: [], lists: [] }),
  switch: (task, textAt) => ({ ways: casesOf(task, textAt), lists: [] }),
  try: tryShape,
}

const NEXT = { kind: 'next' } as const

/** How a task leads on. What an unknown kind holds is not looked into. */
export function shapeOf(task: TaskNode, textAt: TextAt): Shape {
  const shape = Object.hasOwn(SHAPES, task.kind) ? SHAPES[task.kind] : undefined
  return shape?.(task, textAt) ?? { ways: [wayFrom(task)], lists: [] }
}

const wayFrom = (task: TaskNode): Way => ({ from: task.pointer, kind: 'next' })

const tasksOf = (task: TaskNode) => (task.body as { tasks: readonly TaskNode[] }).tasks

function eachOf({ body, pointer }: TaskNode, textAt: TextAt): string {
  const condition = textAt(`${pointer}/while`)
  const { each } = body as { each: string }
  return condition === undefined ? `each ${each}` : `each ${each} while ${condition}`
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

interface Catching {
  readonly tasks: readonly TaskNode[]
  readonly catch: {
    readonly errors: JsonObject
    readonly retry?: { readonly count?: number }
    readonly tasks?: readonly TaskNode[]
    readonly next?: string
  }
}

/** Retries lead back to the first task; what is caught and not handled goes on, unless retries have failed. */
function tryShape(task: TaskNode, textAt: TextAt): Shape {
  const { tasks, catch: caught } = task.body as Catching
  const { pointer } = task
  const label = caughtText(caught.errors, textAt(`${pointer}/catch/when`))
  const { retry, next } = caught
  const often = retry?.count === undefined ? undefined : `at most ${retry.count}`
  const entries = retry === undefined ? [NEXT] : [NEXT, { kind: 'retry', label: often } as const]
  const attempt: InnerList = { name: 'try', tasks, entries, goes: 'on' }
  if (caught.tasks === undefined) {
    const ways: Way[] = retry === undefined ? [{ from: pointer, kind: 'catch', label, next }] : []
    return { ways, lists: [attempt] }
  }
  const handling = { name: 'catch', tasks: caught.tasks, entries: [{ kind: 'catch', label }] } as const
  return { ways: [], lists: [attempt, { ...handling, goes: 'on', next }] }
}

function caughtText(errors: JsonObject, condition: string | undefined): string | undefined {
  const wanted = Object.entries(errors).map(([field, value]) => `${field} ${String(value)}`)
  const texts = [...wanted, ...(condition === undefined ? [] : [condition])]
  return texts.length === 0 ? undefined : texts.join(', ')
}
