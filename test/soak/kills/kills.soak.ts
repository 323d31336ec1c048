/**
 * The kill drill: everything is written, published, uploaded, started and run while servers and processes are killed in an order that a
 * seed determines; then a ledger of what was acknowledged is compared with what is there. `npm run test:soak -- kills`.
 */

import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { call, createTestWorkspaceWithStorage } from '../../support/fixtures/tenants.ts'
import { type OwnPlatform, ownPlatform } from '../../support/stack/own-platform.ts'
import { Drill } from './drill.ts'
import {
  compareFlows,
  compareFunctions,
  compareObjects,
  overwriteObjects,
  publishEffects,
  startFlows,
  startFunctions,
} from './effects.ts'
import { compareChanges, compareNumbers, publishNumbers, Subscriber } from './streams.ts'
import { compareLedger, openLedgers, Writer } from './writers.ts'

const SEED = Number(process.env['TENON_KILLS_SEED'] ?? 1)
const MINUTES = Number(process.env['TENON_KILLS_MINUTES'] ?? 2)
const TIMEOUT_MS = MINUTES * 60_000 + 1_800_000

const WRITERS = 16
const UPLOADERS = 2
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

async function runDrill(drill: Drill, own: OwnPlatform): Promise<void> {
  const ledgers = await openLedgers(drill)
  const effects = await publishEffects(drill)
  const { body } = await call('GET', `/v1/workspaces/${own.workspace.workspaceId}`, {
    at: drill.at,
    as: own.workspace.operator,
  })
  const subscribers = [
    new Subscriber(drill, 'drill.*', '0-0'),
    new Subscriber(drill, 'collections.declared.*,collections.undeclared.*', '0-0'),
  ]
  const listening = subscribers.map((subscriber) => subscriber.run())
  const working = Promise.all([
    Promise.all(Array.from({ length: UPLOADERS }, (_, n) => overwriteObjects(drill, body.bucket, n))),
    publishNumbers(drill),
    startFlows(drill, effects),
    startFunctions(drill, effects),
    ...Array.from({ length: WRITERS }, (_, n) =>
      new Writer(drill, ledgers[n % 2] as (typeof ledgers)[number], n).run(),
    ),
  ])
  await killByTurns(drill, own, performance.now() + MINUTES * 60_000)
  drill.isOver = true
  const [objects, numbers, executions, runs] = await working
  for (const ledger of ledgers) await compareLedger(drill, ledger)
  for (const uploaded of objects) await compareObjects(drill, uploaded)
  const [ofNumbers, ofChanges] = subscribers as [Subscriber, Subscriber]
  await compareNumbers(drill, ofNumbers, numbers)
  for (const ledger of ledgers) await compareChanges(drill, ofChanges, ledger)
  await compareFlows(drill, executions)
  await compareFunctions(drill, effects, runs)
  for (const subscriber of subscribers) subscriber.close()
  await Promise.all(listening)
}

test(
  'kill drill: servers and processes are killed under load: what was acknowledged is there once, and nothing else',
  async () => {
    const gaveUp: string[] = []
    const onEvent = ({ name, type, detail }: { name: string; type: string; detail: string }) => {
      if (type === 'gave_up') gaveUp.push(`${name}: ${detail}`)
    }
    const own = await ownPlatform({ lasting: true, onEvent }, createTestWorkspaceWithStorage)
    const drill = new Drill(own.started.running, own.workspace, SEED)
    try {
      await runDrill(drill, own)
      console.log(`kill drill, seed ${SEED}, ${MINUTES} min`)
      console.table(Object.fromEntries(Object.entries(drill.counts).sort()))
      expect([...gaveUp, ...drill.findings]).toEqual([])
    } finally {
      // Checks the invariants of all executions and runs.
      await own.end()
    }
  },
  TIMEOUT_MS,
)
