/** Keeps the events of an execution: tasks in sequence take an event once, concurrent ones each take it. */

import type { JsonObject } from '../ir.ts'
import type { Frames } from './frames.ts'
import type { Fork, KeptEvent, RunState, TaskFrame } from './state.ts'

/** Events that are kept, in number and in characters of their JSON, and names of events known again; the oldest go first. */
const EVENTS_MAX = 1_000
const SIZE_MAX = 2_097_152
const HEARD_MAX = 2_000

export class Inbox {
  readonly #state: RunState
  readonly #frames: Frames

  constructor(state: RunState, frames: Frames) {
    this.#state = state
    this.#frames = frames
  }

  /** Whether the event is heard for the first time, by `source` and `id`; without an `id` nobody can tell. */
  isNew({ source = null, id = null }: JsonObject): boolean {
    const { heard } = this.#state
    if (id === null) return true
    const name = JSON.stringify([source, id])
    if (heard.includes(name)) return false
    heard.push(name)
    if (heard.length > HEARD_MAX) heard.shift()
    return true
  }

  /** Asks every task that is open; what may be wanted later is kept. @param offer says whether the task takes it */
  offer(event: JsonObject, offer: (task: TaskFrame) => boolean): void {
    const taken: Fork[][] = []
    for (const task of this.#frames.tasks()) {
      if (!this.#frames.isOpen(task)) continue
      const forks = this.#frames.forksAbove(task)
      if (offer(task)) taken.push(forks)
    }
    this.#keep({ event, size: JSON.stringify(event).length, taken })
  }

  /** Shows a task what was kept and may be its own, the oldest first. @param take says whether it takes it */
  early(task: TaskFrame, take: (event: JsonObject) => boolean): void {
    const forks = this.#frames.forksAbove(task)
    const { events } = this.#state
    for (const one of events) {
      if (isFree(one, forks) && take(one.event)) one.taken.push(forks)
    }
    events.splice(0, events.length, ...events.filter((one) => this.#isWanted(one)))
  }

  #keep(kept: KeptEvent): void {
    const { events } = this.#state
    if (this.#isWanted(kept)) events.push(kept)
    let size = events.reduce((sum, one) => sum + one.size, 0)
    while (events.length > EVENTS_MAX || (size > SIZE_MAX && events.length > 1)) {
      size -= events.shift()?.size ?? 0
    }
  }

  /** Nobody can take what was taken outside of all that still goes on at the same time. */
  #isWanted({ taken }: KeptEvent): boolean {
    return taken.every((forks) => forks.some(({ task }) => this.#frames.get(task) !== undefined))
  }
}

/** Whether all who have taken it go on beside whoever asks. */
function isFree({ taken }: KeptEvent, forks: readonly Fork[]): boolean {
  return taken.every((others) =>
    others.some((other) => forks.some(({ task, branch }) => task === other.task && branch !== other.branch)),
  )
}
