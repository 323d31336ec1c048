/**
 * Measures invocations of functions in one run against a bare workflow with one local activity: a warm invocation, the
 * first one of a new version, and 50 at once of a function that takes 10 ms.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { ApiClient } from '../src/cli/client.ts'
import { type Running, startPlatform } from '../test/support/stack/start.ts'
import { type Bare, bareWorkflows } from './bare-worker.ts'
import { createTestWorkspace } from './fixture.ts'
import { contest, interleaved, print, sized } from './measure.ts'

const ROUNDS = 200
const FIRST_CALLS = 30
/** The workflow of a run ends after the reply. */
const PAUSE_MS = 30
const LANES = 50
const LANE_MS = 4_000
const SOURCE = 'export default ({ a, b }: { a: number; b: number }) => ({ sum: a + b })'
const LATER = 'export default () => new Promise((done) => setTimeout(() => done({ sum: 3 }), 10))'
const INPUT = { a: 1, b: 2 }

/** Prints all results; takes about a minute. */
export async function functions(): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-'))
  const { running, stop } = await startPlatform(dir, { lasting: true })
  try {
    const bare = await bareWorkflows(running)
    try {
      await measure(running, bare)
    } finally {
      await bare.stop()
    }
  } finally {
    await stop()
    await rm(dir, { recursive: true, force: true })
  }
}

async function measure(running: Running, bare: Bare): Promise<void> {
  const { admin, url, workspaceId: workspace_id, apikey } = await createTestWorkspace(running)
  const deploy = (name: string, source: string) => admin.post('/v1/functions', { workspace_id, name, source })
  const client = new ApiClient(url, { apikey })
  const invoke = (name: string) => client.post(`/v1/functions/${name}/invoke`, INPUT)
  await deploy('add', SOURCE)
  await deploy('later', LATER)
  await oneAtATime(bare, () => invoke('add'))
  await firstCalls(
    (n) => deploy('new', `${SOURCE} // ${n}`),
    () => invoke('new'),
  )
  await manyAtOnce(bare, () => invoke('later'))
}

async function oneAtATime(bare: Bare, invoke: () => Promise<unknown>): Promise<void> {
  const base = 'bare workflow, one local activity'
  const figures = await interleaved(
    ROUNDS,
    {
      [base]: () => bare.run('bareLocalCall', INPUT),
      'bare workflow, one activity': () => bare.run('bareCall', INPUT),
      'function.invoke, warm': invoke,
    },
    PAUSE_MS,
  )
  print('one at a time', 'p50 ms', 'p99 ms', '× bare')
  const bareMs = figures[base]?.p50Ms ?? 0
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures)) print(name, p50Ms, p99Ms, p50Ms / bareMs)
}

/** The first invocation of a version, followed by a second one of the same. */
async function firstCalls(
  deploy: (n: number) => Promise<unknown>,
  invoke: () => Promise<unknown>,
): Promise<void> {
  const times = { first: [] as number[], second: [] as number[] }
  for (let n = 0; n < sized(FIRST_CALLS, 1); n++) {
    await deploy(n)
    for (const which of ['first', 'second'] as const) {
      const startedMs = performance.now()
      await invoke()
      times[which].push(performance.now() - startedMs)
      await delay(PAUSE_MS)
    }
  }
  const [first, second] = [medianOf(times.first), medianOf(times.second)]
  print('\nnew version', 'p50 ms', '+ ms')
  print('second call', second, '')
  print('first call', first, first - second)
}

const medianOf = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[times.length >> 1] ?? 0

async function manyAtOnce(bare: Bare, invoke: () => Promise<unknown>): Promise<void> {
  const base = 'bare workflow, 10 ms in a local activity'
  const rates = await contest(
    { rounds: 3, lanes: LANES, ms: LANE_MS },
    { [base]: () => bare.run('bareLaterCall', INPUT), 'function.invoke, 10 ms': invoke },
  )
  print(`\n${LANES} at once`, 'per s', 'p50 ms', '× bare')
  const barePerS = rates[base]?.perS ?? 0
  for (const [name, { perS, p50Ms }] of Object.entries(rates)) print(name, perS, p50Ms, perS / barePerS)
}
