/** Records of function runs after crashes: a worker that is killed while a run holds a slot, and one that is killed while a run may be repeated. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { FunctionRuns } from '../support/fixtures/function-runs.ts'
import { type OwnPlatform, sharedPlatform } from '../support/stack/own-platform.ts'

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
