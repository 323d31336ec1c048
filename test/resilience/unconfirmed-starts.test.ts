// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Starts of executions without an answer of Temporal: recorded truthfully, made once, and limits hold. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { INFRA_LIMITS } from '../../src/infra/limits.ts'
import { createEntry, Executions } from '../support/fixtures/executions.ts'
import { FunctionRuns } from '../support/fixtures/function-runs.ts'
import {
  asSuperuser,
  call as callAt,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../support/fixtures/tenants.ts'
import { startTcpProxy } from '../support/servers/tcp-proxy.ts'
import { startInProcessNode } from '../support/stack/in-process-node.ts'
import { type SharedPlatform, sharedPlatform, whileStopped } from '../support/stack/own-platform.ts'
import type { Running } from '../support/stack/start.ts'

let own: SharedPlatform
let executions: Executions
beforeAll(async () => {
  own = await sharedPlatform()
  executions = new Executions(own.workspace, own.started.running)
})
afterAll(() => own?.end())

const call = (path: string, body: object = {}) =>
  callAt('POST', `${own.workspace.flows}${path}`, {
    as: own.workspace.operator,
    at: own.started.running,
    body,
  })
const start = (flow: string) => call(`/definitions/${flow}/executions`)
const ended = (id: string) =>
  eventually(async () => {
    const run = await executions.read(id)
    return run.ended_at === null ? undefined : run
  }, 60_000)
const stateOfSlot = async (id: string) =>
  (
    await asSuperuser<{ state: string }>(
      'select state from tenon.run_slots where run_id = $1',
      [id],
      own.started.running,
    )
  )[0]?.state

test('Temporal hangs: a start is pending and runs once afterwards, with its slot; a rerun gets 503', async () => {
  const [free, limited, repeated] = await Promise.all([
    executions.publish(`  - did: { ${createEntry('free', 'unconfirmed')} }`),
    executions.publish(`  - did: { ${createEntry('limited', 'unconfirmed')} }`, {
      more: 'concurrency: { limit: 1 }\n',
    }),
    executions.publish('  - did: { set: { n: 1 } }'),
  ])
  const done = await executions.start(repeated)
  await executions.ended(done)
  const ids: string[] = []
  await whileStopped(own.started, 'temporal', async () => {
    const [first, second, rerun] = await Promise.all([
      start(free),
      start(limited),
      call(`/executions/${done}/rerun`),
    ])
    for (const { status, body } of [first, second])
      expect({ status, body }).toMatchObject({ status: 201, body: { status: 'pending', error: null } })
    expect(rerun).toMatchObject({ status: 503, body: { code: 'dependency_unavailable' } })
    const [repetition = ''] = /run_\w+/.exec(rerun.body.detail) ?? []
    expect(await executions.read(repetition)).toMatchObject({ status: 'pending', rerun_of: done })
    expect(await stateOfSlot(second.body.id)).toBe('admitted')
    ids.push(first.body.id, second.body.id, repetition)
  })
  const [first, second, rerun] = await Promise.all(ids.map(ended))
  for (const run of [first, second]) expect(run).toMatchObject({ status: 'completed', error: null })
  expect(rerun.ended_at).not.toBeNull()
  expect((await executions.ledger('unconfirmed')).toSorted()).toEqual(['free', 'limited'])
})

test('Temporal hangs at a start with cancel_running: it is queued, and follows the running one afterwards', async () => {
  const flow = await executions.publish('  - rest: { listen: { to: { one: { with: { type: go } } } } }', {
    more: 'concurrency: { limit: 1, onLimit: cancel_running }\n',
  })
  const running = await executions.start(flow)
  await executions.shown(running, 'waiting')
  let next = ''
  await whileStopped(own.started, 'temporal', async () => {
    const { status, body } = await start(flow)
    expect({ status, body }).toMatchObject({
      status: 201,
      body: { status: 'pending', queue: { position: 1 } },
    })
    next = body.id
  })
  expect(await ended(running)).toMatchObject({ status: 'cancelled' })
  await executions.shown(next, 'waiting')
  await executions.send(next, 'cancel')
})

test('Temporal hangs at a call of a function tool: the error says that the function may run, and names the run', async () => {
  const { operator: as, workspaceId } = own.workspace
  const at = own.started.running
  const post = async (path: string, body: object, method = 'POST') => {
    const reply = await callAt(method, path, { as, at, body })
    expect(reply.status, JSON.stringify(reply.body)).toBeLessThan(300)
    return reply.body
  }
  const source = 'export default () => 1'
  const { id } = await post('/v1/functions', { workspace_id: workspaceId, name: 'late', source })
  const servers = `/v1/mcp/workspaces/${workspaceId}/servers`
  await post(servers, { name: 'late' })
  await post(`${servers}/late/curation`, { tools: { call_late: { enabled: true } } }, 'PUT')
  await post(`${servers}/late/publish`, {})
  let text = ''
  await whileStopped(own.started, 'temporal', async () => {
    const { content } = await post(`${servers}/late/call`, { tool: 'call_late' })
    text = content[0].text
  })
  expect(text).toMatch(
    /^dependency_unavailable: .*run_\w+: the function may run, or have run\.\nRead the run/,
  )
  const [run] = /run_\w+/.exec(text) ?? []
  const { data } = (await callAt('GET', `/v1/functions/${id}/runs`, { as, at })).body
  expect(data.map((one: { id: string }) => one.id)).toEqual([run])
})

/** A flow that starts a function and another flow, and writes the number of its input. @returns its name */
async function publishEffects(collection: string): Promise<string> {
  const name = unique('counted')
  await new FunctionRuns(own.workspace, own.started.running).deploy(name, 'export default ({ n }) => n')
  const input = "'${ $workflow.input }'"
  const write = `{ call: collection.create, with: { name: ${collection}, document: { entry: '\${ $workflow.input.n }' } } }`
  const child = await executions.publish(`  - write: ${write}\n`)
  return executions.publish(`  - run: { call: function.invoke, with: { id: ${name}, input: ${input} } }
  - sub: { run: { workflow: { namespace: n, name: ${child}, version: latest, input: ${input} } } }
  - write: ${write}
`)
}

/** The numbers that effects of executions have written, each by the subflow and by the flow itself. */
const writtenTwice = (numbers: readonly number[]) => [...numbers, ...numbers].map(String).sort()

const startNumbered = (path: string, n: number, of: TestWorkspace, at: Running) =>
  callAt('POST', `${of.flows}/definitions/${path}/executions`, {
    as: of.operator,
    at,
    body: { input: { n } },
  })

test('Temporal is stopped while executions start functions and subflows: all acknowledged ones complete, with each effect once', async () => {
  const flow = await publishEffects('outage')
  const acknowledged = new Map<number, string>()
  const startMany = (from: number) =>
    Promise.all(
      Array.from({ length: 6 }, async (_, nth) => {
        const { status, body } = await startNumbered(flow, from + nth, own.workspace, own.started.running)
        expect([201, 429, 503]).toContain(status)
        if (status === 201) acknowledged.set(from + nth, body.id)
      }),
    )
  await startMany(0)
  await whileStopped(own.started, 'temporal', async () => {
    await startMany(6)
    await startMany(12)
  })
  await startMany(18)
  const ended = await Promise.all([...acknowledged.values()].map((id) => executions.ended(id, 120_000)))
  expect(ended.map(({ status, error }) => [status, error])).toEqual(ended.map(() => ['completed', null]))
  expect((await executions.ledger('outage')).map(String).sort()).toEqual(
    writtenTwice([...acknowledged.keys()]),
  )
})

/** A tenant may have this many starts under way when two requests in a row have had no answer in time. */
const { atOnce, callMs, tenantShare, startsPerRequest } = INFRA_LIMITS.temporalCalls
const STARTS_AFTER_TWO = (atOnce.max / 4) * tenantShare * startsPerRequest

test('Temporal answers too late: a tenant with many starts gets 429 for some, another tenant is served, and what was acknowledged runs once', async () => {
  const flow = await publishEffects('late')
  const other = await createTestWorkspace(own.started.running)
  const others = new Executions(other, own.started.running)
  const othersFlow = await others.publish('  - did: { set: { n: 1 } }')
  const rests = await executions.publish('  - rest: { wait: PT5M }')
  const waiting = [await executions.start(rests), await executions.start(rests)]
  for (const id of waiting) await executions.shown(id, 'waiting')
  const address = new URL(`http://${own.started.running.env['TEMPORAL_ADDRESS']}`)
  const proxy = await startTcpProxy(address, { lateMs: () => 1.2 * callMs })
  const settings = { TEMPORAL_ADDRESS: `127.0.0.1:${proxy.port}`, TENON_EAGER_START_SOCKET: '' }
  const node = await startInProcessNode(settings, own.started.running)
  try {
    for (const id of waiting) {
      const path = `${own.workspace.flows}/executions/${id}/cancel`
      const { status } = await callAt('POST', path, { as: own.workspace.operator, at: node.at, body: {} })
      expect(status).toBe(503)
    }
    const numbers = Array.from({ length: STARTS_AFTER_TWO + 8 }, (_, n) => n)
    const flood = numbers.map((n) => startNumbered(flow, n, own.workspace, node.at))
    const [beside, ...replies] = await Promise.all([startNumbered(othersFlow, 0, other, node.at), ...flood])
    expect(beside?.status).toBe(201)
    const refused = replies.filter(({ status }) => status === 429)
    expect(refused.length).toBeGreaterThanOrEqual(8)
    for (const { body, headers } of refused)
      expect([body.code, Number(headers.get('retry-after')) > 0]).toEqual(['rate_limited', true])
    const acknowledged = numbers.filter((n) => replies[n]?.status === 201)
    expect(acknowledged.length).toBe(numbers.length - refused.length)
    expect(acknowledged.length).toBeGreaterThan(0)
    const ids = acknowledged.map((n) => replies[n]?.body.id as string)
    const ended = await Promise.all(ids.map((id) => executions.ended(id, 120_000)))
    expect(ended.map(({ status, error }) => [status, error])).toEqual(ended.map(() => ['completed', null]))
    expect((await executions.ledger('late')).map(String).sort()).toEqual(writtenTwice(acknowledged))
    expect((await others.ended(beside?.body.id)).status).toBe('completed')
  } finally {
    await node.close()
    proxy.close()
  }
})
