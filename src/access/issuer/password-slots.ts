/** Shares the few threads that hash passwords among networks and tenants, in turn, and refuses at once what would wait too long. */

import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'

/** The client and the users that a hash of a password is counted for. */
export interface Payer {
  /** The client's network, as `networkOf` returns it. */
  readonly network: string
  /** The workspace of users, or the tenant of accounts; empty for operators. */
  readonly realm: string
  /** The link that the password is set or confirmed by, which one request at a time may use. */
  readonly link?: string
}

export class PasswordSlots {
  #free: number
  #waiting = 0
  /** Requests that wait for a slot, by network and realm, in the order of their next turns. */
  readonly #queues = new Map<string, (() => void)[]>()
  /** Hashes that run or wait, by network and realm, and the links that they are for. */
  readonly #pending = new Map<string, number>()
  readonly #links = new Set<string>()

  constructor(slots: number) {
    this.#free = slots
  }

  /**
   * Waits for a slot. Networks and realms take turns, so one waits for at most one hash of each other.
   * @returns releases the slot
   * @throws Problem `rate_limited` if this network has too many in this realm, or too many wait in all; `state_conflict` if the
   *   link is in use
   */
  async acquire({ network, realm, link }: Payer): Promise<() => void> {
    const key = `${network} ${realm}`
    const pending = this.#pending.get(key) ?? 0
    if (link !== undefined && this.#links.has(link))
      throw new Problem('state_conflict', { detail: 'This link is being used by another request.' })
    if (pending >= LIMITS.passwordsPendingMax)
      throw new Problem('rate_limited', {
        detail: `Your network has ${pending} passwords under way here. Try again in a moment.`,
      })
    if (this.#waiting >= LIMITS.passwordsWaitingMax)
      throw new Problem('rate_limited', {
        detail: 'Too many people are signing in or setting a password. Try again in a moment.',
      })
    this.#pending.set(key, pending + 1)
    if (link !== undefined) this.#links.add(link)
    if (this.#free > 0) this.#free -= 1
    else await this.#wait(key)
    return () => this.#release(key, link)
  }

  #wait(key: string): Promise<void> {
    this.#waiting += 1
    return new Promise((proceed) => {
      const queue = this.#queues.get(key) ?? []
      this.#queues.set(key, queue)
      queue.push(proceed)
    })
  }

  #release(key: string, link: string | undefined): void {
    const left = (this.#pending.get(key) ?? 1) - 1
    if (left === 0) this.#pending.delete(key)
    else this.#pending.set(key, left)
    if (link !== undefined) this.#links.delete(link)
    const [turn] = this.#queues
    if (turn === undefined) {
      this.#free += 1
      return
    }
    const [next, queue] = turn
    // The one whose turn it was goes to the end.
    this.#waiting -= 1
    this.#queues.delete(next)
    queue.shift()?.()
    if (queue.length > 0) this.#queues.set(next, queue)
  }
}
