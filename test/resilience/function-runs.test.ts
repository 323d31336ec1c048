/** Runs of functions when a worker is killed, and when Temporal or Valkey hangs while the code runs. */

import { Connection, Client as TemporalClient } from '@temporalio/client'
import type { Client } from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { uuidOf } from '../../src/core/ids.ts'
import { FunctionRuns } from '../support/fixtures/function-runs.ts'
import { connectSuperuser, eventually, type TestWorkspace } from '../support/fixtures/tenants.ts'
import {
  killServer,
  type SharedPlatform,
  sharedPlatform,
  whileStopped,
} from '../support/stack/own-platform.ts'
import { withRawClient } from '../support/stack/temporal.ts'

let own: SharedPlatform
let runs: FunctionRuns
beforeAll(async () => {
  own = await sharedPlatform()
  runs = new FunctionRuns(own.workspace, own.started.running)
})
afterAll(() => own?.end())

test('worker killed while a run holds the only slot: the run is a dead letter, and the queue goes on', async () => {
  const source =
    'export default ({ ms = 0 }) => { console.log("began"); return new Promise((d) => setTimeout(d, ms, "done")) }'
  const id = await runs.deploy('one', source, { concurrency: 1, timeout: '60s' })
  const held = await runs.start(id, { ms: 50_000 })
  await runs.until(id, held, ({ status }) => status === 'running')
  const queued = await runs.start(id)
  expect(await runs.read(id, queued)).toMatchObject({ status: 'queued', attempts: 0 })
  killServer(own.started, 'worker')
  const lost = await runs.ended(id, held, 60_000)
  expect(lost).toMatchObject({ status: 'failed', attempts: 1, dead_letter: true })
  expect(lost.error.code).toBe('run_cut_off')
  expect(await runs.ended(id, queued, 60_000)).toMatchObject({ status: 'completed', result: 'done' })
})

/** Locks the record of a run. @returns the session, which holds the lock until it ends */
async function lockRecord(run: string): Promise<Client> {
  const session = await connectSuperuser(own.started.running)
  await session.query('begin')
  await session.query('select from tenon.function_runs where id = $1 for update', [run])
  return session
}

/** Waits until a statement waits for a lock of the session. @param ms longer if a worker may have to start before */
const blocks = (session: Client, ms?: number) =>
  eventually(async () => {
    const { rows } = await session.query(
      'select from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))',
    )
    return rows[0]
  }, ms)

const SLOW = 'export default () => new Promise((done) => setTimeout(done, 1_000, 7))'
const SLOW_AT_FIRST = `export default (_input, { run }) =>
  new Promise((done) => setTimeout(done, run.attempt === 1 ? 50_000 : 0, 7))`
const LOADS = 'await new Promise(() => {}); export default () => 1'
const STREAMS = `export const fetch = () =>
  new Response(new ReadableStream({ start: (to) => to.enqueue(new TextEncoder().encode('first')) }))`
const THIRD_TIME = `export default (_input, { run, log }) => {
  log('begun')
  if (run.attempt < 3) throw new Error('again')
  return 'done'
}`

/** Waits for the only run of a function, and lets the write of its end wait for a lock. */
async function heldAtItsEnd(id: string): Promise<{ readonly run: string; readonly lock: Client }> {
  const [run = ''] = await eventually(async () => {
    const begun = await runs.ids(id, 'status=running')
    return begun.length > 0 ? begun : undefined
  })
  const lock = await lockRecord(run)
  await blocks(lock)
  return { run, lock }
}

/** Starts a run of {@link THIRD_TIME}. @returns it in the pause of two seconds after its second attempt */
async function startedAndPaused(id: string): Promise<string> {
  const run = await runs.start(id)
  await eventually(async () => {
    const { body } = await runs.call('GET', `/v1/functions/${id}/runs/${run}/logs`)
    return body.data.length === 2 || undefined
  })
  return run
}

