/** Finds the tasks of a compiled flow that no edge reaches, whatever its conditions and decisions say. */

import type { FlowIR, TaskNode } from '../ir.ts'
import { type InnerList, wholeShapeOf } from './control-flow.ts'

/** A task that no run enters, and the one before it, which runs enter and which never goes on to it. */
export interface Lost {
  /** Where it stands in the definition. */
  readonly pointer: string
  readonly name: string
  readonly before: TaskNode
}

/** Of tasks that follow each other and are all lost, the first. */
export function lostIn({ do: tasks, onFault }: FlowIR): Lost[] {
  const reach = new Reach()
  reach.list(tasks, onFault)
  return [...reach.lost.values()].filter(({ pointer }) => !reach.reached.has(pointer))
}

/** How tasks that follow each other are left, such that the task around them goes on: `continue` at their end. */
type Left = ReadonlySet<'continue' | 'exit'>

/** A function stands in many places, and so does what extends a task: what is lost is lost in all of them. */
class Reach {
  readonly reached = new Set<string>()
  readonly lost = new Map<string, Lost>()

  /**
   * Goes all ways through tasks that follow each other.
   * @param policy of what stands around them
   */
  list(tasks: readonly TaskNode[], policy: TaskNode['onFault']): Left {
    const places = new Map(tasks.map(({ name }, index) => [name, index]))
    const entered = new Set([0])
    const left = new Set<'continue' | 'exit'>()
    // It grows while it is gone through.
    for (const index of entered) {
      const task = tasks[index]
      const directives = task === undefined ? [] : this.#task(task, policy)
      if (task === undefined) left.add('continue')
      for (const next of directives) {
        const named = places.get(next)
        if (next === 'exit') left.add(next)
        else if (next === 'continue') entered.add(index + 1)
        else if (named !== undefined) entered.add(named)
      }
    }
    this.#note(tasks, entered)
    return left
  }

  #note(tasks: readonly TaskNode[], entered: ReadonlySet<number>): void {
    for (const [index, { pointer, name }] of tasks.entries()) {
      const before = tasks[index - 1]
      const place = placeOf(pointer)
      if (entered.has(index)) this.reached.add(place)
      else if (before !== undefined && entered.has(index - 1))
        this.lost.set(place, { pointer: place, name, before })
    }
  }

  /** @returns the flow directives that may be followed after it; `end` leads to nothing */
  #task(task: TaskNode, around: TaskNode['onFault']): ReadonlySet<string> {
    const then = task.next ?? 'continue'
    const policy = task.onFault ?? around
    const { ways, lists } = wholeShapeOf(task)
    const out = new Set(ways.map(({ next }) => next ?? then))
    for (const list of lists) if (this.#goesOn(list, policy)) out.add(list.next ?? then)
    if (this.#isLeftOut(task, policy)) out.add(then)
    if (task.if !== undefined) out.add('continue')
    // Whoever decides about its error may skip it.
    if (policy === 'hold') out.add(then)
    return out
  }

  /** Whether the end of a list within a task leads on from the task. */
  #goesOn({ tasks, apart, goes }: InnerList, policy: TaskNode['onFault']): boolean {
    const lists = apart === undefined ? [tasks] : tasks.map((task) => [task])
    const left = lists.map((list) => this.list(list, policy))
    const goesOn = apart === 'all' ? left.every(({ size }) => size > 0) : left.some(({ size }) => size > 0)
    return goes === 'on' && goesOn
  }

  /** Whether what comes before a task may stand for it: it does where it is left by `exit`. */
  #isLeftOut({ extensions = [] }: TaskNode, policy: TaskNode['onFault']): boolean {
    const early = extensions.map(({ before }) => before && this.list(before, policy))
    for (const { after } of extensions) if (after !== undefined) this.list(after, policy)
    return early.some((left) => left?.has('exit'))
  }
}

/** Functions that an extension calls have pointers of their own, and stand where the others do. */
function placeOf(pointer: string): string {
  return pointer.replace(/^\/use\/extensions\/functions\//, '/use/functions/')
}
