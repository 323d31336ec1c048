/** A platform that a test file has for itself: to kill its processes, or to give its servers other settings. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Running, type Started, startPlatform } from './start.ts'
import { aRoom, type Room } from './tenants.ts'

export interface OwnPlatform {
  /** Its folder. */
  readonly dir: string
  readonly started: Started
  readonly room: Room
  /** Ends its processes, and takes away what they have left. */
  end(): Promise<void>
}

/**
 * @param options as of {@link startPlatform}; servers keep their data when they crash, if nothing else is said
 * @param make its room: one that stores objects takes longer
 */
export async function ownPlatform(
  options: Parameters<typeof startPlatform>[1] = { lasting: true },
  make: (at: Running) => Promise<Room> = aRoom,
): Promise<OwnPlatform> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-own-'))
  const leave = () => rm(dir, { recursive: true, force: true })
  try {
    const started = await startPlatform(dir, options)
    const end = async () => {
      await started.stop()
      await leave()
    }
    const room = await make(started.running).catch(async (error: unknown) => {
      await end()
      throw error
    })
    return { dir, started, room, end }
  } catch (error) {
    await leave()
    throw error
  }
}
