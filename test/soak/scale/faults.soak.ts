/**
 * Two APIs behind HAProxy and two workers, each in a network namespace, of which one is killed, frozen, drained and cut off in turn, and stores
 * that are slow, reset all connections, or answer nothing for a time: after each fault, a ledger of what was acknowledged is compared with
 * what is there. `npm run test:scale`.
 */

import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTestWorkspaceWithStorage } from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'
import { Network } from '../../support/servers/network.ts'
import { expectInvariants } from '../../support/stack/invariants.ts'
import { type OwnPlatform, ownPlatform } from '../../support/stack/own-platform.ts'
import { Drill } from '../kills/drill.ts'
import { runDrill } from '../kills/load.ts'
import { Fleet, PROCESSES, type ProcessName } from './fleet.ts'

/** Together with events, executions, runs and objects some 25 requests a second: what is tested is what happens to them, not the load. */
const WRITERS = { writers: 4, pauseMs: 400 }
const BETWEEN_MS = 3_000

let network: Network | undefined
let outside: FakeServers | undefined
let own: OwnPlatform | undefined
let fleet: Fleet
const gaveUp: string[] = []
const table: Record<string, Record<string, number | string>> = {}
let seed = 0

beforeAll(async () => {
  network = await Network.open()
  outside = await FakeServers.open({ '/': () => ({}) }, network.address)
  const onEvent = ({ name, type, detail }: { name: string; type: string; detail: string }) => {
    if (type === 'gave_up') gaveUp.push(`${name}: ${detail}`)
  }
  own = await ownPlatform({ lasting: true, onEvent })
  fleet = await Fleet.start(network, own, { TENON_EGRESS_ALLOWLIST: outside.host })
})

afterAll(async () => {
  console.table(table)
  try {
    // While there are workers, which repair what a fault has left.
    if (fleet !== undefined && own !== undefined) await expectInvariants(own.started.running)
  } finally {
    await fleet?.close()
    await network?.close()
    await outside?.close()
    await own?.end()
  }
})

/** Works under a fault and until all is ready again; then nothing may be lost or there twice. */
async function drillOf(name: string, befall: (drill: Drill) => Promise<void>): Promise<Drill> {
  const workspace = await createTestWorkspaceWithStorage(fleet.at)
  const drill = new Drill(fleet.at, workspace, ++seed)
  const before = outside?.requests.length ?? 0
  const told = () => outside?.requests.slice(before).map(({ body }) => Number(body)) ?? []
  await runDrill(drill, {
    ...WRITERS,
    outside: { host: outside?.host ?? '', told },
    disturb: async () => {
      await pause(BETWEEN_MS)
      drill.disturbedNow()
      await befall(drill)
      await fleet.awaitReady()
      await pause(BETWEEN_MS)
    },
  })
  const { sent, answered: acknowledged, errors } = drill.requests
  const seconds = ((drill.firstAnswerMs ?? Number.NaN) / 1_000).toFixed(1)
  table[name] = { sent, acknowledged, errors, ...drill.faults, 'first success after s': seconds }
  console.log(name, JSON.stringify({ ...table[name], ...drill.counts }))
  expect([...gaveUp, ...drill.findings]).toEqual([])
  return drill
}

const FAULTS: Readonly<Record<string, (name: ProcessName) => Promise<void>>> = {
  killed: async (name) => {
    await fleet.kill(name)
    await pause(BETWEEN_MS)
    await fleet.start(name)
  },
}

const CASES = Object.keys(FAULTS).flatMap((fault) => PROCESSES.map((name) => ({ name, fault })))

test.each(CASES)(
  'one of two APIs and two workers: $name is $fault under load: what was acknowledged is there once, and nothing else',
  async ({ name, fault }) => {
    await drillOf(`${name} ${fault}`, () => FAULTS[fault]?.(name) ?? Promise.resolve())
  },
)
