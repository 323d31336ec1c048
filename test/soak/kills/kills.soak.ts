/**
 * The kill drill: everything is written, published, uploaded, started and run while servers and processes are killed in an order that a
 * seed determines; then a ledger of what was acknowledged is compared with what is there. `npm run test:soak -- kills`.
 */

import { setTimeout as pause } from 'node:timers/promises'
import { test } from 'vitest'
import type { OwnPlatform } from '../../support/stack/own-platform.ts'
import type { Drill } from './drill.ts'
import { drillBeside, MINUTES, TIMEOUT_MS } from './load.ts'

const WRITERS = 16
const VICTIMS = ['postgres', 'api', 'worker', 'temporal', 'valkey', 'seaweedfs']
const BETWEEN_KILLS_MS = { min: 3_000, random: 6_000 }
/** The supervisor gives up after five crashes of one process in a minute. */
const KILLS_PER_MINUTE_MAX = 3

/** Kills by the pids that the supervisor reports, until the time is over. */
async function killByTurns(drill: Drill, { started }: OwnPlatform, untilMs: number): Promise<void> {
  const random = drill.random(1_000)
  const killed: { name: string; atMs: number }[] = []
  while (performance.now() < untilMs) {
    await pause(BETWEEN_KILLS_MS.min + random(BETWEEN_KILLS_MS.random))
    const recent = killed.filter(({ atMs }) => atMs > performance.now() - 60_000)
    const allowed = VICTIMS.filter(
      (name) => recent.filter((kill) => kill.name === name).length < KILLS_PER_MINUTE_MAX,
    )
    const name = allowed[random(allowed.length)] ?? ''
    const pid = started.stack.supervisor.pid(name)
    if (pid === undefined) continue
    process.kill(pid, 'SIGKILL')
    killed.push({ name, atMs: performance.now() })
    drill.count(`kills of ${name}`)
  }
}

test(
  'kill drill: servers and processes are killed under load: what was acknowledged is there once, and nothing else',
  () =>
    drillBeside('kill drill', async (own) => ({
      writers: WRITERS,
      disturb: (drill) => killByTurns(drill, own, performance.now() + MINUTES * 60_000),
    })),
  TIMEOUT_MS,
)
