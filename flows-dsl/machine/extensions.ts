/**
 * Knows what runs before and after a task that is extended (OWS 1.0 "Extension"). Outputs of those tasks are dropped,
 * but where one is left by `exit`: that is the task's output then, and before the task it is not run at all.
 */

import type { TaskNode } from '../ir.ts'
import type { Done, Ended } from '../tasks/task.ts'
import type { Children } from './children.ts'
import type { Desk } from './machine-context.ts'
import type { TaskFrame } from './state.ts'

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
