/** Patches data of an execution that stands still, and lets held tasks be retried or skipped. */

import { FinalError, FlowError } from '../errors.ts'
import type { Json } from '../ir.ts'
import { isObject, mergePatch } from '../json.ts'
import { type Desk, runningOf } from './machine-context.ts'
import type { Frame, Memory, TaskFrame } from './state.ts'
import { typeOf } from './task-index.ts'

export interface Patch {
  /** A merge patch (RFC 7396) of `$context`: of every line of tasks under way, since each has its own. */
  readonly context?: Json
  /** Held, by `pointer#iteration`. */
  readonly step?: string
  /** What the step gets instead of its input, before `input.from`. */
  readonly input?: Json
  /** The subject that changes them. */
  readonly by?: string
}

/**
 * @param ask asks for approvals again, or says why that cannot be
 * @returns why it is refused, if it is; nothing is changed then
 */
export function patch(
  desk: Desk,
  { context, step, input }: Patch,
  ask: () => string | undefined,
): string | undefined {
  const task = step === undefined ? undefined : desk.frames.entry(step)
  if (input !== undefined && task?.held === undefined)
    return 'The step does not wait for a decision about its error.'
  const changed = context === undefined ? [] : patched(desk, context)
  if (typeof changed === 'string') return changed
  const before = changed.map(({ memory }) => ({ memory, to: memory.context }))
  const isOther = changed.some(({ memory, to }) => differ(memory.context, to))
  remember(changed)
  const refused =
    isOther || (task !== undefined && input !== undefined && differ(task.raw, input)) ? ask() : undefined
  if (refused !== undefined) {
    remember(before)
    return refused
  }
  if (task !== undefined && input !== undefined) task.raw = input
  return undefined
}

type Change = { readonly memory: Memory; readonly to: Json }

function remember(changes: readonly Change[]): void {
  for (const { memory, to } of changes) memory.context = to
}

/** The same members in another order count as a change: that asks once more than it must. */
const differ = (one: Json, other: Json) => JSON.stringify(one) !== JSON.stringify(other)

/** What each `$context` of the run becomes, or why it cannot. */
function patched(desk: Desk, change: Json): Change[] | string {
  const memories = Object.values(desk.state.frames).flatMap(({ memory }) => memory ?? [])
  try {
    return memories.map((memory) => ({ memory, to: desk.evaluation.bounded(merged(memory.context, change)) }))
  } catch (error) {
    if (error instanceof FlowError) return `What $context would be is refused: ${error.message}`
    throw error
  }
}

function merged(target: Json, change: Json): Json {
  if (!isObject(change)) return change
  return mergePatch(isObject(target) ? target : {}, change) as Json
}

/** What somebody decides about a task that is held: that it is tried again, goes on with this output, or faults. */
export type Release = { readonly retry: true } | Skip | { readonly fail: true }

interface Skip {
  readonly skip: Json
  /** The subject whose output it is. */
  readonly by?: string
}

/** The nearest `onFault` says so, and nothing around the task would catch the error. */
export function isHeld(desk: Desk, task: TaskFrame, error: FlowError): boolean {
  if (error instanceof FinalError || desk.state.undoing !== undefined) return false
  let policy = desk.nodes.at(task.pointer).onFault
  let below: Frame = task
  for (let at = desk.frames.get(below.parent); at !== undefined; at = desk.frames.get(below.parent)) {
    if (at.is === 'task') {
      const node = desk.nodes.at(at.pointer)
      policy ??= node.onFault
      const failed = { key: below.key, error }
      if (mayCatch(() => typeOf(node).catches?.(node.body, at.own, failed, runningOf(desk, node, at))))
        return false
    }
    below = at
  }
  return (policy ?? desk.ir.onFault) === 'hold'
}

/** A condition that fails is the fault of the task around, which asks it again: it must not end the run from here. */
function mayCatch(catches: () => boolean | undefined): boolean {
  try {
    return catches() === true
  } catch (error) {
    if (error instanceof FlowError) return true
    throw error
  }
}

/** It keeps its place and its input; what it had begun is given up already. */
export function hold(desk: Desk, task: TaskFrame, error: FlowError): void {
  task.held = error.toObject()
  delete task.extension
  // What it had yielded before an extension failed: tried again, it begins from its start.
  delete task.done
  desk.record(task, { phase: 'held', error: task.held })
}
