/** Finds tasks of a compiled flow and the lists within them by pointer. */

import { ERRORS, FlowError } from '../errors.ts'
import type { FlowIR, TaskNode } from '../ir.ts'
import { taskType } from '../tasks/index.ts'
import type { TaskType } from '../tasks/task.ts'

type Lists = Readonly<Record<string, readonly TaskNode[]>>

/** @throws FlowError (configuration) for an unknown kind: a newer build has compiled the flow */
export function typeOf({ kind, pointer }: TaskNode): TaskType {
  const type = taskType(kind)
  if (type !== undefined) return type
  throw new FlowError(ERRORS.configuration, `There is no kind of task \`${kind}\` here.`, pointer)
}

/** All lists of tasks within one task: those of its type, of its extensions, and its compensation. */
function listsOf(node: TaskNode): Lists {
  const lists: Record<string, readonly TaskNode[]> = { ...taskType(node.kind)?.lists?.(node.body) }
  for (const [index, { before, after }] of (node.extensions ?? []).entries()) {
    if (before !== undefined) lists[`before ${index}`] = before
    if (after !== undefined) lists[`after ${index}`] = after
  }
  if (node.compensate !== undefined) lists['compensate'] = node.compensate
  return lists
}

/** All tasks of a flow by pointer. Tasks of an extension are listed in every task that it extends. */
export class TaskIndex {
  readonly #nodes = new Map<string, TaskNode>()
  readonly #lists = new Map<string, Lists>()

  constructor({ do: tasks, onError = [], finally: last = [] }: FlowIR) {
    const lists = { do: tasks, onError, finally: last }
    this.#lists.set('', lists)
    for (const list of Object.values(lists)) this.#add(list)
  }

  /** @throws FlowError (configuration) if a snapshot names a task that the flow does not contain */
  at(pointer: string): TaskNode {
    const node = this.#nodes.get(pointer)
    if (node === undefined) throw new FlowError(ERRORS.configuration, 'There is no such task here.', pointer)
    return node
  }

  /** In document order. */
  all(): TaskNode[] {
    return [...this.#nodes.values()]
  }

  /** @param of pointer of the task that contains the list; empty for the flow */
  list(of: string, name: string): readonly TaskNode[] {
    return this.#lists.get(of)?.[name] ?? []
  }

  #add(tasks: readonly TaskNode[]): void {
    for (const node of tasks) {
      if (this.#nodes.has(node.pointer)) continue
      const lists = listsOf(node)
      this.#nodes.set(node.pointer, node)
      this.#lists.set(node.pointer, lists)
      for (const list of Object.values(lists)) this.#add(list)
    }
  }
}
