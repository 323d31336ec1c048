/** Describes the lists, tasks and effects that a task starts, and the extensions around it. */

import type { Json, TaskNode } from '../ir.ts'
import type { Child, ChildResult, TaskResult } from '../tasks/task.ts'
import type { MachineContext } from './machine-context.ts'
import type { BranchContext, Effect, ListFrame, TaskFrame } from './state.ts'

type Enter = (node: TaskNode, at: TaskEntry) => void

export class Children {
  readonly #machine: MachineContext
  readonly #lists: Lists
  readonly #enter: Enter
  /** Children on the agenda that their task can still cancel. */
  readonly #planned = new Set<{ readonly task: TaskFrame; readonly child: Child }>()

  constructor(machine: MachineContext, lists: Lists, enter: Enter) {
    this.#machine = machine
    this.#lists = lists
    this.#enter = enter
  }

  /** Starts children before all other work, in this order, each as far as it gets before the next. */
  plan(task: TaskFrame, children: readonly Child[]): void {
    const plans = children.map((child) => ({ task, child }))
    for (const plan of plans) this.#planned.add(plan)
    this.#machine.scheduleNext(
      ...plans.map((plan) => () => this.#planned.delete(plan) && this.begin(task, plan.child)),
    )
  }

  /** Cancels the child with that key, whether started or planned. */
  cancel(task: TaskFrame, key: string): void {
    this.#machine.cancelFrame(this.#machine.frames.child(task, key))
    for (const plan of this.#planned) {
      if (plan.task === task && plan.child.key === key) this.#planned.delete(plan)
    }
  }

  begin(task: TaskFrame, child: Child): void {
    if (!this.#machine.frames.isOpen(task)) return
    const at = { parent: task.id, key: child.key }
    if ('list' in child) {
      const { list, input, variables = {} } = child
      this.#lists.open({
        ...at,
        ...this.#isolation(task, child),
        of: task.pointer,
        list,
        variables,
        data: input,
      })
    } else if ('task' in child) {
      const [list, index] = child.task
      const node = this.#machine.nodes.list(task.pointer, list)[index]
      if (node !== undefined) this.#enter(node, { ...at, ...this.#isolation(task, child), raw: child.input })
    } else this.#machine.startEffect(at, this.#effectOf(task, child))
  }

  /** Gives a concurrent child a `$context` of its own. */
  #isolation(
    task: TaskFrame,
    { isolated }: { readonly isolated?: boolean },
  ): { branchContext?: BranchContext } {
    if (isolated !== true) return {}
    return {
      branchContext: { context: this.#machine.frames.branchContextOf(task).context, isExported: false },
    }
  }

  #effectOf(task: TaskFrame, child: Exclude<Child, { list: string } | { task: unknown }>): Effect {
    if ('call' in child) {
      const { call, arguments: args, local, timeoutMs } = child
      const finishes = this.#machine.nodes.at(task.pointer).compensate !== undefined
      const isConcurrent = Boolean(local) && this.#machine.frames.enclosingForks(task).length > 0
      return {
        do: 'call',
        function: call,
        arguments: args,
        ...(local !== undefined && { local }),
        ...(timeoutMs !== undefined && { timeoutMs }),
        ...(finishes && { finishes }),
        ...(isConcurrent && { isConcurrent }),
      }
    }
    if ('await' in child) return { do: 'await', what: child.await, details: child.details }
    const { sleepMs, limits = false, summary } = child
    const untilMs = this.#machine.environment.nowMs() + sleepMs
    return { do: 'sleep', untilMs, limits, ...(summary !== undefined && { summary }) }
  }
}

/** The parent, key and raw input of a task that is entered. */
export type TaskEntry = Pick<TaskFrame, 'parent' | 'key' | 'raw' | 'branchContext'>

interface ListOwner {
  enter(node: TaskNode, at: TaskEntry): void
  /** Handles the end of a list, whose frame is closed already. */
  ended(list: ListFrame, how: Omit<ChildResult, 'key'>): void
}

export class Lists {
  readonly #machine: MachineContext
  readonly #owner: ListOwner

  constructor(machine: MachineContext, owner: ListOwner) {
    this.#machine = machine
    this.#owner = owner
  }

  /** Opens a list and runs it as far as it goes. */
  open(list: Omit<ListFrame, 'id' | 'children' | 'is' | 'position'>): void {
    this.#proceed(this.#machine.frames.add<ListFrame>({ ...list, is: 'list', position: 0 }))
  }

  /** Goes on after a task of the list has ended; `next` is a flow directive. */
  follow(list: ListFrame, output: Json, next: string): void {
    list.data = output
    if (next === 'exit' || next === 'end') {
      this.#leave(list, next)
      return
    }
    const nodes = this.#machine.nodes.list(list.of, list.list)
    list.position = next === 'continue' ? list.position + 1 : nodes.findIndex(({ name }) => name === next)
    this.#machine.scheduleNext(() => this.#proceed(list))
  }

  #proceed(list: ListFrame): void {
    if (!this.#machine.frames.isOpen(list)) return
    const node = this.#machine.nodes.list(list.of, list.list)[list.position]
    if (node === undefined) this.#leave(list)
    else this.#owner.enter(node, { parent: list.id, key: 'task', raw: list.data })
  }

  #leave(list: ListFrame, left?: 'exit' | 'end'): void {
    this.#machine.frames.close(list)
    this.#owner.ended(list, { output: list.data, ...(left !== undefined && { left }) })
  }
}

interface TaskBody {
  start(node: TaskNode, task: TaskFrame): void
  complete(node: TaskNode, task: TaskFrame, result: TaskResult): void
}

export class Extensions {
  readonly #machine: MachineContext
  readonly #children: Children
  readonly #body: TaskBody

  constructor(machine: MachineContext, children: Children, body: TaskBody) {
    this.#machine = machine
    this.#children = children
    this.#body = body
  }

  begin(node: TaskNode, task: TaskFrame): void {
    this.#run(node, task, 'before', 0)
  }

  /** Runs the `after` lists of the extensions, since the task itself has completed. */
  end(node: TaskNode, task: TaskFrame, result: TaskResult): void {
    task.done = result
    this.#run(node, task, 'after', (node.extensions?.length ?? 0) - 1)
  }

  /** Goes on after a list of an extension. */
  ended(node: TaskNode, task: TaskFrame, { key, output, left }: ChildResult): void {
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

  /** Runs the next list, or after the last one the task itself or its completion. */
  #run(node: TaskNode, task: TaskFrame, when: 'before' | 'after', from: number): void {
    const extensions = node.extensions ?? []
    const { input = null, done } = task
    const data = done === undefined ? input : done.done
    const { evaluation } = this.#machine
    for (let index = from; index >= 0 && index < extensions.length; index += when === 'before' ? 1 : -1) {
      const extension = extensions[index]
      if (extension?.[when] === undefined) continue
      const variables = evaluation.variablesOf(task, { input, task: evaluation.taskDescriptor(node, task) })
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
