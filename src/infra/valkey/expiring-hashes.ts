/** Small hashes in Valkey that expire when they are not used. */

import type { Redis } from 'ioredis'
import { unavailable } from '../unavailable.ts'
import { connectToValkey, type ValkeyAddress } from './connect.ts'

export class ExpiringHashes {
  readonly #redis: Redis
  readonly #ttlSeconds: number

  constructor(at: ValkeyAddress | string, ttlSeconds: number, onError: (error: unknown) => void) {
    this.#redis = connectToValkey(at, {
      lazyConnect: true,
      maxRetriesPerRequest: 1,
      connectTimeout: 2_000,
      commandTimeout: 2_000,
    })
    this.#redis.on('error', onError)
    this.#ttlSeconds = ttlSeconds
  }

  /** @returns false, and changes nothing, if the hash would have more than `max` fields. @throws Problem `dependency_unavailable` */
  async set(key: string, field: string, value: string, max: number): Promise<boolean> {
    const [, length] = await this.#run(key, (batch) => batch.hset(key, field, value).hlen(key))
    if (Number(length) <= max) return true
    await this.delete(key, field)
    return false
  }

  /** @throws Problem `dependency_unavailable` */
  async delete(key: string, field: string): Promise<void> {
    await this.#run(key, (batch) => batch.hdel(key, field))
  }

  /** @throws Problem `dependency_unavailable` */
  async read(key: string): Promise<Readonly<Record<string, string>>> {
    const [fields] = await this.#run(key, (batch) => batch.hgetall(key))
    return fields as Record<string, string>
  }

  close(): void {
    this.#redis.disconnect()
  }

  /** Runs commands and renews the expiry. @returns their replies */
  async #run(key: string, add: (batch: ReturnType<Redis['multi']>) => unknown): Promise<unknown[]> {
    const batch = this.#redis.multi()
    add(batch)
    const replies = await batch
      .expire(key, this.#ttlSeconds)
      .exec()
      .catch((cause: unknown) => {
        throw unavailable('valkey', cause)
      })
    return (replies ?? []).map(([, reply]) => reply)
  }
}
