/** Messages between two processes of the platform, over publish and subscribe of Valkey, which stores none of them. */

import type { Redis } from 'ioredis'
import { unavailable } from '../unavailable.ts'
import { connectToValkey, type ValkeyAddress } from './connect.ts'

/** The callbacks of an open channel. */
export interface Receiver {
  /** A message, in the order of its sender. */
  message(bytes: Buffer): void
  /** Messages may have been lost, and no other follows. */
  lost(): void
}

const OPTIONS = {
  lazyConnect: true,
  maxRetriesPerRequest: 1,
  connectTimeout: 2_000,
  commandTimeout: 5_000,
} as const

/** All channels of a process share two connections. */
export class Channels {
  readonly #publisher: Redis
  readonly #subscriber: Redis
  readonly #receivers = new Map<string, Receiver>()

  constructor(at: ValkeyAddress | string, onError: (error: unknown) => void) {
    this.#publisher = connectToValkey(at, OPTIONS)
    // A channel that was lost is not opened again, since there is no record of the messages that were lost.
    this.#subscriber = connectToValkey(at, { ...OPTIONS, autoResubscribe: false })
    this.#publisher.on('error', onError)
    this.#subscriber.on('error', onError)
    this.#subscriber.on('close', () => this.#loseAll())
    this.#subscriber.on('messageBuffer', (channel: Buffer, bytes: Buffer) =>
      this.#receivers.get(channel.toString())?.message(bytes),
    )
  }

  /** The number of open channels. */
  get size(): number {
    return this.#receivers.size
  }

  /**
   * Receives the messages of a channel that are sent from now on.
   * @returns closes the channel
   * @throws Problem `dependency_unavailable`
   */
  async open(channel: string, receiver: Receiver): Promise<() => void> {
    this.#receivers.set(channel, receiver)
    try {
      await this.#subscriber.subscribe(channel)
    } catch (cause) {
      this.#close(channel)
      throw unavailable('valkey', cause)
    }
    return () => this.#close(channel)
  }

  /**
   * Messages to a channel arrive in the order of the calls. Whether anyone receives them is unknown.
   * @throws Problem `dependency_unavailable`
   */
  async send(channel: string, bytes: Buffer): Promise<void> {
    await this.#publisher.publish(channel, bytes).catch((cause: unknown) => {
      throw unavailable('valkey', cause)
    })
  }

  close(): void {
    this.#publisher.disconnect()
    this.#subscriber.disconnect()
  }

  #close(channel: string): void {
    // It fails only with its connection, which ends the subscription too and reports its own errors.
    if (this.#receivers.delete(channel)) this.#subscriber.unsubscribe(channel).catch(() => {})
  }

  #loseAll(): void {
    const lost = [...this.#receivers.values()]
    this.#receivers.clear()
    for (const receiver of lost) receiver.lost()
  }
}
