/** Keeps what all tenants use from being held by one: each has a share, and waits in its own queue for more. */

import { Problem } from '../core/problem.ts'

interface Queue {
  held: number
  readonly waiting: (() => void)[]
}

export class Shares {
  readonly #max: number
  readonly #waitMs: number
  readonly #queues = new Map<string, Queue>()

  /** @param max what one holder may have at a time */
  constructor(max: number, waitMs: number) {
    this.#max = max
    this.#waitMs = waitMs
  }

  /**
   * Waits for a place of the holder's share.
   * @returns how to give it back; doing so twice is harmless
   * @throws Problem `overloaded` where none was given back in time
   */
  async take(holder: string, detail: string): Promise<() => void> {
    const free = this.tryTake(holder)
    if (free !== undefined) return free
    const queue = this.#queueOf(holder)
    await this.#turn(queue, detail)
    return this.#once(holder, queue)
  }

  /** A place of the holder's share that is free now. @returns how to give it back; undefined where there is none */
  tryTake(holder: string): (() => void) | undefined {
    const queue = this.#queueOf(holder)
    if (queue.held >= this.#max) return undefined
    queue.held += 1
    return this.#once(holder, queue)
  }

  #queueOf(holder: string): Queue {
    const queue = this.#queues.get(holder) ?? { held: 0, waiting: [] }
    this.#queues.set(holder, queue)
    return queue
  }

  #once(holder: string, queue: Queue): () => void {
    let given = false
    return () => {
      if (given) return
      given = true
      this.#giveBack(holder, queue)
    }
  }

  /** Who is next takes the place over, so that nobody who comes later gets between. */
  #giveBack(holder: string, queue: Queue): void {
    const next = queue.waiting.shift()
    if (next === undefined) queue.held -= 1
    else next()
    if (queue.held === 0) this.#queues.delete(holder)
  }

  #turn({ waiting }: Queue, detail: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        waiting.splice(waiting.indexOf(mine), 1)
        reject(new Problem('overloaded', { detail }))
      }, this.#waitMs)
      const mine = () => {
        clearTimeout(late)
        resolve()
      }
      waiting.push(mine)
    })
  }
}
