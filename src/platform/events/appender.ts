/** Appends many messages to streams at once: all of a stream's or none, on a connection of its own. */

import { Redis, type Result } from 'ioredis'
import { LRUCache } from 'lru-cache'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { Addressed } from './outbox.ts'
import { addition, type StreamKey } from './streams.ts'

/** XADD for each of many: ARGV has, again and again, how many words it is told besides the key, and these. */
const ADD_ALL = `
local at = 1
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  redis.call('XADD', KEYS[1], unpack(ARGV, at + 1, at + words))
  at = at + words + 1
end`

declare module 'ioredis' {
  interface RedisCommander<Context> {
    addAll(key: string, ...words: (string | number)[]): Result<null, Context>
  }
}

const TIMEOUT_MS = 5_000
/** While as much goes into a stream as it may hold. */
const WEIGHINGS = 16
const STREAMS_KNOWN = 10_000

export class Appender {
  readonly #url: string
  readonly #onError: (error: Error) => void
  #redis: Redis | undefined
  /** Bytes that went into a stream since it was last weighed. */
  readonly #unweighed = new LRUCache<StreamKey, number>({ max: STREAMS_KNOWN })

  constructor(url: string, onError: (error: Error) => void) {
    this.#url = url
    this.#onError = onError
  }

  /**
   * Returns when the server has taken all of it. Where it fails, some streams may have their part.
   * @throws Problem `dependency_unavailable`
   */
  async append(messages: readonly Addressed[]): Promise<void> {
    try {
      this.#redis ??= await this.#connect()
      const redis = this.#redis
      const parts = [...byStream(messages)]
      await Promise.all(parts.map(([key, part]) => appendAll(redis, key, part)))
      await Promise.all(
        parts.filter(([key, part]) => this.#isDue(key, part)).map(([key]) => lighten(redis, key)),
      )
    } catch (cause) {
      this.close()
      throw new Problem('dependency_unavailable', { detail: 'The event stream does not answer.', cause })
    }
  }

  close(): void {
    this.#redis?.disconnect()
    this.#redis = undefined
  }

  /** Whether the stream should be weighed: not after every change, since that takes the server a walk through it. */
  #isDue(key: StreamKey, part: readonly Addressed[]): boolean {
    const bytes = part.reduce((sum, { message }) => sum + message.text.length, this.#unweighed.get(key) ?? 0)
    this.#unweighed.delete(key)
    if (bytes >= LIMITS.changesBytesMax / WEIGHINGS) return true
    this.#unweighed.set(key, bytes)
    return false
  }

  /**
   * A new connection after each failure, which must have answered before it is sent anything: a server that hangs
   * would otherwise wake up with the same megabytes once for every attempt.
   */
  async #connect(): Promise<Redis> {
    const redis = new Redis(this.#url, {
      lazyConnect: true,
      maxRetriesPerRequest: 0,
      retryStrategy: () => null,
      connectTimeout: TIMEOUT_MS,
      commandTimeout: TIMEOUT_MS,
      scripts: { addAll: { lua: ADD_ALL, numberOfKeys: 1 } },
    })
    redis.on('error', this.#onError)
    try {
      await redis.connect()
      await redis.ping()
      return redis
    } catch (error) {
      redis.disconnect()
      throw error
    }
  }
}

/** In order, and nothing where the server has no room. As one command it costs half of what so many do. */
async function appendAll(redis: Redis, key: StreamKey, part: readonly Addressed[]): Promise<void> {
  const words = part.flatMap(({ message }) => {
    const [, ...told] = addition(key, message, LIMITS.changesKeptPerWorkspace)
    return [told.length, ...told]
  })
  await redis.addAll(key, ...words)
}

/** Drops the oldest of a stream whose documents take more memory than one workspace may have of it. */
async function lighten(redis: Redis, key: StreamKey): Promise<void> {
  const [bytes, length] = await Promise.all([redis.memory('USAGE', key, 'SAMPLES', 0), redis.xlen(key)])
  const share = LIMITS.changesBytesMax / (bytes ?? 1)
  if (share < 1) await redis.xtrim(key, 'MAXLEN', Math.floor(length * share))
}

function byStream(messages: readonly Addressed[]): Map<StreamKey, Addressed[]> {
  const parts = new Map<StreamKey, Addressed[]>()
  for (const message of messages) {
    const part = parts.get(message.key)
    if (part === undefined) parts.set(message.key, [message])
    else part.push(message)
  }
  return parts
}
