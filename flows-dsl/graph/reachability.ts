/** Finds the tasks of a compiled flow that no edge reaches, regardless of conditions and decisions. */

import type { FlowIR, TaskNode } from '../ir.ts'
import { expandedControlFlowOf, type NestedList } from './control-flow.ts'

/** A task that no execution enters, and the reachable task before it, which never continues with it. */
export interface UnreachableTask {
  readonly pointer: string
  readonly name: string
  readonly before: TaskNode
}

/** The unreachable tasks; of several in sequence only the first. */
export function unreachableTasks({ do: tasks, onError, finally: last, onFault }: FlowIR): UnreachableTask[] {
  const analysis = new ReachabilityAnalysis()
  analysis.list(tasks, onFault)
  for (const list of [onError, last]) if (list !== undefined) analysis.list(list, undefined)
  return [...analysis.unreachable.values()].filter(({ pointer }) => !analysis.reached.has(pointer))
}

/** The exits of a list after which the enclosing task continues: at its end (`continue`), or by `exit`. */
type ListExits = ReadonlySet<'continue' | 'exit'>

/** Functions and extensions occur in several positions. A task is unreachable if it is so in all of them. */
class ReachabilityAnalysis {
  readonly reached = new Set<string>()
  readonly unreachable = new Map<string, UnreachableTask>()

  /** Follows all edges through a sequence of tasks. @param policy the `onFault` of the enclosing task */
  list(tasks: readonly TaskNode[], policy: TaskNode['onFault']): ListExits {
    const indexes = new Map(tasks.map(({ name }, index) => [name, index]))
    const entered = new Set([0])
    const exits = new Set<'continue' | 'exit'>()
    // The set grows during the iteration.
    for (const index of entered) {
      const task = tasks[index]
      const directives = task === undefined ? [] : this.#task(task, policy)
      if (task === undefined) exits.add('continue')
      for (const next of directives) {
        const named = indexes.get(next)
        if (next === 'exit') exits.add(next)
        else if (next === 'continue') entered.add(index + 1)
        else if (named !== undefined) entered.add(named)
      }
    }
    this.#recordReached(tasks, entered)
    return exits
  }

  #recordReached(tasks: readonly TaskNode[], entered: ReadonlySet<number>): void {
    for (const [index, { pointer, name }] of tasks.entries()) {
      const before = tasks[index - 1]
      const declared = definitionPointer(pointer)
      if (entered.has(index)) this.reached.add(declared)
      else if (before !== undefined && entered.has(index - 1))
        this.unreachable.set(declared, { pointer: declared, name, before })
    }
  }

  /** @returns the flow directives that may follow the task */
  #task(task: TaskNode, inherited: TaskNode['onFault']): ReadonlySet<string> {
    const then = task.next ?? 'continue'
    const policy = task.onFault ?? inherited
    const { edges, lists } = expandedControlFlowOf(task)
    const out = new Set(edges.map(({ next }) => next ?? then))
    for (const list of lists) if (this.#canContinue(list, policy)) out.add(list.next ?? then)
    if (this.#canBeSkipped(task, policy)) out.add(then)
    if (task.if !== undefined) out.add('continue')
    // An operator who decides about the error may skip the task.
    if (policy === 'hold') out.add(then)
    return out
  }

  /** Tests if the task can continue after a list within it. */
  #canContinue({ tasks, join, atEnd }: NestedList, policy: TaskNode['onFault']): boolean {
    const lists = join === undefined ? [tasks] : tasks.map((task) => [task])
    const continues = lists.map((list) => this.list(list, policy).size > 0)
    return atEnd === 'continue' && (join === 'all' ? continues.every(Boolean) : continues.some(Boolean))
  }

  /** Tests if an extension can replace the task: it does if its tasks before end with `exit`. */
  #canBeSkipped({ extensions = [] }: TaskNode, policy: TaskNode['onFault']): boolean {
    const exits = extensions.map(({ before }) => before && this.list(before, policy))
    for (const { after } of extensions) if (after !== undefined) this.list(after, policy)
    return exits.some((before) => before?.has('exit'))
  }
}

/** The pointer of a task in the definition. Functions that an extension calls have pointers of their own. */
function definitionPointer(pointer: string): string {
  return pointer.replace(/^\/use\/extensions\/functions\//, '/use/functions/')
}
