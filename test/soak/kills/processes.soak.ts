/**
 * Two APIs behind a balancer and two workers, of which one is killed, frozen for a minute or drained in turn under load, and an object store
 * that freezes; then a ledger of what was acknowledged is compared with what is there. `npm run test:soak -- kills`.
 */

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { eventually } from '../../support/fixtures/tenants.ts'
import { startBalancer } from '../../support/servers/balancer.ts'
import { startApi } from '../../support/stack/api-process.ts'
import { type OwnPlatform, whileStopped } from '../../support/stack/own-platform.ts'
import { startWorker } from '../../support/stack/worker-process.ts'
import type { Drill } from './drill.ts'
import { drillBeside, TIMEOUT_MS } from './load.ts'

/** At a rate that the machine bears: what is tested is what happens to it, not the load. */
const WRITERS = 4
const FROZEN_MS = 60_000
/** The supervisor restarts a store that answers nothing for a minute. */
const STORE_FROZEN_MS = 20_000
const BETWEEN_MS = 5_000

/** A process that is ended and started again. */
interface Victim {
  process: ChildProcess
  start(): Promise<ChildProcess>
}

const FAULTS: Readonly<Record<string, (victim: Victim) => Promise<void>>> = {
  killed: async (victim) => {
    const exited = once(victim.process, 'exit')
    victim.process.kill('SIGKILL')
    await exited
    await pause(BETWEEN_MS)
    victim.process = await victim.start()
  },
  frozen: async ({ process }) => {
    process.kill('SIGSTOP')
    await pause(FROZEN_MS)
    process.kill('SIGCONT')
  },
  drained: async (victim) => {
    const exited = once(victim.process, 'exit')
    victim.process.kill('SIGTERM')
    expect(await exited).toEqual([0, null])
    victim.process = await victim.start()
  },
}

async function disturbInTurn(drill: Drill, victims: Readonly<Record<string, Victim>>): Promise<void> {
  for (const [fault, befall] of Object.entries(FAULTS))
    for (const [name, victim] of Object.entries(victims)) {
      await pause(BETWEEN_MS)
      await befall(victim)
      drill.count(`${name} ${fault}`)
    }
  await pause(BETWEEN_MS)
}

/** Its ports stay open, and it answers nothing. */
async function freezeStore(drill: Drill, { started }: OwnPlatform): Promise<void> {
  await whileStopped(started, 'seaweedfs', () => pause(STORE_FROZEN_MS))
  drill.count('object store frozen')
  await pause(BETWEEN_MS)
}

/** Starts a second API and a second worker beside those of the platform, and a balancer before the APIs. */
async function prepare(own: OwnPlatform) {
  const { running } = own.started
  const api = await startApi({ TENON_DRAIN_DELAY: '2' }, running)
  const { port } = new URL(api.at.url)
  const victims: Record<string, Victim> = {
    api: {
      process: api.process,
      start: async () => (await startApi({ TENON_DRAIN_DELAY: '2', TENON_PORT: port }, running)).process,
    },
    worker: { process: await startWorker(running), start: () => startWorker(running) },
  }
  const balancer = await startBalancer([running.url, api.at.url])
  await eventually(async () => (balancer.ready().length === 2 ? true : undefined))
  return {
    at: { ...running, url: balancer.url },
    writers: WRITERS,
    disturb: async (drill: Drill) => {
      await disturbInTurn(drill, victims)
      await freezeStore(drill, own)
    },
    end: async () => {
      await balancer.close()
      for (const { process } of Object.values(victims)) process.kill('SIGKILL')
    },
  }
}

test(
  'two APIs and two workers: one is killed, frozen and drained under load: what was acknowledged is there once, and nothing else',
  () => drillBeside('processes that are killed, frozen and drained', prepare),
  TIMEOUT_MS,
)
