/** Invoking a function, against a bare workflow with one activity and a bare Deno process, in the same run. */

import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Client, Connection } from '@temporalio/client'
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker'
import { ApiClient, fetchToken } from '../src/cli/client.ts'
import { type Running, startPlatform } from '../test/support/start.ts'
import type { BareActivities } from './functions-workflow.ts'
import { interleaved, print, throughput } from './measure.ts'

const ROUNDS = 100
const LANES = 8
const LANE_MS = 5_000
const QUEUE = 'bench-bare'
const SOURCE = 'export default ({ a, b }: { a: number; b: number }) => ({ sum: a + b })'
const INPUT = { a: 1, b: 2 }

/** Prints everything; takes about a minute. */
export async function surfaceFunctions(): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-'))
  const { running, stop } = await startPlatform(dir)
  try {
    await measure(running)
  } finally {
    await stop()
    await rm(dir, { recursive: true, force: true })
  }
}

async function measure(running: Running): Promise<void> {
  const bare = await bareWorkflow(running.env['TEMPORAL_ADDRESS'] ?? '')
  try {
    const works = {
      'bare workflow, one activity': bare.run,
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
    await bare.close()
  }
}

async function bareWorkflow(address: string): Promise<{ run(): Promise<unknown>; close(): Promise<void> }> {
  Runtime.install({ logger: new DefaultLogger('ERROR') })
  const activities: BareActivities = { answer: async () => ({ sum: 3 }) }
  const worker = await Worker.create({
    connection: await NativeConnection.connect({ address }),
    workflowsPath: fileURLToPath(new URL('functions-workflow.ts', import.meta.url)),
    taskQueue: QUEUE,
    activities,
  })
  const served = worker.run()
  const connection = await Connection.connect({ address })
  const client = new Client({ connection })
  let n = 0
  return {
    run: () =>
      client.workflow.execute('bare', { workflowId: `bare-${n++}`, taskQueue: QUEUE, args: [INPUT] }),
    close: async () => {
      worker.shutdown()
      await served
      await connection.close()
    },
  }
}

const run = promisify(execFile)

/** A process that starts, computes and prints: what an isolated call costs without any platform. */
async function bareDeno(deno: string): Promise<unknown> {
  const code = `${SOURCE.replace('export default ', 'const f = ')}\nconsole.log(JSON.stringify(f(${JSON.stringify(INPUT)})))`
  const { stdout } = await run(deno, [
    'run',
    '--no-prompt',
    `data:application/typescript;base64,${Buffer.from(code).toString('base64')}`,
  ])
  return JSON.parse(stdout)
}

async function invoker({ url, clientId, clientSecret }: Running): Promise<() => Promise<unknown>> {
  const admin = new ApiClient(url, {
    authorization: `Bearer ${await fetchToken(url, clientId, clientSecret)}`,
  })
  const tenant = await admin.post<{ id: string }>('/v1/tenants', { name: 'Bench', slug: 'bench' }, 30)
  const room = { tenant_id: tenant.id, name: 'Bench', slug: 'bench' }
  const { id: workspace_id } = await admin.post<{ id: string }>('/v1/workspaces', room, 30)
  const asked = { workspace_id, kind: 'service', name: 'bench' }
  const { key } = await admin.post<{ key: string }>('/v1/api-keys', asked)
  await admin.post('/v1/functions', { workspace_id, name: 'add', source: SOURCE })
  const client = new ApiClient(url, { apikey: key })
  return () => client.post('/v1/functions/add/invoke', INPUT)
}
