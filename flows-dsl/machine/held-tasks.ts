/** Knows when a task that has faulted waits for somebody to decide, instead of ending the run (`onFault: hold`). */

import { FinalError, FlowError } from '../errors.ts'
import type { Json } from '../ir.ts'
import type { Desk } from './machine-context.ts'
import type { Frame, TaskFrame } from './state.ts'
import { runningOf } from './task-context.ts'
import { typeOf } from './task-index.ts'

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
