/** Records of executions while they cannot be written, and while a worker is killed: nothing is missing afterwards. */

import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { closeSubscriptions, messages, subscribeToStream } from '../support/clients/sse.ts'
import { createEntry, Executions } from '../support/fixtures/executions.ts'
import { eventually } from '../support/fixtures/tenants.ts'
import { TableBarrier } from '../support/servers/table-barrier.ts'
import { killServer, type OwnPlatform, sharedPlatform } from '../support/stack/own-platform.ts'

/** Longer than a workflow task timeout, ten seconds. */
const LONG_MS = 12_000
/** More than the tasks that a worker runs at once. */
const RUNS = 60

let own: OwnPlatform
let executions: Executions
let flow: string
beforeAll(async () => {
  own = await sharedPlatform()
  executions = new Executions(own.workspace, own.started.running)
  flow = await executions.publish(
    `  - breath: { wait: { seconds: 2 } }
  - first: { ${createEntry('one')} }
  - second: { set: { n: 2 } }
`,
  )
})
afterEach(closeSubscriptions)
afterAll(() => own?.end())

/** Expects every step and every event once, in order. */
async function expectComplete(id: string): Promise<void> {
  const run = await eventually(async () => {
    const record = await executions.read(id)
    return record.ended_at === null ? undefined : record
  }, 90_000)
  expect(run).toMatchObject({ status: 'completed', error: null, output: { n: 2 } })
  const steps = run.steps.map(({ name, status }: { name: string; status: string }) => `${name} ${status}`)
  expect(steps).toEqual(['breath completed', 'first completed', 'second completed'])
  const { workspace, started } = own
  const frames = await subscribeToStream(
    workspace.operator,
    `${workspace.flows}/executions/${id}/events`,
    {},
    started.running,
  )
  await eventually(async () => frames.find(({ event }) => event === 'end'))
  const seqs = messages(frames).map(({ id: seq }) => Number(seq))
  expect(seqs).toEqual(seqs.map((_, n) => n + 1))
  expect(seqs.length).toBeGreaterThan(6)
}

test('writes blocked for longer than a workflow task, many executions: all end with complete records', async () => {
  const ids = await Promise.all(Array.from({ length: RUNS }, () => executions.start(flow)))
  const gate = await TableBarrier.at(own, 'tenon.execution_steps')
  try {
    await delay(LONG_MS)
    expect((await gate.waiting()).length).toBeGreaterThan(0)
  } finally {
    await gate.open()
  }
  for (const id of ids) await expectComplete(id)
  expect(await executions.ledger('ledger')).toEqual(Array.from({ length: RUNS }, () => 'one'))
})

test('worker killed while writes are blocked: the record is complete', async () => {
  const id = await executions.start(flow)
  await executions.shown(id, 'waiting')
  const gate = await TableBarrier.at(own, 'tenon.execution_steps')
  try {
    const before = await eventually(async () => {
      const pids = await gate.waiting()
      return pids.length > 0 ? pids : undefined
    })
    killServer(own.started, 'worker')
    await eventually(async () => (await gate.waiting()).find((pid) => !before.includes(pid)), 60_000)
  } finally {
    await gate.open()
  }
  await expectComplete(id)
})
