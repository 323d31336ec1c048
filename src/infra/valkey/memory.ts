/** Reads how much memory Valkey uses, its limit, and what it does there. */

import type { Redis } from 'ioredis'

export interface ValkeyMemory {
  readonly usedBytes: number
  /** 0: without limit. */
  readonly maxBytes: number
  /** `noeviction`, or one that deletes keys when the limit is reached. */
  readonly policy: string
}

/** Read from INFO, since managed servers refuse CONFIG. */
export async function readMemory(redis: Redis): Promise<ValkeyMemory> {
  const info = await redis.info('memory')
  const field = (name: string) => new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1]
  return {
    usedBytes: Number(field('used_memory') ?? 0),
    maxBytes: Number(field('maxmemory') ?? 0),
    policy: field('maxmemory_policy') ?? 'noeviction',
  }
}
