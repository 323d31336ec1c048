/** Shares the few threads that hash passwords among networks and tenants, in turn, and refuses at once what would wait too long. */

import { Problem } from '../../../core/problem.ts'
import { ISSUER_LIMITS } from '../limits.ts'

/** The client and the users that a hash of a password is counted for. */
export interface Payer {
  /** The client's network, as `networkOf` returns it. */
  readonly network: string
  /** The workspace of users, or the tenant of accounts; empty for operators. */
  readonly realm: string
  /** The link that the password is set or confirmed by, which one request at a time may use. */
  readonly link?: string
}

/** A request that waits for a slot. */
interface Waiter extends Payer {
  /** Counts requests. */
  readonly seq: number
  readonly proceed: () => void
  readonly refuse: (problem: Problem) => void
}

const keyOf = ({ network, realm }: Payer): string => `${network} ${realm}`

export class PasswordSlots {
  #free: number
  #waiting = 0
  #seq = 0
  /** Requests that wait for a slot, by network and realm, in the order of their next turns. */
  readonly #queues = new Map<string, Waiter[]>()
  /** Hashes that run or wait, by network and realm, and the links that they are for. */
  readonly #pending = new Map<string, number>()
  readonly #links = new Set<string>()

  constructor(slots: number) {
    this.#free = slots
  }

  /**
   * Waits for a slot. Networks and realms take turns, so one waits for at most one hash of each other. If too many wait in all,
   * the network or realm with the most of them gives way.
   * @returns releases the slot
   * @throws Problem `rate_limited` if this network has too many in this realm, or too many wait in all; `state_conflict` if the
   *   link is in use
   */
  async acquire(payer: Payer): Promise<() => void> {
    const { link } = payer
    const pending = this.#pending.get(keyOf(payer)) ?? 0
    if (link !== undefined && this.#links.has(link))
      throw new Problem('state_conflict', { detail: 'This link is being used by another request.' })
    if (pending >= ISSUER_LIMITS.passwordHashesPendingMax)
      throw new Problem('rate_limited', {
        detail: `The platform is already checking ${pending} passwords for your network. Try again in a moment.`,
      })
    if (this.#waiting >= ISSUER_LIMITS.passwordHashesWaitingMax) this.#makeRoom(payer)
    this.#pending.set(keyOf(payer), pending + 1)
    if (link !== undefined) this.#links.add(link)
    if (this.#free > 0) this.#free -= 1
    else await this.#wait(payer)
    return () => this.#release(payer)
  }

  /**
   * Refuses the newest request of the network or realm that has the most waiting requests.
   * @throws Problem `rate_limited` if the payer's own would then have as many as that one had
   */
  #makeRoom(payer: Payer): void {
    const waiting = [...this.#queues.values()].flat()
    const groups = (['network', 'realm'] as const).flatMap((by) =>
      [...Map.groupBy(waiting, (one) => one[by])].map(([name, members]) => ({
        isOwn: payer[by] === name,
        members,
      })),
    )
    const largest = groups.reduce((a, b) => (b.members.length > a.members.length ? b : a))
    const own = Math.max(0, ...groups.map(({ isOwn, members }) => (isOwn ? members.length : 0)))
    if (own + 1 >= largest.members.length) throw tooMany()
    this.#refuse(largest.members.reduce((a, b) => (b.seq > a.seq ? b : a)))
  }

  #refuse(waiter: Waiter): void {
    const left = (this.#queues.get(keyOf(waiter)) ?? []).filter((one) => one !== waiter)
    if (left.length > 0) this.#queues.set(keyOf(waiter), left)
    else this.#queues.delete(keyOf(waiter))
    this.#waiting -= 1
    this.#forget(waiter)
    waiter.refuse(tooMany())
  }

  #wait(payer: Payer): Promise<void> {
    this.#waiting += 1
    this.#seq += 1
    return new Promise((proceed, refuse) => {
      const queue = this.#queues.get(keyOf(payer)) ?? []
      this.#queues.set(keyOf(payer), queue)
      queue.push({ ...payer, seq: this.#seq, proceed, refuse })
    })
  }

  #forget(payer: Payer): void {
    const left = (this.#pending.get(keyOf(payer)) ?? 1) - 1
    if (left === 0) this.#pending.delete(keyOf(payer))
    else this.#pending.set(keyOf(payer), left)
    if (payer.link !== undefined) this.#links.delete(payer.link)
  }

  #release(payer: Payer): void {
    this.#forget(payer)
    const [turn] = this.#queues
    if (turn === undefined) {
      this.#free += 1
      return
    }
    const [next, queue] = turn
    // The one whose turn it was goes to the end.
    this.#waiting -= 1
    this.#queues.delete(next)
    queue.shift()?.proceed()
    if (queue.length > 0) this.#queues.set(next, queue)
  }
}

const tooMany = () =>
  new Problem('rate_limited', {
    detail: 'Too many people are signing in or setting a password. Try again in a moment.',
  })
