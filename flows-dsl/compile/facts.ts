/** Computes static facts of a compiled flow: what it calls and reads, and an estimate of its cost. */

import type { EventEstimate, Facts, FlowIR, TaskNode } from '../ir.ts'
import { compareText } from '../json.ts'
import { taskType } from '../tasks/index.ts'
import type { InlineOption } from '../tasks/task.ts'

/** History events of an empty execution: start, first workflow task, end. */
const RUN_EVENTS = 5

/**
 * Events that one task of a kind leaves in the history of Temporal: a call schedules, starts and completes an activity
 * and has a workflow task of three events after it; a timer has two and the same three. A `listen` subscribes by an
 * activity. Other kinds leave none.
 */
const EVENTS: Readonly<Record<string, number>> = { call: 6, emit: 6, run: 6, wait: 5, listen: 10, approve: 4 }

/** An inline call leaves one marker event; one that falls back to an activity leaves those events, too. */
const LOCAL_EVENTS = 1

/** Task kinds that run their tasks once per item or event. */
const REPEATING = ['for', 'listen']

const NONE: EventEstimate = { fixed: 0, perItem: 0 }

/**
 * Computes the facts of a flow's tasks.
 * @param used names, in any order, of what they call and read
 */
export function computeFacts(
  flow: Pick<FlowIR, 'do' | 'onError' | 'finally'>,
  used: Required<Pick<Facts, 'functions' | 'secrets'>>,
): Facts {
  const { onError = [], finally: last = [] } = flow
  const tasks = [...flow.do, ...last]
  const events = sum(tasks.map(eventsOf))
  return {
    functions: [...used.functions].sort(compareText),
    secrets: [...used.secrets].sort(compareText),
    kinds: [...new Set(kindsOf([...tasks, ...onError]))].sort(compareText),
    events: { ...events, fixed: events.fixed + RUN_EVENTS },
    fanOut: Math.max(1, ...[...tasks, ...onError].map(fanOutOf)),
  }
}

function kindsOf(tasks: readonly TaskNode[]): readonly string[] {
  return tasks.flatMap((task) => [task.kind, ...kindsOf(childrenOf(task))])
}

/** Estimates the happy path: each task runs once, nothing fails, loops run once per item. */
function eventsOf(task: TaskNode): EventEstimate {
  const { kind, body } = task
  const extended = sum(extensionTasks(task).map(eventsOf))
  const { catch: _catch, ...lists } = listsOf(task)
  const inner = sum(Object.values(lists).flat().map(eventsOf))
  const own = { fixed: isLocal(body) ? LOCAL_EVENTS : (EVENTS[kind] ?? 0), perItem: 0 }
  if (!REPEATING.includes(kind)) return sum([own, extended, inner])
  const items = itemsOf(body)
  const all = inner.fixed + inner.perItem
  const loop = items === undefined ? { fixed: 0, perItem: all } : { fixed: all * items, perItem: 0 }
  return sum([own, extended, loop])
}

function sum(estimates: readonly EventEstimate[]): EventEstimate {
  return estimates.reduce(
    (total, { fixed, perItem }) => ({ fixed: total.fixed + fixed, perItem: total.perItem + perItem }),
    NONE,
  )
}

function fanOutOf(task: TaskNode): number {
  const extended = extensionTasks(task).map(fanOutOf)
  const inner = innerTasks(task).map(fanOutOf)
  if (task.kind !== 'fork') return Math.max(1, ...extended, ...inner) * concurrencyOf(task.body)
  const branches = inner.reduce((all, one) => all + one, 0)
  return Math.max(1, ...extended, branches)
}

function childrenOf(task: TaskNode): readonly TaskNode[] {
  return [...extensionTasks(task), ...innerTasks(task), ...(task.compensate ?? [])]
}

function extensionTasks({ extensions = [] }: TaskNode): readonly TaskNode[] {
  return extensions.flatMap(({ before = [], after = [] }) => [...before, ...after])
}

/** The lists of tasks within a task by name, such as `catch`. */
function listsOf({ kind, body }: TaskNode): Readonly<Record<string, readonly TaskNode[]>> {
  const { foreach, ...lists } = taskType(kind)?.lists?.(body) ?? {}
  // The iterator of `listen` wraps its tasks in a `do` that is not in the definition.
  return foreach === undefined ? lists : { ...lists, foreach: foreach.flatMap(innerTasks) }
}

function innerTasks(task: TaskNode): readonly TaskNode[] {
  return Object.values(listsOf(task)).flat()
}

function isLocal(body: unknown): boolean {
  return Boolean((body as { readonly local?: InlineOption } | undefined)?.local)
}

function itemsOf(body: unknown): number | undefined {
  const { in: source } = (body ?? {}) as {
    readonly in?: { readonly literal?: unknown; readonly array?: unknown[] }
  }
  const items = source?.literal ?? source?.array
  return Array.isArray(items) ? items.length : undefined
}

function concurrencyOf(body: unknown): number {
  const { concurrency } = (body ?? {}) as { readonly concurrency?: unknown }
  return typeof concurrency === 'number' ? concurrency : 1
}
