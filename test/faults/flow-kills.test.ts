/** Runs while workers and Temporal are killed and connections are cut: each ends, and does each of its effects once. */

import fc from 'fast-check'
import { Pool } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type OwnPlatform, ownPlatform } from '../support/own-platform.ts'
import type { Started } from '../support/start.ts'
import { call as callAt, eventually, type Reply, type Room } from '../support/tenants.ts'

const RUNS = 200

let own: OwnPlatform
let started: Started
let room: Room
beforeAll(async () => {
  own = await ownPlatform()
  started = own.started
  room = own.room
  await call('POST', `${room.flows}/definitions`, { source: SOURCE })
  expect((await call('POST', `${room.flows}/definitions/ledger/versions`, {})).status).toBe(201)
}, 120_000)
afterAll(() => own?.end())

const call = (method: string, path: string, body?: object): Promise<Reply> =>
  callAt(method, path, { at: started.running, as: room.operator, ...(body && { body }) })

/** Local calls, a call that is a task of its own, a timer, and something that is undone in one run of ten. */
const SOURCE = `document: { dsl: '1.0.3', namespace: test, name: ledger, version: '1.0.0' }
do:
  - first: { call: collection.create, with: { name: ledger, document: { of: '\${ $workflow.input.n }', at: first } } }
  - second:
      call: collection.create
      with: { name: ledger, document: { of: '\${ $workflow.input.n }', at: second } }
      metadata: { tenon: { local: false } }
      compensate:
        - undo: { call: collection.create, with: { name: ledger, document: { of: '\${ $workflow.input.n }', at: undo } } }
  - rest: { wait: { milliseconds: 40 } }
  - third: { call: collection.create, with: { name: ledger, document: { of: '\${ $workflow.input.n }', at: third } } }
  - no:
      if: '\${ $workflow.input.n % 10 == 9 }'
      raise: { error: { type: 'https://example.com/no', status: 409, title: No } }
`

/** By the pid that the supervisor knows: only what this test started. */
function kill(name: 'worker' | 'temporal'): void {
  const pid = started.stack.supervisor.pid(name)
  if (pid !== undefined) process.kill(pid, 'SIGKILL')
}

async function cutConnections(): Promise<void> {
  const pool = new Pool({ connectionString: started.running.databaseUrl, max: 1 })
  await pool.query("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'tenon_app'")
  await pool.end()
}

/** A start that was refused is asked for again under its key, as clients do. */
async function start(n: number): Promise<void> {
  let last: unknown
  await eventually(async () => {
    const path = `${room.flows}/definitions/ledger/executions`
    const reply = await callAt('POST', path, {
      at: started.running,
      as: room.operator,
      body: { input: { n }, correlation_key: `run ${n}` },
      headers: { 'idempotency-key': `ledger-${n}` },
    }).catch((error: unknown) => ({ status: 0, body: String(error) }))
    last = reply.body
    return reply.status === 201 ? true : undefined
  }, 120_000).catch((error) => {
    throw new Error(`${error}: ${JSON.stringify(last)}`)
  })
}

async function ledger(): Promise<Map<number, string[]>> {
  const entries = new Map<number, string[]>()
  for (let after = ''; ; ) {
    const query = after === '' ? '' : `&page[after]=${encodeURIComponent(after)}`
    const path = `/v1/collections/ledger/documents?page[size]=200${query}`
    const { body } = await callAt('GET', path, { at: started.running, as: room.service })
    for (const { of, at } of body.data) entries.set(of, [...(entries.get(of) ?? []), at])
    if (body.page.next === null) return entries
    after = body.page.next
  }
}

/** Those that have not ended. */
async function open(): Promise<unknown[]> {
  const pages = await Promise.all(
    ['pending', 'running', 'waiting', 'suspended'].map((status) =>
      call('GET', `${room.flows}/executions?status=${status}&page[size]=200`),
    ),
  )
  return pages.flatMap(({ body }) => body.data ?? [body])
}

/** Starts them, ten at a time, while `breaking` breaks what it can; @returns when all have ended */
async function runAll(
  runs: readonly number[],
  breaking: (isOver: () => boolean) => Promise<void>,
): Promise<void> {
  let isOver = false
  const broken = breaking(() => isOver)
  const left = [...runs]
  const lane = async () => {
    for (let n = left.shift(); n !== undefined; n = left.shift()) await start(n)
  }
  await Promise.all(Array.from({ length: 10 }, lane))
  await broken
  isOver = true
  await eventually(async () => ((await open()).length === 0 ? true : undefined), 240_000).catch(
    async (error) => {
      throw new Error(`${error}: ${JSON.stringify((await open()).slice(0, 5))}`)
    },
  )
}

/** What was done for each run, once: nothing twice, nothing left out. */
async function expectOnce(runs: readonly number[]): Promise<void> {
  const entries = await ledger()
  for (const n of runs) {
    const wanted = n % 10 === 9 ? ['first', 'second', 'third', 'undo'] : ['first', 'second', 'third']
    expect(entries.get(n)?.toSorted(), `run ${n}`).toEqual(wanted)
  }
}

const numbers = (from: number, count: number) => Array.from({ length: count }, (_, n) => from + n)

test('Temporal is killed while runs go on and others start: none is lost, and each does each thing once', async () => {
  const runs = numbers(1_000, 60)
  const before = started.stack.supervisor.pid('temporal')
  await runAll(runs, async () => {
    // In the midst of it: what has begun goes on, what is asked for meanwhile is refused and asked again.
    await eventually(async () => ((await ledger()).size >= 15 ? true : undefined), 60_000)
    kill('temporal')
  })
  expect(started.stack.supervisor.pid('temporal')).not.toBe(before)
  await expectOnce(runs)
}, 300_000)

test('workers are killed and connections are cut: each run ends, and has done each of its effects once', async () => {
  // The crashes of before do not count.
  await started.stack.supervisor.restart('worker')
  const runs = numbers(0, RUNS)
  await runAll(runs, async (isOver) => {
    const arbitrary = fc.array(fc.integer({ min: 1_500, max: 5_000 }), { minLength: 5, maxLength: 5 })
    const [pauses = []] = fc.sample(arbitrary, { seed: 20261121, numRuns: 1 })
    for (const [index, ms] of pauses.entries()) {
      await new Promise((done) => setTimeout(done, ms))
      if (isOver()) return
      // Four times: who dies five times in a minute is not started again.
      if (index === 2) await cutConnections()
      else kill('worker')
    }
  })
  await expectOnce(runs)
  expect((await ledger()).size).toBe(RUNS + 60)
}, 480_000)
