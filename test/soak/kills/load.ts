/** The load of a drill: everything is written, published, uploaded, started and run while something disturbs it; then the ledger is compared. */

import { expect } from 'vitest'
import { createTestWorkspaceWithStorage, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { type OwnPlatform, ownPlatform } from '../../support/stack/own-platform.ts'
import type { Running } from '../../support/stack/start.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'
import { Drill } from './drill.ts'
import {
  compareFlows,
  compareFunctions,
  type Outside,
  publishEffects,
  startFlows,
  startFunctions,
} from './effects.ts'
import { compareStored, ObjectWriter } from './objects.ts'
import { compareChanges, compareNumbers, publishNumbers, Subscriber } from './streams.ts'
import { compareLedger, openLedgers, Writer } from './writers.ts'

const SEED = Number(process.env['TENON_KILLS_SEED'] ?? 1)
export const MINUTES = Number(process.env['TENON_KILLS_MINUTES'] ?? 2)
export const TIMEOUT_MS = MINUTES * 60_000 + 1_800_000

const UPLOADERS = 2

interface Load {
  readonly writers: number
  /** Of a writer after each change. */
  readonly pauseMs?: number
  readonly outside?: Outside
  /** Work goes on until it returns. */
  disturb(drill: Drill): Promise<void>
}

interface Disturbance extends Load {
  /** The URL that requests are sent to, such as that of a balancer. Default: the API of the platform. */
  readonly at?: Running
  /** Of another installation than the platform's own. */
  readonly workspace?: TestWorkspace
  /** The faults that were found after everything was compared. */
  faults?(drill: Drill): readonly string[]
  end?(): Promise<void>
}

/** Runs a drill on a platform of its own, prints its counts, and fails if something was found. */
export async function drillBeside(
  name: string,
  prepare: (own: OwnPlatform) => Promise<Disturbance>,
): Promise<void> {
  const gaveUp: string[] = []
  const onEvent = ({ name, type, detail }: { name: string; type: string; detail: string }) => {
    if (type === 'gave_up') gaveUp.push(`${name}: ${detail}`)
  }
  const own = await ownPlatform({ lasting: true, onEvent }, createTestWorkspaceWithStorage)
  try {
    const disturbance = await prepare(own)
    const { at = own.started.running, workspace = own.workspace } = disturbance
    const drill = new Drill(at, workspace, SEED)
    try {
      await runDrill(drill, disturbance)
    } catch (error) {
      // The end checks more, and its errors would hide this one.
      console.error(error)
      throw error
    } finally {
      await disturbance.end?.()
    }
    console.log(`${name}, seed ${SEED}`)
    console.table(Object.fromEntries(Object.entries(drill.counts).sort()))
    expect([...gaveUp, ...drill.findings, ...(disturbance.faults?.(drill) ?? [])]).toEqual([])
  } finally {
    // Checks the invariants of all executions and runs.
    await own.end()
  }
}

/** Works while something disturbs it, then compares the ledger; what differs is in the findings of the drill. */
export async function runDrill(drill: Drill, { writers, pauseMs, outside, disturb }: Load): Promise<void> {
  const ledgers = await openLedgers(drill)
  const effects = await publishEffects(drill, outside)
  const bucket = await bucketOf(drill.workspace, drill.at)
  const subscribers = [
    new Subscriber(drill, 'drill.*', '0-0'),
    new Subscriber(drill, 'collections.declared.*,collections.undeclared.*', '0-0'),
  ]
  const listening = subscribers.map((subscriber) => subscriber.run())
  const working = Promise.all([
    Promise.all(Array.from({ length: UPLOADERS }, (_, n) => new ObjectWriter(drill, bucket, n).run())),
    publishNumbers(drill),
    startFlows(drill, effects),
    startFunctions(drill, effects),
    ...Array.from({ length: writers }, (_, n) =>
      new Writer(drill, ledgers[n % 2] as (typeof ledgers)[number], n, pauseMs).run(),
    ),
  ])
  await disturb(drill)
  drill.isOver = true
  const [objects, numbers, executions, runs] = await working
  for (const ledger of ledgers) await compareLedger(drill, ledger)
  await compareStored(drill, bucket, objects)
  const [ofNumbers, ofChanges] = subscribers as [Subscriber, Subscriber]
  await compareNumbers(drill, ofNumbers, numbers)
  for (const ledger of ledgers) await compareChanges(drill, ofChanges, ledger)
  await compareFlows(drill, executions)
  await compareFunctions(drill, effects, runs)
  for (const subscriber of subscribers) subscriber.close()
  await Promise.all(listening)
}
