/** The faults of the drill: what happens to a process, to its machine, or to the connections of a store, until it is over. */

import { setTimeout as pause } from 'node:timers/promises'
import type { Fleet, ProcessName, StoreName } from './fleet.ts'

const LASTS_MS = 10_000
const DEAD_MS = 3_000
const DELAY_MS = 500

export const PROCESS_FAULTS: Readonly<Record<string, (fleet: Fleet, name: ProcessName) => Promise<void>>> = {
  killed: async (fleet, name) => {
    await fleet.kill(name)
    await pause(DEAD_MS)
    await fleet.start(name)
  },
  frozen: async (fleet, name) => {
    const { process } = fleet.member(name)
    process.kill('SIGSTOP')
    await pause(LASTS_MS).finally(() => process.kill('SIGCONT'))
  },
  drained: async (fleet, name) => {
    await fleet.drain(name)
    await fleet.start(name)
  },
  'cut off': async (fleet, name) => {
    const { setLink } = fleet.member(name)
    await setLink('down')
    await pause(LASTS_MS)
    // If the drill ends before, the link ends with it.
    await setLink('up')
  },
}

export const STORE_FAULTS: Readonly<Record<string, (fleet: Fleet, name: StoreName) => Promise<void>>> = {
  slow: async (fleet, name) => {
    fleet.store(name).delay(DELAY_MS)
    await pause(LASTS_MS).finally(() => fleet.store(name).delay(0))
  },
  'reset on all connections': async (fleet, name) => {
    fleet.store(name).reset()
  },
  silent: async (fleet, name) => {
    fleet.store(name).blackhole(true)
    await pause(LASTS_MS).finally(() => fleet.store(name).blackhole(false))
  },
}

/** Seconds by which the clock of one process differs from that of the others and of PostgreSQL. */
export const CLOCKS: Readonly<Record<string, number>> = { ahead: 30, behind: -30 }
