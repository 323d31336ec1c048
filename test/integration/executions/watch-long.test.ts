// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/**
 * Watching a long execution: how many events are kept, and that it costs no more than a short one in PostgreSQL and
 * Temporal.
 */

import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import { FLOW_LIMITS } from '../../../src/features/flows/limits.ts'
import { RUN_LIMITS } from '../../../src/features/runs/limits.ts'
import { closeSubscriptions, findEnd, messages, subscribeToStream } from '../../support/clients/sse.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { startTcpProxy, type TcpProxy } from '../../support/servers/tcp-proxy.ts'
import { type CountedApi, startCountedApi } from '../../support/stack/counted-api.ts'
import type { Running } from '../../support/stack/start.ts'

const FEW = 10
const MANY = 6_100
const POLLS = 3

let node: CountedApi
let at: Running
let toTemporal: TcpProxy
let workspace: TestWorkspace
let executions: Executions
let flow: string
let short: string
let long: string
beforeAll(async () => {
  await openCountedNode()
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  const all = 'for: { in: "${ [range($workflow.input.n)] }" }, do: [{ e: { set: { x: 1 } } }]'
  const frames = 'listen: { to: { one: { with: { type: go } } } }'
  flow = await executions.publish(`  - all: { ${all} }\n  - heard: { ${frames} }`)
  short = await executions.start(flow, { input: { n: FEW } })
  long = await executions.start(flow, { input: { n: MANY } })
  const waits = async () => ((await executions.read(long)).status === 'waiting' ? true : undefined)
  await Promise.all([executions.shown(short, 'waiting'), eventually(waits, 150_000)])
})
afterEach(closeSubscriptions)
afterAll(async () => {
  await node?.close()
  toTemporal?.close()
})

/** Starts an API node whose connections to PostgreSQL and Temporal are counted. */
async function openCountedNode(): Promise<void> {
  const temporal = new URL(`tcp://${inject('tenon').env['TEMPORAL_ADDRESS']}`)
  toTemporal = await startTcpProxy(temporal)
  const TEMPORAL_ADDRESS = `127.0.0.1:${toTemporal.port}`
  node = await startCountedApi({ TEMPORAL_ADDRESS, TENON_EAGER_START_SOCKET: undefined })
  at = { ...inject('tenon'), url: await node.app.listen({ port: 0, host: '127.0.0.1' }) }
}

const watch = (id: string, after: number) =>
  subscribeToStream(
    workspace.operator,
    `${workspace.flows}/executions/${id}/events`,
    { 'last-event-id': String(after) },
    at,
  )

/** The number of the execution's newest event. */
async function newest(id: string): Promise<number> {
  const text = 'select events from tenon.executions where id = $1'
  const [row] = await asSuperuser<{ events: number }>(text, [id])
  return row?.events ?? 0
}

/**
 * Round trips to PostgreSQL of `work`: the fewest of three, as caches that expire within seconds are read anew in
 * between.
 */
async function tripsOf(work: () => Promise<unknown>): Promise<number> {
  const counts: number[] = []
  for (let attempt = 0; attempt < 3; attempt++) {
    // Writes background counters now, so that they cause no round trip for a while.
    await node.platform.meters.flush()
    const before = node.seen.trips
    await work()
    counts.push(node.seen.trips - before)
    closeSubscriptions()
  }
  return Math.min(...counts)
}

test('watch resumed at the newest event of a waiting execution: one query, then one per poll interval', async () => {
  expect(await newest(long)).toBeGreaterThan(400 * (await newest(short)))
  for (const id of [short, long]) {
    const after = await newest(id)
    const before = node.seen.trips
    const startedMs = performance.now()
    const frames = await watch(id, after)
    await eventually(async () => (node.seen.trips > before + POLLS ? true : undefined))
    const polls = (performance.now() - startedMs) / RUN_LIMITS.watchPollMs.min
    expect(frames.map(({ event }) => event)).toEqual(['ready'])
    // One query to begin with, one that was due anyway, and perhaps one for a cache that expired.
    expect(node.seen.trips - before).toBeLessThanOrEqual(polls + 3)
    closeSubscriptions()
  }
  expect(toTemporal.connections).toBe(0)
})

test('watch resumed at the newest event of an ended execution: one query', async () => {
  const costs: number[] = []
  for (const id of [short, long]) {
    await executions.send(id, 'signal', { event: { type: 'go' } })
    expect(await executions.ended(id)).toMatchObject({ status: 'completed' })
    const after = await newest(id)
    const toEnd = async () => {
      const frames = await watch(id, after)
      await eventually(async () => findEnd(frames))
      expect(messages(frames)).toEqual([])
    }
    costs.push(await tripsOf(toEnd))
  }
  expect([costs, toTemporal.connections]).toEqual([[1, 1], 0])
  // Verifies the counter: a start does connect to Temporal.
  const path = `${workspace.flows}/definitions/${flow}/executions`
  expect((await call('POST', path, { as: workspace.operator, at, body: { input: { n: 1 } } })).status).toBe(
    201,
  )
  expect(toTemporal.connections).toBeGreaterThan(0)
})

test('execution with more events than the limit: keeps the newest, reports a gap for the rest', async () => {
  const [kept] = await asSuperuser<{ n: number }>(
    'select count(*)::int as n from tenon.execution_events where execution_id = $1',
    [long],
  )
  expect(kept?.n).toBe(FLOW_LIMITS.eventsKeptMax)
  const frames = await watch(long, 0)
  await eventually(async () => findEnd(frames))
  expect(frames[1]).toMatchObject({ event: 'gap', data: { after: 0 } })
  expect(messages(frames).at(-1)?.data.data.status).toBe('completed')
})
