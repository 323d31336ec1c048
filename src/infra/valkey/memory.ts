/** The memory of Valkey: its limit, what it does there, and errors of a server that is full. */

import type { Redis } from 'ioredis'
import { Problem } from '../../core/problem.ts'

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

/** True if the server refused a write since its memory is full. Of a transaction, the errors of its commands tell. */
function isFull(error: unknown): boolean {
  const { previousErrors = [] } = Object(error) as { previousErrors?: readonly unknown[] }
  return [error, ...previousErrors].some(
    (one) => one instanceof Error && one.message.includes('OOM command not allowed'),
  )
}

const FULL = {
  detail: 'Valkey is full: it accepts nothing that needs memory.',
  adminHint:
    'An operator raises `maxmemory` of Valkey, or removes what fills it besides Tenon; `npx tenon doctor` shows both.',
} as const

/**
 * The problem of a call that failed.
 * @param detail of a server that does not answer
 */
export const unavailable = (cause: unknown, detail: string): Problem =>
  new Problem('dependency_unavailable', { ...(isFull(cause) ? FULL : { detail }), cause })
