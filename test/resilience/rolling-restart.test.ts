/** Two API processes behind a balancer are restarted one after the other under load: no request fails, and no event is lost. */

import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { EventSourceParserStream } from 'eventsource-parser/stream'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openImport } from '../support/clients/ndjson.ts'
import { call, createTestWorkspace, eventually, type TestWorkspace } from '../support/fixtures/tenants.ts'
import { type Balancer, startBalancer } from '../support/servers/balancer.ts'
import { type ApiProcess, startApi } from '../support/stack/api-process.ts'
import type { Running } from '../support/stack/start.ts'

/** Probes each 200 ms with two failures take less. */
const SETTINGS = { TENON_DRAIN_DELAY: '2', TENON_DRAIN_LIMIT: '60' }
const LANES = 4
const PAUSE_MS = 5

let workspace: TestWorkspace
let balancer: Balancer
let at: Running
const processes: ApiProcess[] = []

beforeAll(async () => {
  processes.push(...(await Promise.all([startApi(SETTINGS), startApi(SETTINGS)])))
  workspace = await createTestWorkspace()
  balancer = await startBalancer(processes.map(({ at: { url } }) => url))
  at = { ...(processes[0] as ApiProcess).at, url: balancer.url }
  await eventually(async () => (balancer.ready().length === 2 ? true : undefined))
})
afterAll(async () => {
  await balancer?.close()
  await Promise.all(processes.map(({ stop }) => stop()))
})

interface Ledger {
  readonly acknowledged: Set<number>
  readonly published: Set<number>
  readonly heard: number[]
  readonly errors: string[]
  reconnections: number
}

/** Writes a document and publishes an event with each number until the signal aborts. */
async function load(lane: number, ledger: Ledger, signal: AbortSignal): Promise<void> {
  const send = async (path: string, body: object, done: Set<number>, n: number) => {
    const reply = await call('POST', path, { as: workspace.service, at, body }).catch((error: Error) => error)
    if ('status' in reply && reply.status < 300) done.add(n)
    else ledger.errors.push(`${path}: ${'status' in reply ? JSON.stringify(reply.body) : reply.message}`)
  }
  for (let n = lane; !signal.aborted; n += LANES) {
    await send('/v1/collections/ledger/documents', { n }, ledger.acknowledged, n)
    await send('/v1/events/publish', { topic: 'ledger', data: n }, ledger.published, n)
    await pause(PAUSE_MS)
  }
}

/** Hears events as an `EventSource` does: connects again after `retry`, after the last id. */
async function hear(ledger: Ledger, onReady: () => void, signal: AbortSignal): Promise<void> {
  let [last, retryMs] = ['', 3_000]
  const onRetry = (ms: number) => {
    retryMs = ms
  }
  while (!signal.aborted) {
    const headers = { ...workspace.service, accept: 'text/event-stream', 'last-event-id': last }
    const response = await fetch(`${at.url}/v1/events/subscribe?topic=ledger`, { headers, signal })
    const texts = response.body?.pipeThrough(new TextDecoderStream())
    for await (const { id, event, data } of texts?.pipeThrough(new EventSourceParserStream({ onRetry })) ??
      []) {
      last = id ?? last
      if (event === 'ready') onReady()
      if (event === undefined) ledger.heard.push(JSON.parse(data).data)
      if (event === 'gap') ledger.errors.push(`gap: ${data}`)
      if (event === 'end') expect(JSON.parse(data).code).toBe('draining')
    }
    ledger.reconnections += 1
    await pause(retryMs, undefined, { signal })
  }
}

/** Ends a process as an orchestrator does, and starts another at its address. */
async function restart(index: number): Promise<void> {
  const before = processes[index] as ApiProcess
  const { url } = before.at
  const exited = once(before.process, 'exit')
  before.process.kill('SIGTERM')
  expect(await exited).toEqual([0, null])
  processes[index] = await startApi({ ...SETTINGS, TENON_PORT: new URL(url).port })
  await eventually(async () => (balancer.ready().includes(url) ? true : undefined))
}

function missing(expected: ReadonlySet<number>, found: readonly number[]): number[] {
  const known = new Set(found)
  return [...expected].filter((n) => !known.has(n))
}

test('rolling restart under load: each acknowledged document is stored once, each event is heard, and no request fails', async () => {
  const ledger: Ledger = {
    acknowledged: new Set(),
    published: new Set(),
    heard: [],
    errors: [],
    reconnections: 0,
  }
  const [writing, listening] = [new AbortController(), new AbortController()]
  const ready = Promise.withResolvers<void>()
  const hearing = hear(ledger, ready.resolve, listening.signal).catch(() => {})
  await ready.promise
  const lanes = Array.from({ length: LANES }, (_, lane) => load(lane, ledger, writing.signal))
  // Requests that run while their process is told to end.
  const slow = [0, 1].map((n) =>
    openImport('slow', { as: workspace.service, at: { ...at, url: processes[n]?.at.url ?? '' } }),
  )
  for (const { sent } of slow) sent.write('{"n":1}\n')
  await eventually(async () => (ledger.acknowledged.size > 50 ? true : undefined))
  const first = restart(0)
  await eventually(async () => (balancer.ready().length === 1 ? true : undefined))
  slow[0]?.sent.end('{"n":2}\n')
  await first
  const second = restart(1)
  await eventually(async () => (balancer.ready().length === 1 ? true : undefined))
  slow[1]?.sent.end('{"n":2}\n')
  await second
  writing.abort()
  await Promise.all(lanes)
  await eventually(async () =>
    missing(ledger.published, ledger.heard).length === 0 ? true : undefined,
  ).catch(() => {})
  listening.abort()
  await hearing
  const stored = await storedNumbers()
  console.log(
    `Ledger: ${ledger.acknowledged.size} documents acknowledged, ${stored.length} stored; ${ledger.published.size} events published, ${ledger.heard.length} heard over ${ledger.reconnections + 1} streams; ${ledger.errors.length} errors`,
  )
  expect({
    errors: [...ledger.errors, ...balancer.errors],
    lost: missing(ledger.acknowledged, stored),
    doubled: stored.length - new Set(stored).size,
    lostEvents: missing(ledger.published, ledger.heard),
    doubledEvents: ledger.heard.length - new Set(ledger.heard).size,
    slow: await Promise.all(slow.map(async ({ reply }) => (await reply).status)),
  }).toEqual({ errors: [], lost: [], doubled: 0, lostEvents: [], doubledEvents: 0, slow: [200, 200] })
  expect([ledger.acknowledged.size > 100, ledger.reconnections > 0]).toEqual([true, true])
})

async function storedNumbers(): Promise<number[]> {
  const found: number[] = []
  for (let after: string | null = ''; after !== null; ) {
    const page: string = after && `&page[after]=${after}`
    const path = `/v1/collections/ledger/documents?page[size]=200${page}`
    const { body } = await call('GET', path, { as: workspace.service, at })
    found.push(...body.data.map(({ n }: { n: number }) => n))
    after = body.page.next
  }
  return found
}
