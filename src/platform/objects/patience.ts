/** Waiting for a store that has not yet heard what its workspace may. */

import { setTimeout as pause } from 'node:timers/promises'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'

/**
 * Does the work again while the store denies a workspace its own bucket: what it may there has been said, and the
 * gateways of the store hear of it one after the other, after a workspace was resumed as after it was made.
 * @param isOwn whether the bucket is the workspace's; asked when it is denied
 * @throws what the work threw, after `LIMITS.storeOpeningMs` also where it was denied
 */
export async function patiently<T>(work: () => Promise<T>, isOwn: () => Promise<boolean>): Promise<T> {
  const untilMs = performance.now() + LIMITS.storeOpeningMs
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!denied(error) || performance.now() > untilMs || !(await isOwn())) throw error
      await pause(LIMITS.storeOpeningPauseMs)
    }
  }
}

const denied = (error: unknown) => error instanceof Problem && error.code === 'AccessDenied'
