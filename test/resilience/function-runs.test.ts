/** Runs of functions when a worker is killed, and when Temporal or Valkey hangs while the code runs. */

import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { FunctionRuns } from '../support/fixtures/function-runs.ts'
import { eventually } from '../support/fixtures/tenants.ts'
import { type OwnPlatform, sharedPlatform, whileStopped } from '../support/stack/own-platform.ts'

let own: OwnPlatform
let runs: FunctionRuns
beforeAll(async () => {
  own = await sharedPlatform()
  runs = new FunctionRuns(own.workspace, own.started.running)
}, 120_000)
afterAll(() => own?.end())

function killWorker(): void {
  const pid = own.started.stack.supervisor.pid('worker')
  if (pid === undefined) throw new Error('the worker does not run')
  process.kill(pid, 'SIGKILL')
}

test('worker killed while a run holds the only slot: the run is a dead letter, and the queue goes on', async () => {
  const source =
    'export default ({ ms = 0 }) => { console.log("began"); return new Promise((d) => setTimeout(d, ms, "done")) }'
  const id = await runs.deploy('one', source, { concurrency: 1, timeout: '60s' })
  const held = await runs.start(id, { ms: 50_000 })
  await runs.until(id, held, ({ status }) => status === 'running')
  const queued = await runs.start(id)
  expect(await runs.read(id, queued)).toMatchObject({ status: 'queued', attempts: 0 })
  killWorker()
  const lost = await runs.ended(id, held, 60_000)
  expect(lost).toMatchObject({ status: 'failed', attempts: 1, dead_letter: true })
  expect(lost.error.code).toBe('run_cut_off')
  expect(await runs.ended(id, queued, 60_000)).toMatchObject({ status: 'completed', result: 'done' })
}, 150_000)

test('idempotent run whose worker is killed: runs again', async () => {
  const source = 'export default () => new Promise((d) => setTimeout(d, 4_000, "done"))'
  const config = { idempotent: true, retries: 2, timeout: '30s' }
  const id = await runs.deploy('repeated', source, config)
  const run = await runs.start(id)
  await runs.until(id, run, ({ status }) => status === 'running', 60_000)
  killWorker()
  expect(await runs.ended(id, run, 90_000)).toMatchObject({
    status: 'completed',
    attempts: 2,
    result: 'done',
  })
}, 150_000)

/** Starts a call of a function that takes a second, and stops a server while its code runs. @returns the response, and the run */
async function calledWhileStopped(name: string, server: 'temporal' | 'valkey') {
  const source = `export default () => new Promise((d) => setTimeout(d, 1_000, '${name}'))`
  const id = await runs.deploy(name, source)
  const calling = runs.invoke(id)
  const [run = ''] = await eventually(async () => {
    const { data } = (await runs.list(id)).body
    return data[0]?.status === 'running' ? [data[0].id as string] : undefined
  })
  await whileStopped(own.started, server, async () => {
    const { status, body } = await calling
    expect([status, body]).toEqual([200, name])
  })
  return { id, run }
}

test('Temporal hangs while the code runs: the caller has the result when its record is durable, and the workflow ends later', async () => {
  const { id, run } = await calledWhileStopped('direct', 'temporal')
  expect(await runs.read(id, run)).toMatchObject({ status: 'completed', attempts: 1 })
  expect((await runs.invoke(id)).status).toBe(200)
  const connection = await Connection.connect({
    address: own.started.running.env['TEMPORAL_ADDRESS'] ?? '',
  })
  onTestFinished(() => connection.close())
  const { workflow } = new Client({ connection })
  const query = `FlowId = '${id}' and ExecutionStatus = 'Completed'`
  await eventually(async () => (await workflow.count(query)).count === 2 || undefined)
}, 60_000)

test('Valkey hangs while the code runs: the result comes through Temporal', async () => {
  const { id, run } = await calledWhileStopped('through-temporal', 'valkey')
  expect(await runs.read(id, run)).toMatchObject({ status: 'completed' })
}, 60_000)
