/** Knows what a task has begun and is about to begin: tasks of its own, and effects. */

import type { TaskNode } from '../ir.ts'
import type { Child } from '../tasks/task.ts'
import type { Desk } from './machine-context.ts'
import type { Effect, Memory, TaskFrame } from './state.ts'
import type { At, Lists } from './task-lists.ts'

type Enter = (node: TaskNode, at: At) => void

export class Children {
  readonly #desk: Desk
  readonly #lists: Lists
  readonly #enter: Enter
  /** Of the agenda, what a task may still give up. */
  readonly #planned = new Set<{ readonly task: TaskFrame; readonly child: Child }>()

  constructor(desk: Desk, lists: Lists, enter: Enter) {
    this.#desk = desk
    this.#lists = lists
    this.#enter = enter
  }

  /** Begins them before all else, in this order, each as far as it can go before the next. */
  plan(task: TaskFrame, children: readonly Child[]): void {
    const plans = children.map((child) => ({ task, child }))
    for (const plan of plans) this.#planned.add(plan)
    this.#desk.soon(...plans.map((plan) => () => this.#planned.delete(plan) && this.begin(task, plan.child)))
  }

  /** What a task has begun under that key, or was about to begin. */
  giveUp(task: TaskFrame, key: string): void {
    this.#desk.drop(this.#desk.frames.child(task, key))
    for (const plan of this.#planned) {
      if (plan.task === task && plan.child.key === key) this.#planned.delete(plan)
    }
  }

  begin(task: TaskFrame, child: Child): void {
    if (!this.#desk.frames.isOpen(task)) return
    const at = { parent: task.id, key: child.key }
    if ('list' in child) {
      const { list, input, variables = {} } = child
      this.#lists.open({ ...at, ...this.#apart(task, child), of: task.pointer, list, variables, data: input })
    } else if ('task' in child) {
      const [list, index] = child.task
      const node = this.#desk.nodes.list(task.pointer, list)[index]
      if (node !== undefined) this.#enter(node, { ...at, ...this.#apart(task, child), raw: child.input })
    } else this.#desk.ask(at, this.#effectOf(task, child))
  }

  #apart(task: TaskFrame, { apart }: { readonly apart?: boolean }): { memory?: Memory } {
    if (apart !== true) return {}
    return { memory: { context: this.#desk.frames.memoryOf(task).context, isExported: false } }
  }

  #effectOf(task: TaskFrame, child: Exclude<Child, { list: string } | { task: unknown }>): Effect {
    if ('call' in child) {
      const { call, arguments: given, local } = child
      const beside = Boolean(local) &&
        this.#desk.frames.forksAbove(task).length > 0 && { beside: true as const }
      return {
        do: 'call',
        function: call,
        arguments: given,
        ...(local !== undefined && { local }),
        ...beside,
      }
    }
    if ('await' in child) return { do: 'await', what: child.await, details: child.details }
    const { sleepMs, limits = false, summary } = child
    const untilMs = this.#desk.surroundings.nowMs() + sleepMs
    return { do: 'sleep', untilMs, limits, ...(summary !== undefined && { summary }) }
  }
}
