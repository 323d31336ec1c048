/** Measures change events: their cost for writers, the latency to subscribers, and the throughput. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Pool } from 'pg'
import { type Started, startPlatform } from '../test/support/stack/start.ts'
import { createTestWorkspace, type TestWorkspace } from './fixture.ts'
import { sender } from './http.ts'
import { interleaved, print, sized, throughput } from './measure.ts'
import { listen } from './subscribers.ts'

const LANES = 16
const LANE_MS = 3_000
const TURNS = 4
const ROUNDS = 200
const BACKLOG = sized(50_000, 500)
const DOCUMENT = JSON.stringify({ title: 'buy milk', done: false, prio: 2, tags: ['home', 'shop'] })

/** Prints all results; takes about a minute. */
export async function changes(): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-'))
  const started = await startPlatform(dir, { lasting: true })
  const outbox = new Pool({ connectionString: started.running.databaseUrl, max: 1 })
  try {
    const workspace = await createTestWorkspace(started.running)
    await latency(workspace)
    await writers(started, workspace, outbox)
    await backlog(workspace, outbox)
  } finally {
    await outbox.end()
    await started.stop()
    await rm(dir, { recursive: true, force: true })
  }
}

async function latency({ url, apikey }: TestWorkspace): Promise<void> {
  const send = sender(url, { apikey }, 1)
  const [events, changed] = await Promise.all(
    ['bench', 'collections.bench.*'].map((topic) => listen(url, apikey, topic, 1)),
  )
  if (events === undefined || changed === undefined) throw new Error('no subscribers')
  const body = JSON.stringify({ topic: 'bench', data: JSON.parse(DOCUMENT) })
  const figures = await interleaved(ROUNDS, {
    'POST publish → event': async () => {
      const heard = events.next()
      await send('POST', '/v1/events/publish', body)
      await heard
    },
    'POST document': () => send('POST', '/v1/collections/other/documents', DOCUMENT),
    'POST document → change': async () => {
      const heard = changed.next()
      await send('POST', '/v1/collections/bench/documents', DOCUMENT)
      await heard
    },
  })
  for (const subscribers of [events, changed]) subscribers.stop()
  print('one at a time', 'p50 ms', 'p99 ms', '× publish')
  const base = figures['POST publish → event'].p50Ms
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures)) print(name, p50Ms, p99Ms, p50Ms / base)
}

/** Alternates between the running worker and a frozen one, which relays nothing. */
async function writers({ stack }: Started, { url, apikey }: TestWorkspace, outbox: Pool): Promise<void> {
  const send = sender(url, { apikey }, LANES)
  const write = () => send('POST', '/v1/collections/load/documents', DOCUMENT)
  const worker = stack.supervisor.pid('worker')
  if (worker === undefined) throw new Error('the worker does not run')
  const rates = { with: [] as number[], without: [] as number[] }
  for (let turn = 0; turn < TURNS; turn++) {
    rates.with.push(await throughput(LANES, LANE_MS, write))
    await empty(outbox)
    process.kill(worker, 'SIGSTOP')
    rates.without.push(await throughput(LANES, LANE_MS, write))
    process.kill(worker, 'SIGCONT')
    await empty(outbox)
  }
  const mean = (of: readonly number[]) => of.reduce((sum, each) => sum + each, 0) / of.length
  print(`\ndocuments written, ${LANES} lanes`, 'per s', '× without')
  print('worker frozen: nothing passed on', mean(rates.without), '1.00')
  print('relay at work', mean(rates.with), mean(rates.with) / mean(rates.without))
}

async function backlog({ tenantId, workspaceId }: TestWorkspace, outbox: Pool): Promise<void> {
  await outbox.query(
    `insert into tenon.outbox (tenant_id, workspace_id, collection, verb, document_id, version, document)
     select $1, $2, 'bench', 'created', uuidv7(), 1, $3::jsonb from generate_series(1, ${BACKLOG})`,
    [tenantId, workspaceId, DOCUMENT],
  )
  const startedMs = performance.now()
  await empty(outbox)
  const seconds = (performance.now() - startedMs) / 1_000
  print(`\na backlog of ${BACKLOG}`, 'per s')
  print('passed on', (BACKLOG / seconds).toFixed(0))
}

/** Waits until the outbox is empty. */
async function empty(outbox: Pool): Promise<void> {
  for (;;) {
    const { rows } = await outbox.query('select exists (select from tenon.outbox) as waits')
    if (rows[0]?.waits !== true) return
    await new Promise((done) => setTimeout(done, 20))
  }
}
