/**
 * Measures a quiet tenant beside a loud one, with the default limits: its calls while nothing else runs, then under each of
 * five floods, alternating in one run. Takes about two and a half minutes.
 */

import { setTimeout as pause } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { currentBuild } from '../../src/cli/stack/build.ts'
import { Ports } from '../../stack/ports.ts'
import type { Started } from '../../test/support/stack/start.ts'
import { createTestWorkspace, type TestWorkspace } from '../fixture.ts'
import { sender } from '../http.ts'
import { type Figures, figuresOf, print, sized } from '../measure.ts'
import type { Flood, FloodCounts, FloodName } from './neighbour-flood.ts'

const IDLE_MS = sized(6_000, 300)
const FLOOD_MS = sized(13_000, 300)
const SETTLE_MS = sized(2_000, 0)
/** One call of each kind in this time: below the rate limit of its key. */
const PERIOD_MS = 60
const DOCUMENTS = 50
const FLOODED_DOCUMENTS = 900

/** The flood of starts is the last, since what it has queued goes on after it. */
const FLOODS: Readonly<Record<FloodName, string>> = {
  inserts: '24 lanes of inserts',
  burn: '16 lanes of a function that burns 400 ms',
  streams: '180 streams and 4 publishers',
  queries: '16 lanes of queries without an index',
  starts: '16 lanes of flow starts',
}

const ADD = 'export default ({ a, b }: { a: number; b: number }) => ({ sum: a + b })'
const BURN = 'export default () => { const end = Date.now() + 400; while (Date.now() < end); return 1 }'
const FLOW = `document: { dsl: '1.0.3', namespace: bench, name: loud, version: '1.0.0' }
do:
  - one: { set: { a: 1 } }
  - two: { call: function.invoke, with: { id: loud, input: { a: 1, b: 2 } } }
`

const KINDS = ['list', 'insert', 'function'] as const
type Kind = (typeof KINDS)[number]

/** The calls of one phase, in milliseconds, and what failed. */
interface Phase {
  readonly times: Record<Kind, number[]>
  readonly failures: string[]
}

export async function neighbour(started: Started): Promise<void> {
  const url = await startDefaultApi(started)
  const victim = await createVictim(started, url)
  const idle = emptyPhase()
  const rows: [string, Phase, FloodCounts][] = []
  await victim(sized(3_000, 0), emptyPhase())
  for (const name of Object.keys(FLOODS) as FloodName[]) {
    const flood = await createFlood(started, url, name)
    await victim(IDLE_MS, idle)
    const phase = emptyPhase()
    const thread = new Worker(new URL('./neighbour-flood.ts', import.meta.url), { workerData: flood })
    await messageOf(thread, 'flooding')
    await victim(FLOOD_MS, phase)
    thread.postMessage('stop')
    rows.push([FLOODS[name], phase, (await messageOf(thread, 'counts')) as FloodCounts])
    await thread.terminate()
    await pause(SETTLE_MS)
  }
  printAll(idle, rows)
}

const emptyPhase = (): Phase => ({ times: { list: [], insert: [], function: [] }, failures: [] })

/** Resolves with the message of this kind; rejects if the thread fails. */
async function messageOf(thread: Worker, kind: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    thread.once('error', reject)
    thread.on('message', (message: { kind: string; value?: unknown }) => {
      if (message.kind === kind) resolve(message.value)
    })
  })
}

/** An API with the default limits, beside the one of benchmarks, which has none. */
async function startDefaultApi({ stack, running }: Started): Promise<string> {
  const port = await new Ports({ remembered: {}, any: true }).take('api neighbour', 0)
  const url = `http://127.0.0.1:${port}`
  const env = Object.fromEntries(
    Object.entries(running.env).filter(([name]) => !/^TENON_(RATE|STREAMS)_/.test(name)),
  )
  await stack.supervisor.run({
    name: 'api neighbour',
    command: process.execPath,
    args: [(await currentBuild()).api],
    cwd: process.cwd(),
    env: { ...env, TENON_PUBLIC_URL: running.url, TENON_PORT: String(port) },
    logFile: `${running.logs}/api-neighbour.log`,
    ready: async () => {
      if (!(await fetch(`${url}/readyz`)).ok) throw new Error(`${url} is not ready`)
    },
  })
  return url
}

