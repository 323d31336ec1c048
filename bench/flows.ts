/**
 * Measures flows against handwritten TypeScript workflows on the same Temporal, alternating: `npm run bench
 * -- flows`.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Started, startPlatform } from '../test/support/stack/start.ts'
import { usedUs } from './cpu.ts'
import { createTestWorkspace } from './fixture.ts'
import { startBaseline } from './flows/baseline.ts'
import { zigflow } from './flows/zigflow.ts'
import { sender } from './http.ts'
import { interleaved, print, sized, throughput } from './measure.ts'

const LATENCY_ROUNDS = 120
const LANES = sized(50, 8)
const TURNS = 3
const TURN_MS = 6_000
/** Warm-up time of each: code that was just started is still being compiled, ours more than others. */
const WARM_UP_MS = 20_000

const flowOf = (name: string, ...tasks: readonly string[]) =>
  [`document: { dsl: '1.0.3', namespace: bench, name: ${name}, version: '1.0.0' }`, 'do:', ...tasks].join(
    '\n',
  )

const GET = (name: string, more = '') =>
  `- ${name}: { call: http, with: { method: GET, endpoint: '\${ $workflow.input.url }' }${more} }`
const OWN_TASK = ', metadata: { tenon: { local: false } }'

const SOURCES = {
  steps: flowOf(
    'steps',
    "- first: { set: { n: '${ .n + 1 }' } }",
    "- second: { set: { n: '${ .n * 2 }' } }",
    "- third: { set: { n: '${ .n }', even: '${ .n % 2 == 0 }' } }",
    `- fourth: { set: '\${ . + { name: "run \\(.n)" } }' }`,
    "- fifth: { set: '${ . + { done: true } }' }",
  ),
  calls: flowOf('calls', GET('one'), GET('two'), GET('three')),
  tasks: flowOf('tasks', GET('one', OWN_TASK), GET('two', OWN_TASK), GET('three', OWN_TASK)),
  fan: flowOf(
    'fan',
    `- all:\n    for: { each: n, in: '\${ [range(100)] }', concurrency: 100 }\n    do: [ ${GET('one').slice(2)} ]`
      .replace('[ one', '[ { one')
      .replace(/ \]$/, ' } ]'),
  ),
} as const
/** The baseline of `tasks` is that of `calls`, with a task for each call. */
type Work = Exclude<keyof typeof SOURCES, 'tasks'>
const WORKS: readonly Work[] = ['steps', 'calls', 'fan']

/**
 * Prints latency of single requests, throughput of fifty concurrent ones, and CPU time by process group.
 * @param only some of the works
 */
export async function flows(only: readonly string[]): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-'))
  const started = await startPlatform(dir, { checkReplies: false })
  try {
    const named = WORKS.filter((name) => only.length === 0 || only.includes(name))
    await against(started, named)
  } finally {
    await started.stop()
    await rm(dir, { recursive: true, force: true })
  }
}

async function against({ running, stack }: Started, names: readonly Work[]): Promise<void> {
  const [port = 0] = running.echoPorts
  const echo = createServer((_request, reply) => {
    reply.setHeader('content-type', 'application/json').end('{"ok":true}')
  }).listen(port, '127.0.0.1')
  const input = { n: 1, url: `http://127.0.0.1:${port}/` }
  const { admin, workspaceId, authorization } = await createTestWorkspace(running)
  const base = `/v1/flows/workspaces/${workspaceId}/definitions`
  for (const [name, source] of Object.entries(SOURCES)) {
    await admin.post(base, { source })
    await admin.post(`${base}/${name}/versions`, {})
  }
  const address = running.env['TEMPORAL_ADDRESS'] ?? ''
  const baseline = await startBaseline(address)
  const peer = await zigflow(address, input.url)
  if (peer === undefined) print('Zigflow is left out: ZIGFLOW names no program.')
  const send = sender(running.url, { authorization, prefer: 'wait=30' }, LANES)
  const flow = async (name: keyof typeof SOURCES) => {
    const reply = await send('POST', `${base}/${name}/executions`, JSON.stringify({ input }))
    const run = JSON.parse(reply) as { status: string }
    if (run.status !== 'completed') throw new Error(`${name} is ${run.status}`)
  }
  const worksOf = (name: Work): Works => ({
    'by hand': () => baseline.run(name, input),
    flow: () => flow(name),
    ...(name === 'calls' && {
      'by hand, local': () => baseline.run('callsBeside', input),
      'flow, with tasks': () => flow('tasks'),
    }),
    ...(peer && name === 'calls' && { zigflow: () => peer.run() }),
  })
  const processes = [
    [baseline.pid, peer?.pid, stack.supervisor.pid('worker')],
    [stack.supervisor.pid('api')],
    ['temporal', 'postgres', 'valkey'].map((server) => stack.supervisor.pid(server)),
  ]
  try {
    await compare(names, worksOf, processes)
  } finally {
    await Promise.all([baseline.stop(), peer?.stop()])
    echo.close()
  }
}

type Works = Readonly<Record<string, () => Promise<unknown>>>
/** Groups of processes whose CPU time is added up. */
type Pids = readonly (number | undefined)[]

/** Measures each after its warm-up: one at a time, then many at once. */
async function compare(
  names: readonly Work[],
  worksOf: (name: Work) => Works,
  processes: readonly Pids[],
): Promise<void> {
  for (const name of names) {
    for (const work of Object.values(worksOf(name))) await throughput(lanesOf(name), WARM_UP_MS, work)
  }
  print('one at a time', 'p50 ms', 'p99 ms', '× by hand')
  for (const name of names) {
    const figures = await interleaved(name === 'fan' ? 10 : LATENCY_ROUNDS, worksOf(name))
    for (const [who, { p50Ms, p99Ms }] of Object.entries(figures))
      print(`${name}, ${who}`, p50Ms, p99Ms, p50Ms / (figures['by hand']?.p50Ms ?? 0))
  }
  print(`\n${LANES} at once`, 'per s', '× by hand', 'worker µs', 'API µs', 'servers µs')
  for (const name of names) await crowded(name, lanesOf(name), worksOf(name), processes)
}

const lanesOf = (name: Work) => (name === 'fan' ? 4 : LANES)

/** Alternates between them, and reads the CPU time of each process group for each round. */
async function crowded(name: string, lanes: number, works: Works, processes: readonly Pids[]): Promise<void> {
  const used = () => processes.map((pids) => pids.reduce((sum: number, pid) => sum + usedUs(pid), 0))
  const sums = new Map<string, { rates: number[]; us: number[]; runs: number }>()
  for (let turn = 0; turn < TURNS; turn++) {
    for (const [who, work] of Object.entries(works)) {
      const [before, startedMs] = [used(), performance.now()]
      const rate = await throughput(lanes, TURN_MS, work)
      const sum = sums.get(who) ?? { rates: [], us: processes.map(() => 0), runs: 0 }
      sum.rates.push(rate)
      sum.runs += (rate * (performance.now() - startedMs)) / 1_000
      for (const [part, us] of used().entries()) sum.us[part] = (sum.us[part] ?? 0) + us - (before[part] ?? 0)
      sums.set(who, sum)
    }
  }
  const median = (rates: number[]) => rates.toSorted((a, b) => a - b)[rates.length >> 1] ?? 0
  const limit = median(sums.get('by hand')?.rates ?? [])
  for (const [who, { rates, us, runs }] of sums)
    print(`${name}, ${who}`, median(rates), median(rates) / limit, ...us.map((each) => each / runs))
}
