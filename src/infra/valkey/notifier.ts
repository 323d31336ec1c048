/** Publishes messages to the processes of the platform, and receives them. */

import type { Redis } from 'ioredis'
import { connectToValkey, type ValkeyAddress } from './connect.ts'

const OPTIONS = { lazyConnect: true, maxRetriesPerRequest: 1, connectTimeout: 2_000 } as const

/** Publishes short messages to all processes over Valkey. Messages are lost while a process is disconnected. */
export class Notifier {
  readonly #channel: string
  readonly #publisher: Redis
  readonly #subscriber: Redis
  readonly #onError: (error: unknown) => void
  #handler: (message: string) => void = () => {}
  #listening = false

  constructor(at: ValkeyAddress | string, channel: string, onError: (error: unknown) => void) {
    this.#channel = channel
    this.#publisher = connectToValkey(at, { ...OPTIONS, commandTimeout: 2_000 })
    this.#subscriber = connectToValkey(at, OPTIONS)
    this.#onError = onError
    this.#publisher.on('error', onError)
    this.#subscriber.on('error', onError)
    this.#subscriber.on('message', (_channel, message) => this.#handler(message))
  }

  /** Does not wait and never throws. */
  publish(message: string): void {
    this.#publisher.publish(this.#channel, message).catch(this.#onError)
  }

  /** Calls `handler` for each message from now on, also after reconnections. A later handler replaces it. */
  subscribe(handler: (message: string) => void): void {
    this.#handler = handler
    if (this.#listening) return
    this.#listening = true
    this.#subscriber.subscribe(this.#channel).catch((error: unknown) => {
      // The next call subscribes again.
      this.#listening = false
      this.#onError(error)
    })
  }

  close(): void {
    this.#publisher.disconnect()
    this.#subscriber.disconnect()
  }
}