test('worker killed before the code, in it, in a response, at the end of runs, and in a pause: each run has one outcome', async () => {
  const config = { timeout: '60s' }
  const loads = await runs.deploy('loads', LOADS, config)
  const streams = await runs.deploy('streams', STREAMS, config)
  const [ends, endsAsync] = [await runs.deploy('ends', SLOW), await runs.deploy('ends-async', SLOW)]
  const repeated = { idempotent: true, retries: 2 }
  const again = await runs.deploy('again', SLOW_AT_FIRST, { ...config, ...repeated })
  const repeats = await runs.deploy('repeats', THIRD_TIME, repeated)
  const loading = await runs.start(loads)
  await runs.until(loads, loading, ({ status }) => status === 'running')
  const running = await runs.start(again)
  await runs.until(again, running, ({ status }) => status === 'running')
  const url = `${own.started.running.url}/v1/functions/${streams}/http/`
  const response = await fetch(url, { headers: { ...own.workspace.service } })
  const reader = response.body?.getReader()
  expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe('first')
  const replied = runs.invoke(ends)
  await runs.start(endsAsync)
  // A write of an end is given up after some seconds.
  const [waited, queued, paused] = await Promise.all([
    heldAtItsEnd(ends),
    heldAtItsEnd(endsAsync),
    startedAndPaused(repeats),
  ])
  killServer(own.started, 'worker')
  // The database ends both statements, whose worker is gone.
  await Promise.all([waited.lock.end(), queued.lock.end()])
  await expect(reader?.read()).rejects.toThrow()
  const [reply, ...ended] = await Promise.all([
    replied,
    runs.ended(loads, loading, 60_000),
    runs.ended(streams, response.headers.get('x-run-id') ?? '', 60_000),
    runs.ended(ends, waited.run, 60_000),
    runs.ended(endsAsync, queued.run, 60_000),
    runs.ended(repeats, paused, 60_000),
    runs.ended(again, running, 60_000),
  ])
  expect(ended.map(({ error, attempts, result }) => [error?.code ?? 'completed', attempts, result])).toEqual([
    ['run_cut_off', 1, null],
    ['run_cut_off', 1, null],
    ['completed', 1, null],
    ['completed', 1, 7],
    ['completed', 3, 'done'],
    ['completed', 2, 7],
  ])
  expect(reply.body).toMatchObject({ code: 'run_cut_off', detail: expect.stringMatching(/has completed/) })
})

/**
 * Calls a function, and lets its worker wait for the code, which it reads before it begins: the table is locked while Temporal, stopped
 * for as long, has not begun the run that the record is of.
 */
async function calledAndHeldBeforeItsCode(name: string) {
  const id = await runs.deploy(name, `export default () => '${name}'`)
  const lock = await connectSuperuser(own.started.running)
  onTestFinished(() => lock.end())
  const { called, run } = await whileStopped(own.started, 'temporal', async () => {
    const calling = runs.invoke(id)
    const [begun = ''] = await eventually(async () => {
      const ids = await runs.ids(id)
      return ids.length === 1 ? ids : undefined
    })
    await lock.query('begin; lock table tenon.function_versions in access exclusive mode')
    return { called: { calling }, run: begun }
  })
  await blocks(lock, 60_000)
  return { id, run, lock, ...called }
}

/** Waits until Temporal has given up the workflow task of a run: its worker did not answer. */
const isTaskLost = ({ tenantId, workspaceId }: TestWorkspace, id: string, run: string) =>
  withRawClient(
    (client) =>
      eventually(async () => {
        const handle = client.workflow.getHandle(`${tenantId}:${workspaceId}:${id}:${uuidOf(run)}`)
        const { raw } = await handle.describe()
        return (raw.pendingWorkflowTask?.attempt ?? 0) > 1 ? true : undefined
      }, 60_000),
    own.started.running,
  )

test.each(['killed', 'stopped'] as const)(
  'worker %s before the code of a run begins: the attempt is not used up, and the code runs once',
  async (how) => {
    await own.forgetCrashes()
    const { id, run, lock, calling } = await calledAndHeldBeforeItsCode(`unbegun-${how}`)
    if (how === 'killed') {
      killServer(own.started, 'worker')
      await lock.query('rollback')
    } else
      await whileStopped(own.started, 'worker', async () => {
        await lock.query('rollback')
        await isTaskLost(own.workspace, id, run)
      })
    const { status, body } = await calling
    expect([status, body]).toEqual([200, `unbegun-${how}`])
    expect(await runs.ended(id, run)).toMatchObject({ status: 'completed', attempts: 1 })
  },
)

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
  const { workflow } = new TemporalClient({ connection })
  const query = `FlowId = '${id}' and ExecutionStatus = 'Completed'`
  await eventually(async () => (await workflow.count(query)).count === 2 || undefined)
})

test('Valkey hangs while the code runs: the result comes through Temporal', async () => {
  const { id, run } = await calledWhileStopped('through-temporal', 'valkey')
  expect(await runs.read(id, run)).toMatchObject({ status: 'completed' })
})
