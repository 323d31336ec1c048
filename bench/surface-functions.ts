/**
 * Measures a function invocation, against a bare workflow with one activity and a bare Deno process, in the
 * same run.
 */

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { ApiClient } from '../src/cli/client.ts'
import type { Running } from '../test/support/stack/start.ts'
import { bareWorkflows } from './bare-worker.ts'
import { createTestWorkspace } from './fixture.ts'
import { interleaved, print, throughput } from './measure.ts'

const ROUNDS = 100
const LANES = 8
const LANE_MS = 5_000
const SOURCE = 'export default ({ a, b }: { a: number; b: number }) => ({ sum: a + b })'
const INPUT = { a: 1, b: 2 }

export async function functions(running: Running): Promise<void> {
  const bare = await bareWorkflows(running)
  try {
    const works = {
      'bare workflow, one activity': () => bare.run('bareCall', INPUT),
      'bare Deno process': () => bareDeno(running.env['TENON_DENO_BIN'] ?? ''),
      'function.invoke': await invoker(running),
    }
    const base = 'bare workflow, one activity'
    const figures = await interleaved(ROUNDS, works)
    print('one at a time', 'p50 ms', 'p99 ms', '× bare workflow')
    for (const [name, { p50Ms, p99Ms }] of Object.entries(figures)) {
      print(name, p50Ms, p99Ms, p50Ms / figures[base].p50Ms)
    }
    print(`\n${LANES} at once`, 'per s', '× bare workflow')
    let first: number | undefined
    for (const [name, work] of Object.entries(works)) {
      const rate = await throughput(LANES, LANE_MS, work)
      first ??= rate
      print(name, rate, rate / first)
    }
  } finally {
    await bare.stop()
  }
}

const run = promisify(execFile)

/** A process that starts, computes and prints: the cost of an isolated call without a platform. */
async function bareDeno(deno: string): Promise<unknown> {
  const code = `${SOURCE.replace('export default ', 'const f = ')}\nconsole.log(JSON.stringify(f(${JSON.stringify(INPUT)})))`
  const { stdout } = await run(deno, [
    'run',
    '--no-prompt',
    `data:application/typescript;base64,${Buffer.from(code).toString('base64')}`,
  ])
  return JSON.parse(stdout)
}

async function invoker(running: Running): Promise<() => Promise<unknown>> {
  const { admin, url, workspaceId: workspace_id, apikey } = await createTestWorkspace(running)
  await admin.post('/v1/functions', { workspace_id, name: 'add', source: SOURCE })
  const client = new ApiClient(url, { apikey })
  return () => client.post('/v1/functions/add/invoke', INPUT)
}
