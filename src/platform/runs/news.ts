/** Tells every process which executions have news, as soon as it is written. Who misses it finds it a moment later. */

import { Redis } from 'ioredis'

const CHANNEL = 'tenon:executions'
const OPTIONS = { lazyConnect: true, maxRetriesPerRequest: 1, connectTimeout: 2_000 } as const

/** Names of executions alone: what has happened in them is read by those who may. */
export class News {
  readonly #teller: Redis
  readonly #hearer: Redis
  readonly #onError: (error: unknown) => void
  #hear: (name: string) => void = () => {}
  #listening = false

  constructor(url: string, onError: (error: unknown) => void) {
    this.#teller = new Redis(url, { ...OPTIONS, commandTimeout: 2_000 })
    this.#hearer = new Redis(url, OPTIONS)
    this.#onError = onError
    this.#teller.on('error', onError)
    this.#hearer.on('error', onError)
    this.#hearer.on('message', (_channel, name) => this.#hear(name))
  }

  /** Does not wait, and never throws: nothing depends on its being heard. */
  tell(name: string): void {
    this.#teller.publish(CHANNEL, name).catch(this.#onError)
  }

  /** Calls for each that is told from now on, through lost connections too. Whoever listens last is the one who hears. */
  listen(hear: (name: string) => void): void {
    this.#hear = hear
    if (this.#listening) return
    this.#listening = true
    this.#hearer.subscribe(CHANNEL).catch((error: unknown) => {
      // The next one who listens asks again.
      this.#listening = false
      this.#onError(error)
    })
  }

  close(): void {
    this.#teller.disconnect()
    this.#hearer.disconnect()
  }
}
