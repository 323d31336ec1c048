/**
 * Measures the sandbox of functions by itself, without Temporal and the API: a process that is started for each call, against
 * a warm process of the version (docs/decisions/0036-function-processes.md).
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { FUNCTION_LIMITS } from '../src/features/functions/limits.ts'
import { findIsolation } from '../src/features/functions/sandbox/isolation.ts'
import { FunctionProcess } from '../src/features/functions/sandbox/process.ts'
import { Functions } from '../src/features/functions/sandbox/process-pool.ts'
import { runInvocation } from '../src/features/functions/sandbox/run-invocation.ts'
import { splitSourceMap } from '../src/features/functions/source-map.ts'
import { testInvocation } from '../test/support/fixtures/invocations.ts'
import { startPlatform } from '../test/support/stack/start.ts'
import { interleaved, print, throughput } from './measure.ts'

const ROUNDS = 100
/** As many as a worker runs of one tenant at once. */
const LANES = Math.ceil(
  availableParallelism() * FUNCTION_LIMITS.slotsPerCore * FUNCTION_LIMITS.sandbox.tenantShare,
)
const LANE_MS = 5_000
const LATER = 'export default () => new Promise((done) => setTimeout(() => done(3), 10))'

type Run = (source: string) => Promise<unknown>

/** Prints all results; takes about half a minute. */
export async function functionProcesses(): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-'))
  // For its Deno alone.
  const { running, stop } = await startPlatform(dir, { lasting: true })
  const deno = running.env['TENON_DENO_BIN'] ?? ''
  const functions = new Functions(deno)
  try {
    const coldRun = await processPerCall(deno)
    const warmRun: Run = (source) => functions.run(testInvocation(source, { key: `ten:ws:${source}:1` }))
    await measure({ 'process per call': coldRun, 'warm process': warmRun })
  } finally {
    await functions.close()
    await stop()
    await rm(dir, { recursive: true, force: true })
  }
}

async function processPerCall(deno: string): Promise<Run> {
  const isolation = await findIsolation(deno)
  return async (source) => {
    const { base64, map } = splitSourceMap(source)
    const process = new FunctionProcess(deno, 128, isolation)
    try {
      await process.ready
      void process.send('code', 0, map, base64)
      const { ending } = await runInvocation(process, testInvocation(source, { timeoutMs: 60_000 }))
      if (ending.kind !== 'result') throw new Error(`It has ended by ${ending.kind}.`)
    } finally {
      process.kill()
      await process.gone
    }
  }
}

async function measure(runs: Readonly<Record<string, Run>>): Promise<void> {
  const adds = 'export default () => 1 + 2'
  const figures = await interleaved(
    ROUNDS,
    Object.fromEntries(Object.entries(runs).map(([name, run]) => [name, () => run(adds)])),
  )
  print('one at a time', 'p50 ms', 'p99 ms')
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures)) print(name, p50Ms, p99Ms)
  print(`\n${LANES} at once that sleep 10 ms`, 'per s')
  for (const [name, run] of Object.entries(runs))
    print(name, await throughput(LANES, LANE_MS, () => run(LATER)))
}
