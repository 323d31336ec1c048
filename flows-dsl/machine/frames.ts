/** The open lists, tasks and effects of an execution, as a table of plain JSON, and the stable path of each step. */

import type { Json, JsonObject } from '../ir.ts'
import { objectOf, unescaped } from '../json.ts'
import type { EffectFrame, Fork, Frame, ListFrame, Memory, RunState, TaskFrame } from './state.ts'

/** A frame that is to be added: the table gives it its number, its place, and no children. */
type New<F extends Frame> = Omit<F, 'id' | 'children' | 'nth' | 'begun'>

export class Frames {
  readonly #state: RunState

  constructor(state: RunState) {
    this.#state = state
  }

  add<F extends ListFrame | TaskFrame | EffectFrame>(frame: New<F>): F {
    const id = this.#state.nextId++
    const parent = this.get(frame.parent)
    const nth = parent === undefined ? 0 : count(parent, nameOf(frame))
    const added = { ...frame, id, children: [], ...(nth > 0 && { nth }) } as unknown as F
    this.#state.frames[id] = added
    parent?.children.push(id)
    return added
  }

  /** Where a task is entered ({@link placeOf}), and, for people, the tasks around it ({@link pathOf}). */
  whereabouts(task: TaskFrame): { place: string; around: string } {
    const above: Frame[] = []
    for (let at = this.get(task.parent); at !== undefined; at = this.get(at.parent)) above.unshift(at)
    return { place: placeOf([...above, task]), around: pathOf(above) }
  }

  get(id: number): Frame | undefined {
    return this.#state.frames[id]
  }

  isOpen({ id }: Frame): boolean {
    return this.#state.frames[id] !== undefined
  }

  /** The task that a child of a list, or a child of a task, belongs to; undefined at the top. */
  taskAbove(frame: Frame): TaskFrame | undefined {
    const above = this.get(frame.parent)
    return above === undefined || above.is === 'task' ? above : this.taskAbove(above)
  }

  child({ children }: Frame, key: string): Frame | undefined {
    for (const id of children) {
      const child = this.get(id)
      if (child?.key === key) return child
    }
    return undefined
  }

  /** Closes a frame with all that is open below it. @returns the effects among them, in the order they began */
  close(frame: Frame): EffectFrame[] {
    const siblings = this.get(frame.parent)?.children
    const place = siblings?.indexOf(frame.id) ?? -1
    if (place >= 0) siblings?.splice(place, 1)
    return this.#forget(frame)
  }

  #forget(frame: Frame): EffectFrame[] {
    delete this.#state.frames[frame.id]
    const below = frame.children.flatMap((id) => {
      const child = this.get(id)
      return child === undefined ? [] : this.#forget(child)
    })
    return frame.is === 'effect' ? [frame] : below
  }

  /** Where `$context` is that a frame sees. */
  memoryOf(frame: Frame): Memory {
    for (let at: Frame | undefined = frame; at !== undefined; at = this.get(at.parent)) {
      if (at.memory !== undefined) return at.memory
    }
    return { context: {}, isExported: false }
  }

  /** The tasks above a frame that have begun several at once, and which of those the frame is in. */
  forksAbove(frame: Frame): Fork[] {
    const forks: Fork[] = []
    for (let at: Frame | undefined = frame; at !== undefined; at = this.get(at.parent)) {
      // Whatever has a `$context` of its own goes on beside its siblings; the flow as a whole has none.
      if (at.memory !== undefined && at.parent !== 0) forks.push({ task: at.parent, branch: at.id })
    }
    return forks
  }

  /** Variables that the tasks around a frame have made, the inner before the outer. */
  variablesOf(frame: Frame): JsonObject {
    const variables: [string, Json][] = []
    for (let at: Frame | undefined = frame; at !== undefined; at = this.get(at.parent)) {
      if (at.is === 'list' && at.variables !== undefined) variables.unshift(...Object.entries(at.variables))
    }
    // Not assigned: `__proto__` is a name like any other.
    return objectOf(variables)
  }

  /** In the order in which they were entered. */
  tasks(): TaskFrame[] {
    return Object.values(this.#state.frames).filter((frame) => frame.is === 'task')
  }

  /** The one entry into a task that is open, by `pointer#iteration`. */
  entry(step: string): TaskFrame | undefined {
    return this.tasks().find(({ pointer, iteration }) => `${pointer}#${iteration}` === step)
  }

  /** What nobody in the flow waits for. */
  tops(): Frame[] {
    return Object.values(this.#state.frames).filter(({ parent }) => parent === 0)
  }
}

/** @returns how many of that name were begun before */
function count(parent: Frame, name: string | undefined): number {
  if (name === undefined) return 0
  parent.begun ??= {}
  const nth = parent.begun[name] ?? 0
  parent.begun[name] = nth + 1
  return nth
}

/** Of what can be begun several times, which effects are not; `/` before it. */
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
 * @param around the task, and before it all frames around it, the outermost first
 * @returns such as `/do/each/do~x2/book`: the third time that `each` has run its list. No name has `~x` in it, since
 *   names stand here as in JSON pointers.
 */
function placeOf(around: readonly Frame[]): string {
  return around
    .map((frame) => `${nameOf(frame) ?? ''}${frame.nth === undefined ? '' : `~x${frame.nth}`}`)
    .join('')
}

/** @param around as of {@link placeOf}, without the task itself @returns such as `each[2] / both` */
function pathOf(around: readonly Frame[]): string {
  const names: string[] = []
  for (const frame of around) {
    const time = frame.nth === undefined ? '' : `[${frame.nth}]`
    if (frame.is === 'task') names.push(unescaped(nameOf(frame)?.slice(1) ?? ''))
    if (names.length > 0) names.push(`${names.pop()}${time}`)
  }
  return names.join(' / ')
}

/** Where tasks stand that a task begins again: all but the first time that it runs its list. */
export function againBelow(place: string, list: string): string {
  return `${place}/${list}~x`
}
