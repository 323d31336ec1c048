/** Measures executions that wait for events: what thousands of them cost, and how soon an event reaches one: `npm run bench -- listen`. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Started, startPlatform } from '../test/support/stack/start.ts'
import { usedUs } from './cpu.ts'
import { createTestWorkspace, type TestWorkspace } from './fixture.ts'
import { type Send, sender } from './http.ts'
import { interleaved, print, sized } from './measure.ts'

const ROUNDS = sized(100, 5)
const LANES = 8
const EVENTS_PER_SECOND = 100
const LOAD_S = sized(20, 2)
const SETTLE_MS = sized(10_000, 500)
const TYPE = 'bench.paid'
const FLOW = `document: { dsl: '1.0.3', namespace: bench, name: hears, version: '1.0.0' }
do:
  - paid:
      listen:
        to: { one: { with: { type: ${TYPE} }, correlate: { order: { from: .data.order, expect: '\${ .order }' } } } }
`

/** Prints the CPU time of worker and API under events that match no execution, while one and while many wait; and latencies. */
export async function listen([count]: readonly string[]): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-'))
  const started = await startPlatform(dir, { checkReplies: false })
  try {
    const waiting = Number(count ?? sized(10_000, 50))
    await measure(started, await createTestWorkspace(started.running), waiting)
  } finally {
    await started.stop()
    await rm(dir, { recursive: true, force: true })
  }
}

async function measure(
  { running, stack }: Started,
  workspace: TestWorkspace,
  waiting: number,
): Promise<void> {
  const flows = `/v1/flows/workspaces/${workspace.workspaceId}`
  await workspace.admin.post(`${flows}/definitions`, { source: FLOW })
  await workspace.admin.post(`${flows}/definitions/hears/versions`, {})
  const asAdmin = sender(running.url, { authorization: workspace.authorization }, LANES)
  const asKey = sender(running.url, { apikey: workspace.apikey }, LANES)
  const pids = ['worker', 'api'].map((name) => stack.supervisor.pid(name))
  const runs = new WaitingRuns(flows, asAdmin)
  // One always waits, so that the consumer of the workspace runs.
  await runs.begin(1)
  print(`${EVENTS_PER_SECOND} events/s without a match`, 'CPU ms per s', '× one waiting')
  const base = await load(asKey, pids)
  print('1 waiting', base, 1)
  await runs.begin(waiting)
  await pause(SETTLE_MS)
  const many = await load(asKey, pids)
  print(`${waiting} waiting`, many, many / base)
  const figures = await interleaved(ROUNDS, {
    signal: () =>
      runs.end(({ id, order }) => {
        const event = { type: TYPE, source: '/bench', id: String(order), data: { order } }
        return asAdmin('POST', `${flows}/executions/${id}/signal`, JSON.stringify({ event }))
      }),
    event: () =>
      runs.end(({ order }) =>
        asKey('POST', '/v1/events/publish', JSON.stringify({ topic: TYPE, data: { order } })),
      ),
  })
  print('\nuntil the execution has ended', 'p50 ms', 'p99 ms', '× signal')
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures))
    print(name, p50Ms, p99Ms, p50Ms / figures.signal.p50Ms)
}

/** @returns CPU time of the processes in milliseconds per second, while events are published that match no execution */
async function load(asKey: Send, pids: readonly (number | undefined)[]): Promise<number> {
  const used = () => pids.reduce<number>((sum, pid) => sum + usedUs(pid), 0)
  const before = used()
  const startedMs = performance.now()
  for (let n = 0; n < LOAD_S * EVENTS_PER_SECOND; n++) {
    await asKey('POST', '/v1/events/publish', JSON.stringify({ topic: TYPE, data: { order: -1 - n } }))
    const dueMs = startedMs + ((n + 1) * 1_000) / EVENTS_PER_SECOND
    await pause(Math.max(0, dueMs - performance.now()))
  }
  const seconds = (performance.now() - startedMs) / 1_000
  return (used() - before) / 1_000 / seconds
}

interface WaitingRun {
  readonly id: string
  readonly order: number
}

class WaitingRuns {
  readonly #flows: string
  readonly #send: Send
  readonly #waiting: WaitingRun[] = []
  #orders = 0

  constructor(flows: string, send: Send) {
    this.#flows = flows
    this.#send = send
  }

  /** Starts executions, and waits until all of them wait. */
  async begin(count: number): Promise<void> {
    const last = this.#orders + count
    const lane = async () => {
      while (this.#orders < last) {
        const order = this.#orders++
        const body = JSON.stringify({ input: { order } })
        const { id } = JSON.parse(
          await this.#send('POST', `${this.#flows}/definitions/hears/executions`, body),
        )
        await this.#until(id, 'waiting')
        this.#waiting.push({ id, order })
      }
    }
    await Promise.all(Array.from({ length: LANES }, lane))
  }

  /** Sends what one of them waits for. @returns when it has ended */
  async end(send: (run: WaitingRun) => Promise<unknown>): Promise<void> {
    const run = this.#waiting.pop()
    if (run === undefined) throw new Error('no execution waits')
    await send(run)
    await this.#until(run.id, 'completed')
  }

  async #until(id: string, wanted: string): Promise<void> {
    for (;;) {
      const { status } = JSON.parse(await this.#send('GET', `${this.#flows}/executions/${id}`))
      if (status === wanted) return
    }
  }
}
