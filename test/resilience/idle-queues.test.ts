/** A worker that is gone for good: readiness warns, status and `tenon doctor` name each task queue without a poller, and documents are served on. */

import { Connection } from '@temporalio/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { QUEUES } from '../../src/core/work.ts'
import type { IdleQueue } from '../../src/infra/health-report.ts'
import { findIdleQueues } from '../../src/infra/temporal/idle-queues.ts'
import { runCommand } from '../support/clients/cli.ts'
import { scrape, sumOf } from '../support/clients/metrics.ts'
import { readStatus } from '../support/clients/status.ts'
import { Executions } from '../support/fixtures/executions.ts'
import { call, eventually } from '../support/fixtures/tenants.ts'
import { killServer, type SharedPlatform, sharedPlatform } from '../support/stack/own-platform.ts'

let own: SharedPlatform

beforeAll(async () => {
  own = await sharedPlatform()
})
afterAll(async () => {
  await own?.started.stack.supervisor.restart('worker')
  await own?.end()
})

const readiness = async () => call('GET', '/readyz', { at: own.started.running })
const doctor = () =>
  runCommand(['doctor'], {
    env: { ...process.env, ...own.started.running.env, TENON_URL: own.started.running.url },
  })

/** Kills the worker, also one that is not ready yet, which takes less of the processor than one that is. */
async function crash(): Promise<void> {
  const exits = () => own.workerEvents.filter((type) => type === 'exited').length
  const before = exits()
  await eventually(async () => own.started.stack.supervisor.pid('worker'))
  killServer(own.started, 'worker')
  await eventually(async () => (exits() > before ? true : undefined))
}

const isGone = () => own.workerEvents.at(-1) === 'gave_up'

/** The queues that nobody has polled for two seconds. */
async function idleQueues() {
  const { TEMPORAL_ADDRESS: address = '', TEMPORAL_NAMESPACE: namespace = 'default' } =
    own.started.running.env
  const connection = await Connection.connect({ address })
  try {
    return await findIdleQueues(connection, namespace, { goneMs: 2_000 })
  } finally {
    await connection.close()
  }
}

const expectAll = (queues: readonly IdleQueue[]) =>
  expect(queues.map(({ queue }) => queue).toSorted()).toEqual(Object.values(QUEUES).toSorted())

test('worker crashes: while it restarts, readiness passes; once it is gone, each queue is named, since when, and what to do', async () => {
  // A worker polls each queue some moments after its start.
  await eventually(async () => ((await readiness()).body.status === 'pass' ? true : undefined))
  await crash()
  expect(await readiness()).toMatchObject({ status: 200, body: { status: 'pass' } })
  while (!isGone()) await crash()
  const queues = await eventually(async () => {
    const found = await idleQueues()
    return found.length === Object.keys(QUEUES).length ? found : undefined
  })
  expectAll(queues)
  for (const { queue, since, detail } of queues) {
    expect(Date.parse(since ?? '')).toBeLessThan(Date.now())
    expect(detail).toContain(`No worker has polled the task queue ${queue} since ${since}`)
  }
})

test('Temporal remembers no worker: readiness warns, status and doctor name each queue, and documents are served on', async () => {
  // Polls are in its memory alone.
  killServer(own.started, 'temporal')
  const queues: readonly IdleQueue[] = await eventually(async () => {
    const { idle_queues: idle } = await readStatus(own.started.running)
    return idle?.length === Object.keys(QUEUES).length ? idle : undefined
  }, 60_000)
  const { status, body } = await readiness()
  expect([status, body.status, body.checks.workers]).toEqual([200, 'warn', { status: 'fail' }])
  // It needs no credential.
  expect(JSON.stringify(body)).not.toContain(QUEUES.flows)
  expectAll(queues)
  const { stdout } = await doctor()
  for (const { queue, since, detail } of queues) {
    expect([since, detail]).toEqual([
      null,
      expect.stringContaining(`No worker polls the task queue ${queue}: its work stands still.`),
    ])
    expect(stdout).toContain(`✗ ${queue}`)
  }
  expect(stdout).not.toContain('All checks passed')
  // What a flow would do waits, and the metrics of the API say so without a worker.
  const executions = new Executions(own.workspace, own.started.running)
  await executions.start(await executions.publish('- one: { set: { n: 1 } }'))
  await eventually(async () => {
    const series = await scrape('api', own.started.running)
    const waiting = sumOf(series, 'tenon_task_queue_backlog', { task_queue: QUEUES.flows }) ?? 0
    const workers = sumOf(series, 'tenon_task_queue_has_worker')
    return waiting > 0 && workers === 0 ? true : undefined
  })
  const document = { as: own.workspace.service, at: own.started.running, body: { n: 1 } }
  expect((await call('POST', '/v1/collections/notes/documents', document)).status).toBe(201)
})
