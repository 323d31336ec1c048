/** Worker crashes, Temporal crashes and cut connections: every execution ends, each effect happens once. */

import { createServer, type Server } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { asSuperuser, eventually, type Reply, type TestWorkspace } from '../support/fixtures/tenants.ts'
import { killServer, type SharedPlatform, sharedPlatform } from '../support/stack/own-platform.ts'
import { repeated } from '../support/stack/soak.ts'
import type { Started } from '../support/stack/start.ts'

const RUNS = repeated(60, 200)
/** How many executions have ended when something is broken: a worker is killed, once the connections are cut. */
const STRIKES = (RUNS < 200 ? [0.1, 0.4, 0.7] : [0.05, 0.22, 0.4, 0.57, 0.75]).map((share) =>
  Math.round(share * RUNS),
)
/** Long enough that some calls are waiting when the worker is killed. */
const ANSWER_MS = 100

let own: SharedPlatform
let started: Started
let workspace: TestWorkspace
let fakeServer: Server
/** How often the server was called by each execution. */
const requestCounts = new Map<number, number>()
beforeAll(async () => {
  own = await sharedPlatform()
  started = own.started
  workspace = own.workspace
  const [port = 0] = started.running.echoPorts
  fakeServer = createServer(({ url = '' }, response) => {
    const n = Number(url.slice(1))
    requestCounts.set(n, (requestCounts.get(n) ?? 0) + 1)
    setTimeout(() => response.end(), ANSWER_MS)
  }).listen(port, '127.0.0.1')
  await call('POST', `${workspace.flows}/definitions`, { source: sourceAt(port) })
  expect((await call('POST', `${workspace.flows}/definitions/ledger/versions`, {})).status).toBe(201)
})
afterAll(async () => {
  await own?.end()
  fakeServer?.close()
})

const call = (method: string, path: string, body?: object): Promise<Reply> =>
  own.call(method, path, { as: workspace.operator, ...(body && { body }) })

/**
 * Local calls, an activity call, a request that is never repeated (docs/decisions/0004), a timer, and compensation in
 * one execution of ten.
 */
const sourceAt = (
  port: number,
) => `document: { dsl: '1.0.3', namespace: test, name: ledger, version: '1.0.0' }
do:
  - first: { call: collection.create, with: { name: ledger, document: { of: '\${ $workflow.input.n }', at: first } } }
  - second:
      call: collection.create
      with: { name: ledger, document: { of: '\${ $workflow.input.n }', at: second } }
      metadata: { tenon: { local: false } }
      compensate:
        - undo: { call: collection.create, with: { name: ledger, document: { of: '\${ $workflow.input.n }', at: undo } } }
  - tell:
      try:
        - post:
            call: http
            with: { method: post, endpoint: '\${ "http://127.0.0.1:${port}/\\($workflow.input.n)" }' }
            output: { as: '\${ { told: true } }' }
            timeout: { after: PT20S }
      catch: { do: [{ lost: { set: { told: false } } }] }
  - rest: { wait: { milliseconds: 40 } }
  - third:
      call: collection.create
      with: { name: ledger, document: { of: '\${ $workflow.input.n }', at: third, told: '\${ .told }' } }
  - no:
      if: '\${ $workflow.input.n % 10 == 9 }'
      raise: { error: { type: 'https://example.com/no', status: 409, title: No } }
`

/** Cuts all connections to the database. @returns how many */
async function cutConnections(): Promise<number> {
  const text = "select pg_terminate_backend(pid) as is_cut from pg_stat_activity where usename = 'tenon_app'"
  const rows = await asSuperuser<{ is_cut: boolean }>(text, [], started.running)
  return rows.filter(({ is_cut }) => is_cut).length
}

/** How many executions have ended, and how many are open. */
async function progress(): Promise<{ ended: number; open: number }> {
  const text =
    'select count(ended_at)::int as ended, (count(*) - count(ended_at))::int as open from tenon.executions where workspace_id = $1'
  const [row] = await asSuperuser<{ ended: number; open: number }>(
    text,
    [workspace.workspaceId],
    started.running,
  )
  return row ?? { ended: 0, open: 0 }
}

/** How many executions are open once `ended` have ended. */
function openAfter(ended: number): Promise<number> {
  return eventually(async () => {
    const stand = await progress()
    return stand.ended >= ended ? stand.open : undefined
  }, 120_000)
}

