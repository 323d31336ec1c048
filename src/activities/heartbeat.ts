/** Tells Temporal that an activity lives while it waits for something long. */

import { heartbeat } from '@temporalio/activity'
import { LIMITS } from '../core/limits.ts'

export async function beating<T>(work: Promise<T>): Promise<T> {
  const beat = setInterval(() => heartbeat(), LIMITS.functionHeartbeatMs / 5)
  try {
    return await work
  } finally {
    clearInterval(beat)
  }
}
