/** Tells every process which executions have news, as soon as it is written. Who misses it finds it a moment later. */

import { Redis } from 'ioredis'

const CHANNEL = 'tenon:executions'
const OPTIONS = { lazyConnect: true, maxRetriesPerRequest: 1, connectTimeout: 2_000 } as const

/** Names of executions alone: what has happened in them is read by those who may. */
export class News {
  readonly #teller: Redis
  readonly #hearer: Redis
  readonly #onError: (error: unknown) => void
  #listening = false

  constructor(url: string, onError: (error: unknown) => void) {
    this.#teller = new Redis(url, { ...OPTIONS, commandTimeout: 2_000 })
    this.#hearer = new Redis(url, OPTIONS)
    this.#onError = onError
    this.#teller.on('error', onError)
    this.#hearer.on('error', onError)
  }

  /** Does not wait, and never throws: nothing depends on its being heard. */
  tell(name: string): void {
    this.#teller.publish(CHANNEL, name).catch(this.#onError)
  }

  /** Calls for each that is told from now on, through lost connections too. The first caller is the only one. */
  listen(hear: (name: string) => void): void {
    if (this.#listening) return
    this.#listening = true
    this.#hearer.on('message', (_channel, name) => hear(name))
    this.#hearer.subscribe(CHANNEL).catch(this.#onError)
  }

  close(): void {
    this.#teller.disconnect()
    this.#hearer.disconnect()
  }
}
