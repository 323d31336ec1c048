/** Knows how a list of tasks goes on: to the next, to another, or to its end (OWS 1.0 "Flow Directive"). */

import type { Json, TaskNode } from '../ir.ts'
import type { Ended } from '../tasks/task.ts'
import type { Desk } from './machine-context.ts'
import type { ListFrame, TaskFrame } from './state.ts'

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
