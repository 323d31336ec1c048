/** Keeps the events of an execution: tasks in sequence take an event once, concurrent ones each take it. */

import type { JsonObject } from '../ir.ts'
import type { Frames } from './frames.ts'
import type { BufferedEvent, FlowState, Fork, TaskFrame } from './state.ts'

/** Bounds of the buffer (events, characters of their JSON) and of the list of known event ids; the oldest are dropped first. */
const EVENTS_MAX = 1_000
const SIZE_MAX = 2_097_152
const KNOWN_IDS_MAX = 2_000

export class Inbox {
  readonly #state: FlowState
  readonly #frames: Frames

  constructor(state: FlowState, frames: Frames) {
    this.#state = state
    this.#frames = frames
  }

  /** True if the event is new, by `source` and `id`. An event without `id` always is. */
  isNew({ source = null, id = null }: JsonObject): boolean {
    const { knownEventIds } = this.#state
    if (id === null) return true
    const name = JSON.stringify([source, id])
    if (knownEventIds.includes(name)) return false
    knownEventIds.push(name)
    if (knownEventIds.length > KNOWN_IDS_MAX) knownEventIds.shift()
    return true
  }

  /** Offers an event to every open task and buffers it for later ones. @param offer whether the task consumes it */
  offer(event: JsonObject, offer: (task: TaskFrame) => boolean): void {
    const consumers: Fork[][] = []
    for (const task of this.#frames.tasks()) {
      if (!this.#frames.isOpen(task)) continue
      const forks = this.#frames.enclosingForks(task)
      if (offer(task)) consumers.push(forks)
    }
    this.#buffer({ event, size: JSON.stringify(event).length, consumedBy: consumers })
  }

  /** Offers buffered events to a task that begins to wait, the oldest first. @param take whether it consumes the event */
  offerBuffered(task: TaskFrame, take: (event: JsonObject) => boolean): void {
    const forks = this.#frames.enclosingForks(task)
    const { events } = this.#state
    for (const one of events) {
      if (isFree(one, forks) && take(one.event)) one.consumedBy.push(forks)
    }
    events.splice(0, events.length, ...events.filter((one) => this.#isAvailable(one)))
  }

  #buffer(event: BufferedEvent): void {
    const { events } = this.#state
    if (this.#isAvailable(event)) events.push(event)
    let size = events.reduce((sum, one) => sum + one.size, 0)
    while (events.length > EVENTS_MAX || (size > SIZE_MAX && events.length > 1)) {
      size -= events.shift()?.size ?? 0
    }
  }

  /** True if a later task may still consume the event: only one that runs concurrently with all that consumed it. */
  #isAvailable({ consumedBy: consumers }: BufferedEvent): boolean {
    return consumers.every((forks) => forks.some(({ task }) => this.#frames.get(task) !== undefined))
  }
}

/** True if all tasks that consumed the event run concurrently with the one below `forks`. */
function isFree({ consumedBy: consumers }: BufferedEvent, forks: readonly Fork[]): boolean {
  return consumers.every((others) =>
    others.some((other) => forks.some(({ task, branch }) => task === other.task && branch !== other.branch)),
  )
}
