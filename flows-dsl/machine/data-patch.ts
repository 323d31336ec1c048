/** Patches the data of a paused execution, and holds failed tasks until an operator decides. */

import { FinalError, FlowError } from '../errors.ts'
import type { Json } from '../ir.ts'
import { isObject, mergePatch } from '../json.ts'
import { type MachineContext, taskContextOf } from './machine-context.ts'
import type { BranchContext, Frame, TaskFrame } from './state.ts'
import { typeOf } from './task-index.ts'
import { isEnding } from './unsettled-calls.ts'

export interface Patch {
  /** A merge patch (RFC 7396), applied to the `$context` of the flow and of each concurrent branch. */
  readonly context?: Json
  /** A held step, `pointer#iteration`. */
  readonly step?: string
  /** Replaces the step's raw input, before `input.from`. */
  readonly input?: Json
  /** The subject that changes the data, and those behind it, such as the maker of a key. */
  readonly by?: string
  readonly people?: readonly string[]
}

/**
 * @param reopenApprovals reopens granted approvals, or returns why that is impossible
 * @returns the reason for a refusal, which changes nothing; otherwise undefined
 */
export function patch(
  machine: MachineContext,
  { context, step, input }: Patch,
  reopenApprovals: () => string | undefined,
): string | undefined {
  const task = step === undefined ? undefined : machine.frames.entry(step)
  if (input !== undefined && task?.held === undefined)
    return 'The step does not wait for a decision about its error.'
  const changed = context === undefined ? [] : patchedContexts(machine, context)
  if (typeof changed === 'string') return changed
  const before = changed.map(({ memory }) => ({ memory, to: memory.context }))
  const isOther = changed.some(({ memory, to }) => differ(memory.context, to))
  applyChanges(changed)
  const refused =
    isOther || (task !== undefined && input !== undefined && differ(task.raw, input))
      ? reopenApprovals()
      : undefined
  if (refused !== undefined) {
    applyChanges(before)
    return refused
  }
  if (task !== undefined && input !== undefined) task.raw = input
  return undefined
}

type Change = { readonly memory: BranchContext; readonly to: Json }

function applyChanges(changes: readonly Change[]): void {
  for (const { memory, to } of changes) memory.context = to
}

/** Members in another order count as a change: an approval may be asked for once too often, never too rarely. */
const differ = (one: Json, other: Json) => JSON.stringify(one) !== JSON.stringify(other)

/** The new value of each `$context`, or why the patch is refused. */
function patchedContexts(machine: MachineContext, change: Json): Change[] | string {
  const memories = Object.values(machine.state.frames).flatMap(({ branchContext: memory }) => memory ?? [])
  try {
    return memories.map((memory) => ({
      memory,
      to: machine.evaluation.checkSize(mergedContext(memory.context, change)),
    }))
  } catch (error) {
    if (error instanceof FlowError) return `The patched $context is not valid: ${error.message}`
    throw error
  }
}

function mergedContext(target: Json, change: Json): Json {
  if (!isObject(change)) return change
  return mergePatch(isObject(target) ? target : {}, change) as Json
}

/** An operator's decision about a held task: retry it, go on with this output, or let it fault. */
export type HeldDecision = { readonly retry: true } | Skip | { readonly fail: true }

interface Skip {
  readonly skip: Json
  /** The subject that supplies the output, and those behind it. */
  readonly by?: string
  readonly people?: readonly string[]
}

/** True if the nearest `onFault` is `hold` and no enclosing task catches the error. */
export function shouldHold(machine: MachineContext, task: TaskFrame, error: FlowError): boolean {
  if (error instanceof FinalError || isEnding(machine.state)) return false
  let policy = machine.nodes.at(task.pointer).onFault
  let below: Frame = task
  for (let at = machine.frames.get(below.parent); at !== undefined; at = machine.frames.get(below.parent)) {
    if (at.is === 'task') {
      const node = machine.nodes.at(at.pointer)
      policy ??= node.onFault
      const failed = { key: below.key, error }
      if (
        mayCatch(() =>
          typeOf(node).catches?.(node.body, at.taskState, failed, taskContextOf(machine, node, at)),
        )
      )
        return false
    }
    below = at
  }
  return (policy ?? machine.ir.onFault) === 'hold'
}

/** A catch condition that fails counts as catching: the enclosing task evaluates it again and faults with that error. */
function mayCatch(catches: () => boolean | undefined): boolean {
  try {
    return catches() === true
  } catch (error) {
    if (error instanceof FlowError) return true
    throw error
  }
}

/** Holds a task with its input; its children are cancelled already. */
export function holdTask(machine: MachineContext, task: TaskFrame, error: FlowError): void {
  task.held = error.toObject()
  delete task.extension
  // An extension after the task may have failed: a retry starts from the beginning.
  delete task.done
  machine.record(task, { phase: 'held', error: task.held })
}