async function keyOf({ admin, workspaceId: workspace_id }: TestWorkspace, name: string): Promise<string> {
  const { key } = await admin.post<{ key: string }>('/v1/api-keys', { workspace_id, kind: 'service', name })
  return key
}

/** @returns makes calls of each kind for some time, with a key for each */
async function createVictim(
  started: Started,
  url: string,
): Promise<(ms: number, phase: Phase) => Promise<void>> {
  const workspace = await createTestWorkspace(started.running)
  await workspace.admin.post('/v1/functions', {
    workspace_id: workspace.workspaceId,
    name: 'add',
    source: ADD,
  })
  await insertMany(workspace, DOCUMENTS)
  const requests: Readonly<Record<Kind, readonly [string, string, string?]>> = {
    list: ['GET', '/v1/collections/notes/documents?page%5Bsize%5D=20'],
    insert: ['POST', '/v1/collections/written/documents', '{"n":1}'],
    function: ['POST', '/v1/functions/add/invoke', '{"a":1,"b":2}'],
  }
  const sends = await Promise.all(
    KINDS.map(async (kind) => sender(url, { apikey: await keyOf(workspace, kind) }, 1)),
  )
  const lane = async (at: number, untilMs: number, { times, failures }: Phase) => {
    const kind = KINDS[at] as Kind
    while (performance.now() < untilMs) {
      const begunMs = performance.now()
      try {
        await sends[at]?.(...(requests[kind] as [string, string, string?]))
        times[kind].push(performance.now() - begunMs)
      } catch (error) {
        failures.push(`${kind}: ${(error as Error).message.slice(0, 300)}`)
      }
      await pause(Math.max(0, begunMs + PERIOD_MS - performance.now()))
    }
  }
  return async (ms, phase) => {
    const untilMs = performance.now() + ms
    await Promise.all(KINDS.map((_, at) => lane(at, untilMs, phase)))
  }
}

async function insertMany({ url, apikey }: TestWorkspace, count: number): Promise<void> {
  const send = sender(url, { apikey }, 8)
  const one = (n: number) =>
    send(
      'POST',
      '/v1/collections/notes/documents',
      JSON.stringify({ n, name: `note ${n}`, text: 'lorem ipsum '.repeat(20), tags: ['a', `t${n % 7}`] }),
    )
  await Promise.all(Array.from({ length: count }, (_, n) => one(n)))
}

/** A tenant of its own for each flood, whose budget is full. */
async function createFlood(started: Started, url: string, name: FloodName): Promise<Flood> {
  const workspace = await createTestWorkspace(started.running)
  const { admin, workspaceId: workspace_id, apikey } = workspace
  if (name === 'queries') await insertMany(workspace, FLOODED_DOCUMENTS)
  if (name === 'burn' || name === 'starts')
    await admin.post('/v1/functions', { workspace_id, name: 'loud', source: name === 'burn' ? BURN : ADD })
  if (name === 'starts') {
    const flows = `/v1/flows/workspaces/${workspace_id}/definitions`
    await admin.post(flows, { source: FLOW })
    await admin.post(`${flows}/loud/versions`, {})
  }
  return { name, url, apikey }
}

function printAll(idle: Phase, rows: readonly [string, Phase, FloodCounts][]): void {
  const base = Object.fromEntries(KINDS.map((kind) => [kind, figuresOf(idle.times[kind])])) as Record<
    Kind,
    Figures
  >
  print('p50 / p99', ...KINDS, 'victim failed', 'flood ok/refused')
  const cells = KINDS.map((kind) => `${base[kind].p50Ms.toFixed(0)} / ${base[kind].p99Ms.toFixed(0)} ms`)
  print('idle', ...cells, String(idle.failures.length), '')
  for (const [name, { times, failures }, counts] of rows) {
    const multiples = KINDS.map((kind) => {
      const { p50Ms, p99Ms } = figuresOf(times[kind])
      return `${(p50Ms / base[kind].p50Ms).toFixed(1)} / ${(p99Ms / base[kind].p99Ms).toFixed(1)}`
    })
    const refused = Object.entries(counts.refused).map(([status, n]) => `${n}×${status}`)
    print(name, ...multiples, String(failures.length), `${counts.done} ${refused.join(' ')}`)
    for (const text of new Set(failures)) print(`  ${text}`)
  }
}
