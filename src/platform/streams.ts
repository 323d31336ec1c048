/** Valkey. For now it only answers whether it is there; events and rate windows come to live here. */

import { Redis } from 'ioredis'

export class Streams {
  readonly #redis: Redis

  constructor(url: string, onError: (error: Error) => void) {
    this.#redis = new Redis(url, { lazyConnect: true, maxRetriesPerRequest: 1, enableOfflineQueue: true })
    this.#redis.on('error', onError)
  }

  async ping(): Promise<void> {
    await this.#redis.ping()
  }

  close(): void {
    this.#redis.disconnect()
  }
}
