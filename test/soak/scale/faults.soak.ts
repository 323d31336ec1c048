/**
 * Two APIs behind HAProxy and two workers, each in a network namespace, of which one is killed, frozen, drained and cut off in turn, and stores
 * that are slow, reset all connections, or answer nothing for a time: after each fault, a ledger of what was acknowledged is compared with
 * what is there. `npm run test:scale`.
 */

import { readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { call, createTestWorkspaceWithStorage, operator } from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'
import { Network } from '../../support/servers/network.ts'
import { clockAhead } from '../../support/servers/wrong-clock.ts'
import { expectInvariants } from '../../support/stack/invariants.ts'
import { type OwnPlatform, ownPlatform } from '../../support/stack/own-platform.ts'
import { Drill } from '../kills/drill.ts'
import { runDrill } from '../kills/load.ts'
import { CLOCKS, PROCESS_FAULTS, STORE_FAULTS } from './faults.ts'
import { Fleet, PROCESSES, STORES } from './fleet.ts'

/** Together with events, executions, runs and objects some 25 requests a second: what is tested is what happens to them, not the load. */
const WRITERS = { writers: 4, pauseMs: 400 }
const BETWEEN_MS = 3_000
const WRONG_CLOCK_MS = 10_000

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
async function drillOf(name: string, befall: () => Promise<void> | undefined): Promise<Drill> {
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
      await befall()
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

const casesOf = <N extends string>(faults: object, names: readonly N[]) =>
  Object.keys(faults).flatMap((fault) => names.map((name) => ({ name, fault })))

test.each(casesOf(PROCESS_FAULTS, PROCESSES))(
  'one of two APIs and two workers: $name is $fault under load: what was acknowledged is there once, and nothing else',
  async ({ name, fault }) => {
    await drillOf(`${name}: ${fault}`, () => PROCESS_FAULTS[fault]?.(fleet, name))
  },
)

test.each(casesOf(STORE_FAULTS, STORES))(
  'two APIs and two workers: $name is $fault under load: what was acknowledged is there once, and nothing else',
  async ({ name, fault }) => {
    await drillOf(`${name}: ${fault}`, () => STORE_FAULTS[fault]?.(fleet, name))
  },
)

test('two APIs and two workers: all are restarted in turn under load: clients that repeat nothing see no error', async () => {
  const drill = await drillOf('all processes: restarted in turn', async () => {
    for (const name of [...PROCESSES].reverse()) {
      await PROCESS_FAULTS['drained']?.(fleet, name)
      await fleet.awaitReady()
    }
  })
  expect(drill.requests.errors, `${JSON.stringify(drill.counts)}\n${fleet.balancerLog}`).toBe(0)
})

/** A new token of each API is valid at each. */
async function expectTokensEverywhere(): Promise<void> {
  const apis = fleet.apiUrls.map((url) => ({ ...fleet.at, url }))
  for (const issuer of apis) {
    const as = await operator(issuer)
    for (const at of apis)
      expect((await call('GET', '/v1/me', { as, at })).body, `${issuer.url} at ${at.url}`).toHaveProperty(
        'subject',
      )
  }
}

test.each(casesOf(CLOCKS, ['API 2', 'worker 2']))(
  'one of two APIs and two workers: the clock of $name is 30 s $fault: nothing is lost or there twice, tokens are valid everywhere, and its log says so',
  async ({ name, fault }) => {
    const seconds = CLOCKS[fault] ?? 0
    await drillOf(`${name}: clock 30 s ${fault}`, async () => {
      await fleet.drain(name)
      await fleet.start(name, { env: await clockAhead(seconds) })
      await fleet.awaitReady()
      await expectTokensEverywhere()
      await pause(WRONG_CLOCK_MS)
      await fleet.drain(name)
      await fleet.start(name)
    })
    expect(await readFile(fleet.member(name).log, 'utf8')).toMatch(
      new RegExp(
        `The clock of this machine is (29|30|31) s ${seconds < 0 ? 'behind' : 'ahead of'} that of PostgreSQL`,
      ),
    )
  },
)
