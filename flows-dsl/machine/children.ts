/** Describes the lists, tasks and effects that a task starts, and the extensions around it. */

import type { Json, TaskNode } from '../ir.ts'
import type { Child, Done, Ended } from '../tasks/task.ts'
import type { Desk } from './machine-context.ts'
import type { Effect, ListFrame, Memory, TaskFrame } from './state.ts'

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

/** Where a task is entered, and with what. */
export type At = Pick<TaskFrame, 'parent' | 'key' | 'raw' | 'memory'>

interface Around {
  enter(node: TaskNode, at: At): void
  /** A list, which is closed already, has ended. */
  ended(list: ListFrame, how: Omit<Ended, 'key'>): void
}

export class Lists {
  readonly #desk: Desk
  readonly #around: Around

  constructor(desk: Desk, around: Around) {
    this.#desk = desk
    this.#around = around
  }

  /** Opens a list and runs it as far as it goes. */
  open(list: Omit<ListFrame, 'id' | 'children' | 'is' | 'index'>): void {
    this.#proceed(this.#desk.frames.add<ListFrame>({ ...list, is: 'list', index: 0 }))
  }

  /** What follows when a task of the list has yielded; `next` is a flow directive. */
  follow(list: ListFrame, output: Json, next: string): void {
    list.data = output
    if (next === 'exit' || next === 'end') {
      this.#leave(list, next)
      return
    }
    const nodes = this.#desk.nodes.list(list.of, list.list)
    list.index = next === 'continue' ? list.index + 1 : nodes.findIndex(({ name }) => name === next)
    this.#desk.soon(() => this.#proceed(list))
  }

  #proceed(list: ListFrame): void {
    if (!this.#desk.frames.isOpen(list)) return
    const node = this.#desk.nodes.list(list.of, list.list)[list.index]
    if (node === undefined) this.#leave(list)
    else this.#around.enter(node, { parent: list.id, key: 'task', raw: list.data })
  }

  #leave(list: ListFrame, left?: 'exit' | 'end'): void {
    this.#desk.frames.close(list)
    this.#around.ended(list, { output: list.data, ...(left !== undefined && { left }) })
  }
}

interface Body {
  start(node: TaskNode, task: TaskFrame): void
  complete(node: TaskNode, task: TaskFrame, done: Done): void
}

export class Extensions {
  readonly #desk: Desk
  readonly #children: Children
  readonly #body: Body

  constructor(desk: Desk, children: Children, body: Body) {
    this.#desk = desk
    this.#children = children
    this.#body = body
  }

  begin(node: TaskNode, task: TaskFrame): void {
    this.#run(node, task, 'before', 0)
  }

  /** The task itself is done. */
  end(node: TaskNode, task: TaskFrame, done: Done): void {
    task.done = done
    this.#run(node, task, 'after', (node.extensions?.length ?? 0) - 1)
  }

  /** Tasks of an extension have ended. */
  ended(node: TaskNode, task: TaskFrame, { key, output, left }: Ended): void {
    const index = task.extension ?? 0
    if (left === 'end') {
      this.#body.complete(node, task, { done: output, next: 'end' })
      return
    }
    if (left === 'exit') task.done = { ...task.done, done: output }
    const isBefore = key.startsWith('before') && left !== 'exit'
    if (isBefore) this.#run(node, task, 'before', index + 1)
    else this.#run(node, task, 'after', index - 1)
  }

  /** Runs the next of them, or what comes after the last. */
  #run(node: TaskNode, task: TaskFrame, when: 'before' | 'after', from: number): void {
    const extensions = node.extensions ?? []
    const { input = null, done } = task
    const data = done === undefined ? input : done.done
    const { evaluation } = this.#desk
    for (let index = from; index >= 0 && index < extensions.length; index += when === 'before' ? 1 : -1) {
      const extension = extensions[index]
      if (extension?.[when] === undefined) continue
      const variables = evaluation.of(task, { input, task: evaluation.about(node, task) })
      if (extension.when !== undefined && !evaluation.test(extension.when, data, variables)) continue
      task.extension = index
      this.#children.begin(task, { key: `${when} ${index}`, list: `${when} ${index}`, input: data })
      return
    }
    delete task.extension
    if (done === undefined) this.#body.start(node, task)
    else this.#body.complete(node, task, done)
  }
}
