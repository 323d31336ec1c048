/** Measures cold and warm start, one request and one flow, each against a baseline of the same run. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Pool } from 'pg'
import { type Running, type Started, startPlatform } from '../test/support/stack/start.ts'
import { createTestWorkspace } from './fixture.ts'
import { sender } from './http.ts'
import { interleaved, print, throughput } from './measure.ts'

const ROUNDS = 400
const FLOW_ROUNDS = 30
const LANES = 16
const LANE_MS = 3_000

/** Prints all results; takes about a minute. */
export async function smoke(): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-'))
  try {
    const cold = await timed(() => startPlatform(dir, { lasting: true }))
    await cold.started.stop()
    const warm = await timed(() =>
      startPlatform(dir, { lasting: true, masterKey: cold.started.running.masterKey }),
    )
    print('start-up', 's', '× cold')
    print('cold: empty data, programs cached', cold.ms / 1_000, '1.00')
    print('warm: the same data again', warm.ms / 1_000, warm.ms / cold.ms)
    try {
      await requests(warm.started.running)
      await flows(warm.started.running)
    } finally {
      await warm.started.stop()
    }
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

async function timed(start: () => Promise<Started>): Promise<{ started: Started; ms: number }> {
  const startedMs = performance.now()
  return { started: await start(), ms: performance.now() - startedMs }
}

async function requests(running: Running): Promise<void> {
  const { apikey } = await createTestWorkspace(running)
  const send = sender(running.url, { apikey }, LANES)
  const made = JSON.parse(await send('POST', '/v1/collections/bench/documents', '{"n":1}')) as { id: string }
  const pool = new Pool({ connectionString: running.databaseUrl, max: LANES })
  const one = `/v1/collections/bench/documents/${made.id}`
  const query = { name: 'get', text: 'select data from tenon.documents where id = $1', values: [made.id] }
  const works = {
    'plain SQL, no RLS, no HTTP': () => pool.query(query),
    'GET /healthz': () => send('GET', '/healthz'),
    'GET document': () => send('GET', one),
    'POST document': () => send('POST', '/v1/collections/bench/documents', '{"n":1}'),
    'PUT document': () => send('PUT', one, '{"n":2}'),
    'GET list of 50': () => send('GET', '/v1/collections/bench/documents'),
  }
  const figures = await interleaved(ROUNDS, works)
  print('\nrequest, one at a time', 'p50 ms', 'p99 ms', '× healthz')
  const base = figures['GET /healthz'].p50Ms
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures)) print(name, p50Ms, p99Ms, p50Ms / base)
  print(`\nrequest, ${LANES} at once`, 'per s', '× healthz')
  const health = await throughput(LANES, LANE_MS, works['GET /healthz'])
  print('GET /healthz', health, '1.00')
  for (const name of ['GET document', 'POST document'] as const) {
    const rate = await throughput(LANES, LANE_MS, works[name])
    print(name, rate, rate / health)
  }
  await pool.end()
}

const flowOf = (name: string, tasks: readonly string[]) =>
  [`document: { dsl: '1.0.3', namespace: bench, name: ${name}, version: '1.0.0' }`, 'do:', ...tasks].join(
    '\n',
  )

const SET = (n: number) => `- set${n}: { set: { n: ${n} } }`
const CREATE = (n: number) =>
  `- make${n}: { call: collection.create, with: { name: bench, document: { n: ${n} } } }`

async function flows(running: Running): Promise<void> {
  const { admin, workspaceId } = await createTestWorkspace(running)
  const base = `/v1/flows/workspaces/${workspaceId}`
  const publish = async (name: string, tasks: string[]) => {
    const { id } = await admin.post<{ id: string }>(`${base}/definitions`, flowOf(name, tasks))
    await admin.post(`${base}/definitions/${id}/versions`, {})
    return () => admin.post(`${base}/definitions/${id}/executions`, { input: {} }, 30)
  }
  const numbers = (count: number) => Array.from({ length: count }, (_, n) => n)
  const works = {
    'one set': await publish('one', [SET(0)]),
    'ten sets': await publish('ten', numbers(10).map(SET)),
    'one collection.create': await publish('create', [CREATE(0)]),
    'three collection.create': await publish('three', numbers(3).map(CREATE)),
  }
  const figures = await interleaved(FLOW_ROUNDS, works)
  print('\nflow, from POST to its output', 'p50 ms', 'p99 ms', '× one set')
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures)) {
    print(name, p50Ms, p99Ms, p50Ms / figures['one set'].p50Ms)
  }
  const rate = await throughput(LANES, LANE_MS * 2, works['three collection.create'])
  print(`three creates, ${LANES} at once`, `${rate.toFixed(1)} per s`)
}