/** Starts an execution; a refused start is repeated under its idempotency key, as clients do. */
async function start(n: number): Promise<void> {
  let last: unknown
  await eventually(async () => {
    const path = `${workspace.flows}/definitions/ledger/executions`
    const reply = await own
      .call('POST', path, {
        as: workspace.operator,
        body: { input: { n }, correlation_key: `run ${n}` },
        headers: { 'idempotency-key': `ledger-${n}` },
      })
      .catch((error: unknown) => ({ status: 0, body: String(error) }))
    last = reply.body
    return reply.status === 201 ? true : undefined
  }, 120_000).catch((error) => {
    throw new Error(`${error}: ${JSON.stringify(last)}`)
  })
}

interface Entry {
  readonly of: number
  readonly at: string
  /** In the last entry: whether the execution knows that its request was answered. */
  readonly told?: boolean
}

async function ledger(): Promise<Map<number, Entry[]>> {
  const entries = new Map<number, Entry[]>()
  for (let after = ''; ; ) {
    const query = after === '' ? '' : `&page[after]=${encodeURIComponent(after)}`
    const path = `/v1/collections/ledger/documents?page[size]=200${query}`
    const { body } = await own.call('GET', path, { as: workspace.service })
    for (const entry of body.data) entries.set(entry.of, [...(entries.get(entry.of) ?? []), entry])
    if (body.page.next === null) return entries
    after = body.page.next
  }
}

/** Executions that have not ended. */
async function open(): Promise<unknown[]> {
  const pages = await Promise.all(
    ['pending', 'running', 'waiting', 'suspended'].map((status) =>
      call('GET', `${workspace.flows}/executions?status=${status}&page[size]=200`),
    ),
  )
  return pages.flatMap(({ body }) => body.data ?? [body])
}

/** Starts executions, ten at a time, while `breaking` runs. @returns when all have ended */
async function runAll(runs: readonly number[], breaking: () => Promise<void>): Promise<void> {
  const broken = breaking()
  const remaining = [...runs]
  const lane = async () => {
    for (let n = remaining.shift(); n !== undefined; n = remaining.shift()) await start(n)
  }
  await Promise.all([broken, ...Array.from({ length: 10 }, lane)])
  await eventually(async () => ((await open()).length === 0 ? true : undefined), 240_000).catch(
    async (error) => {
      throw new Error(`${error}: ${JSON.stringify((await open()).slice(0, 5))}`)
    },
  )
}

/**
 * Expects each effect once. Only a request that may have had its effect is not repeated after its worker is lost; the
 * execution then knows that the outcome is unknown.
 */
async function expectOnce(runs: readonly number[]): Promise<void> {
  const entries = await ledger()
  let known = 0
  for (const n of runs) {
    const expected = n % 10 === 9 ? ['first', 'second', 'third', 'undo'] : ['first', 'second', 'third']
    const made = entries.get(n) ?? []
    expect(made.map(({ at }) => at).toSorted(), `run ${n}`).toEqual(expected)
    const isKnown = made.find(({ at }) => at === 'third')?.told
    expect(requestCounts.get(n) ?? 0, `run ${n}`).toBeLessThanOrEqual(1)
    if (isKnown) expect(requestCounts.get(n), `run ${n}`).toBe(1)
    if (isKnown) known += 1
  }
  expect(known).toBeGreaterThan(runs.length / 2)
}

const numbers = (from: number, count: number) => Array.from({ length: count }, (_, n) => from + n)

test('Temporal killed during executions and starts: none is lost, each effect happens once', async () => {
  const inputs = numbers(1_000, repeated(30, 60))
  const before = started.stack.supervisor.pid('temporal')
  await runAll(inputs, async () => {
    // Running executions continue; starts during the outage are refused and repeated.
    await eventually(async () => ((await ledger()).size >= 8 ? true : undefined), 60_000)
    expect((await progress()).open).toBeGreaterThan(0)
    killServer(started, 'temporal')
  })
  expect(started.stack.supervisor.pid('temporal')).not.toBe(before)
  await expectOnce(inputs)
})

test('workers killed and connections cut: every execution ends, each effect happens once', async () => {
  await own.forgetCrashes()
  const inputs = numbers(0, RUNS)
  const { ended: before } = await progress()
  await runAll(inputs, async () => {
    // Four times at most: after five crashes within a minute the supervisor gives up.
    for (const [index, ended] of STRIKES.entries()) {
      expect(await openAfter(before + ended), `after ${ended}`).toBeGreaterThan(0)
      if (index === STRIKES.length >> 1) expect(await cutConnections()).toBeGreaterThan(0)
      else killServer(started, 'worker')
    }
  })
  await expectOnce(inputs)
  expect((await ledger()).size).toBe(RUNS + before)
})
