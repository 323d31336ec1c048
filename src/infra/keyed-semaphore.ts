/** A semaphore for each key, with a FIFO wait queue and a timeout: no tenant occupies all of a shared resource. */

import { Problem } from '../core/problem.ts'

interface Queue {
  held: number
  readonly waiting: (() => void)[]
}

export class KeyedSemaphore {
  readonly #max: number
  readonly #waitMs: number
  readonly #queues = new Map<string, Queue>()

  /** @param max slots of each key */
  constructor(max: number, waitMs: number) {
    this.#max = max
    this.#waitMs = waitMs
  }

  /**
   * Waits for a slot of the key.
   * @returns releases the slot; idempotent
   * @throws Problem `overloaded`, with this detail, if no slot was released in time
   */
  async acquire(key: string, detail: string): Promise<() => void> {
    const release = this.tryAcquire(key)
    if (release !== undefined) return release
    const queue = this.#queueOf(key)
    await this.#wait(queue, detail)
    return this.#releaser(key, queue)
  }

  /** @returns releases the slot; undefined if none is free now */
  tryAcquire(key: string): (() => void) | undefined {
    const queue = this.#queueOf(key)
    if (queue.held >= this.#max) return undefined
    queue.held += 1
    return this.#releaser(key, queue)
  }

  #queueOf(key: string): Queue {
    const queue = this.#queues.get(key) ?? { held: 0, waiting: [] }
    this.#queues.set(key, queue)
    return queue
  }

  #releaser(key: string, queue: Queue): () => void {
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      // The next in the queue takes the slot over, so that no later caller overtakes it.
      const next = queue.waiting.shift()
      if (next === undefined) queue.held -= 1
      else next()
      if (queue.held === 0) this.#queues.delete(key)
    }
  }

  #wait({ waiting }: Queue, detail: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        waiting.splice(waiting.indexOf(proceed), 1)
        reject(new Problem('overloaded', { detail }))
      }, this.#waitMs)
      const proceed = () => {
        clearTimeout(timer)
        resolve()
      }
      waiting.push(proceed)
    })
  }
}
