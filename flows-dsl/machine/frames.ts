/** The open lists, tasks and effects of an execution, as a table of plain JSON, and the stable path of each step. */

import type { Json, JsonObject } from '../ir.ts'
import { objectOf, unescaped } from '../json.ts'
import type { BranchContext, EffectFrame, FlowState, Fork, Frame, ListFrame, TaskFrame } from './state.ts'

/** A frame before it is added: the table assigns its id, index and children. */
type New<F extends Frame> = Omit<F, 'id' | 'children' | 'occurrence' | 'childCounts'>

export class Frames {
  readonly #state: FlowState

  constructor(state: FlowState) {
    this.#state = state
  }

  add<F extends ListFrame | TaskFrame | EffectFrame>(frame: New<F>): F {
    const id = this.#state.nextId++
    const parent = this.get(frame.parent)
    const occurrence = parent === undefined ? 0 : nextIndexOf(parent, nameOf(frame))
    const added = { ...frame, id, children: [], ...(occurrence > 0 && { occurrence }) } as unknown as F
    this.#state.frames[id] = added
    parent?.children.push(id)
    return added
  }

  /** The stable path of a task ({@link stepPath}) and, for people, its enclosing tasks ({@link breadcrumbs}). */
  locate(task: TaskFrame): { path: string; callPath: string; breadcrumbs: string } {
    const above: Frame[] = []
    for (let at = this.get(task.parent); at !== undefined; at = this.get(at.parent)) above.unshift(at)
    const path = stepPath([...above, task])
    const callPath = path.includes('/try~x') ? stepPath([...above.map(withoutAttempt), task]) : path
    return { path, callPath, breadcrumbs: breadcrumbs(above) }
  }

  get(id: number): Frame | undefined {
    return this.#state.frames[id]
  }

  isOpen({ id }: Frame): boolean {
    return this.#state.frames[id] !== undefined
  }

  /** The nearest task above a frame; undefined at the top. */
  enclosingTask(frame: Frame): TaskFrame | undefined {
    const above = this.get(frame.parent)
    return above === undefined || above.is === 'task' ? above : this.enclosingTask(above)
  }

  child({ children }: Frame, key: string): Frame | undefined {
    for (const id of children) {
      const child = this.get(id)
      if (child?.key === key) return child
    }
    return undefined
  }

  /** The frame and all below it, each after the one above. */
  below(frame: Frame): Frame[] {
    const frames = [frame]
    for (const { children } of frames) {
      for (const id of children) {
        const child = this.get(id)
        if (child !== undefined) frames.push(child)
      }
    }
    return frames
  }

  /** Closes a frame and all frames below it. @returns the effects among them, in the order in which they started */
  close(frame: Frame): EffectFrame[] {
    const siblings = this.get(frame.parent)?.children
    const index = siblings?.indexOf(frame.id) ?? -1
    if (index >= 0) siblings?.splice(index, 1)
    return this.#remove(frame)
  }

  #remove(frame: Frame): EffectFrame[] {
    delete this.#state.frames[frame.id]
    const below = frame.children.flatMap((id) => {
      const child = this.get(id)
      return child === undefined ? [] : this.#remove(child)
    })
    return frame.is === 'effect' ? [frame] : below
  }

  /** The `$context` of a frame: that of the nearest frame with its own. */
  branchContextOf(frame: Frame): BranchContext {
    for (let at: Frame | undefined = frame; at !== undefined; at = this.get(at.parent)) {
      if (at.branchContext !== undefined) return at.branchContext
    }
    return { context: {}, isExported: false }
  }

  /** The tasks above a frame that run branches concurrently, each with the branch that contains the frame. */
  enclosingForks(frame: Frame): Fork[] {
    const forks: Fork[] = []
    for (let at: Frame | undefined = frame; at !== undefined; at = this.get(at.parent)) {
      // Exactly the concurrent branches have a `$context` of their own; the flow itself (parent 0) is no branch.
      if (at.branchContext !== undefined && at.parent !== 0) forks.push({ task: at.parent, branch: at.id })
    }
    return forks
  }

  /** Variables that enclosing tasks define; inner ones hide outer ones. */
  variablesOf(frame: Frame): JsonObject {
    const variables: [string, Json][] = []
    for (let at: Frame | undefined = frame; at !== undefined; at = this.get(at.parent)) {
      if (at.is === 'list' && at.variables !== undefined) variables.unshift(...Object.entries(at.variables))
    }
    // From entries, not by assignment: `__proto__` is an ordinary name here.
    return objectOf(variables)
  }

  /** Open tasks, in the order in which they were entered. */
  tasks(): TaskFrame[] {
    return Object.values(this.#state.frames).filter((frame) => frame.is === 'task')
  }

  /** The open task with this id, `pointer#iteration`. */
  entry(step: string): TaskFrame | undefined {
    return this.tasks().find(({ pointer, iteration }) => `${pointer}#${iteration}` === step)
  }

  /** Frames without a parent: the flow, its timeout, compensation. */
  roots(): Frame[] {
    return Object.values(this.#state.frames).filter(({ parent }) => parent === 0)
  }
}

/** Counts a child. @returns how many children of that name were started before */
function nextIndexOf(parent: Frame, name: string | undefined): number {
  if (name === undefined) return 0
  parent.childCounts ??= {}
  const index = parent.childCounts[name] ?? 0
  parent.childCounts[name] = index + 1
  return index
}

/** The path segment of a frame, with its `/`; effects have none, as they start once. */
function nameOf(frame: {
  readonly is: Frame['is']
  readonly list?: string
  readonly pointer?: string
}): string | undefined {
  const { is, list, pointer = '' } = frame
  if (is === 'list') return `/${list}`
  return is === 'task' ? pointer.slice(pointer.lastIndexOf('/')) : undefined
}

/**
 * The stable path of a step: `/do/each/do~x2/book` is `book` in the third run of the list of `each`. Names are escaped
 * as in JSON pointers, so none contains `~x`.
 * @param frames the task after its enclosing frames, the outermost first
 */
function stepPath(frames: readonly Frame[]): string {
  return frames
    .map((frame) => `${nameOf(frame) ?? ''}${frame.occurrence === undefined ? '' : `~x${frame.occurrence}`}`)
    .join('')
}

/** The list of a `try` without the count of its runs, which are attempts at the same work. */
function withoutAttempt(frame: Frame): Frame {
  if (frame.is !== 'list' || frame.list !== 'try') return frame
  const { occurrence: _, ...first } = frame
  return first
}

/** @param enclosing the frames around a task, the outermost first @returns such as `each[2] / both` */
function breadcrumbs(enclosing: readonly Frame[]): string {
  const names: string[] = []
  for (const frame of enclosing) {
    const time = frame.occurrence === undefined ? '' : `[${frame.occurrence}]`
    if (frame.is === 'task') names.push(unescaped(nameOf(frame)?.slice(1) ?? ''))
    if (names.length > 0) names.push(`${names.pop()}${time}`)
  }
  return names.join(' / ')
}

/** The start of the paths of steps in all but the first run of a task's list. */
export function repeatedPathPrefix(path: string, list: string): string {
  return `${path}/${list}~x`
}
