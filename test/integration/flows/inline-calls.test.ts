/** Inline HTTP calls: safe and fast requests run without an activity, others as activities. */

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { FLOW_LIMITS } from '../../../src/features/flows/limits.ts'
import { INFRA_LIMITS } from '../../../src/infra/limits.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { call, createTestWorkspace, eventually, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

let workspace: TestWorkspace
let executions: Executions
let quick: FakeServers
let nearlySlow: FakeServers
let slow: FakeServers
let failing: FakeServers
let paged: FakeServers
let closedOrigin: string
/** How long the server takes for a page. */
const PAGE_MS = 10
beforeEach(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  const openServer = (lateMs: number) => FakeServers.open({ '/': () => ({ json: {}, lateMs }) })
  quick = await openServer(0)
  nearlySlow = await openServer(FLOW_LIMITS.inlineCalls.timeoutMs / 2)
  paged = await FakeServers.open({
    '/': ({ url }, { origin }) => ({
      json: { next: `${origin}/p${Number(url.slice(2)) + 1}` },
      lateMs: PAGE_MS,
    }),
  })
  slow = await openServer(2 * FLOW_LIMITS.inlineCalls.timeoutMs)
  failing = await FakeServers.open({ '/': () => ({ status: 503 }) })
  const closing = await FakeServers.open()
  closedOrigin = closing.origin
  const allow = [quick, nearlySlow, slow, failing, paged, closing].map(({ host }) => host)
  await allowEgress(allow)
  await closing.close()
})
afterEach(() => Promise.all([quick, nearlySlow, slow, failing, paged].map((each) => each.close())))

async function allowEgress(allow: readonly string[]): Promise<void> {
  const body = { workspace_id: workspace.workspaceId, egress: { allow } }
  expect((await call('POST', '/v1/services/configure', { as: workspace.operator, body })).status).toBe(200)
}

/** Method and path of each request received. */
const requestsOf = ({ requests }: FakeServers) => requests.map(({ method, url }) => `${method} ${url}`)

const httpTask = (name: string, origin: string, more = '', method = 'get') =>
  `  - ${name}: { call: http, with: { method: ${method}, endpoint: '${origin}/${name}' }${more} }\n`

/** Runs a flow to its end. @returns the execution, its activities and the number of history markers */
async function runFlow(tasks: string) {
  const run = await executions.ended(await executions.start(await executions.publish(tasks)))
  const { events } = await withRawClient((client) =>
    client.workflow.getHandle(run.workflow_id).fetchHistory(),
  )
  const tasked = (events ?? []).filter(({ activityTaskScheduledEventAttributes: is }) => is)
  const markers = (events ?? []).filter(({ markerRecordedEventAttributes: is }) => is).length
  return {
    run,
    markers,
    tasks: tasked.map(({ activityTaskScheduledEventAttributes: is }) => is?.activityType?.name),
  }
}

// A machine that stalls makes a fast server look slow; each retry has servers of its own.
describe('inline HTTP call', { retry: 2 }, () => {
  test('three requests to a fast server: no activity, all steps recorded', async () => {
    const { origin } = quick
    const { run, tasks } = await runFlow(
      httpTask('a', origin) + httpTask('b', origin, '', 'head') + httpTask('c', origin),
    )
    expect([run.status, tasks]).toEqual(['completed', []])
    expect(requestsOf(quick)).toEqual(['GET /a', 'HEAD /b', 'GET /c'])
    expect(run.steps.map(({ status }: { status: string }) => status)).toEqual(Array(3).fill('completed'))
  })

  test('requests that follow from responses: no activity, one marker and its own time each', async () => {
    const { origin } = paged
    const next = '${ .next }'
    const loop = `  - all:\n      for: { each: n, in: '\${ [range(5)] }' }\n      do: [ { page: { call: http, with: { method: get, endpoint: '${next}' } } } ]\n`
    const { run, tasks, markers } = await runFlow(httpTask('p1', origin) + loop)
    expect([run.status, run.output, tasks, markers]).toEqual(['completed', { next: `${origin}/p7` }, [], 6])
    expect(requestsOf(paged)).toEqual([1, 2, 3, 4, 5, 6].map((page) => `GET /p${page}`))
    const pages = run.steps.filter(({ kind }: { kind: string }) => kind === 'call')
    const spans = pages.map(({ started_at, ended_at }: { started_at: string; ended_at: string }) => [
      Date.parse(started_at),
      Date.parse(ended_at),
    ])
    expect(spans.flat()).toEqual(spans.flat().toSorted((a: number, b: number) => a - b))
    for (const [from, to] of spans) expect(to - from).toBeGreaterThanOrEqual(PAGE_MS - 2)
  })

  test('POST, or GET with local set to false: runs as an activity', async () => {
    const { origin } = quick
    const own = ', metadata: { tenon: { local: false } }'
    const { tasks } = await runFlow(httpTask('a', origin, '', 'post') + httpTask('b', origin, own))
    expect(tasks).toEqual(['callHttp', 'callHttp'])
  })

  test('slow server: repeated as an activity; the next call is not tried inline', async () => {
    const { origin } = slow
    const { run, tasks } = await runFlow(httpTask('a', origin) + httpTask('b', origin))
    expect([run.status, run.output, tasks]).toEqual(['completed', {}, ['callHttp', 'callHttp']])
    expect(requestsOf(slow)).toEqual(['GET /a', 'GET /a', 'GET /b'])
  })

  test('error response: faults, not repeated as an activity', async () => {
    const { origin } = failing
    const { run, tasks } = await runFlow(httpTask('a', origin))
    expect(run).toMatchObject({ status: 'faulted', error: { status: 503, instance: '/do/0/a' } })
    expect([requestsOf(failing), tasks]).toEqual([['GET /a'], []])
  })

  test('error response to a prefetched call: the flow catches it', async () => {
    const failed = httpTask('b', failing.origin).trim().slice(2)
    const { run, tasks, markers } = await runFlow(
      `${httpTask('a', quick.origin)}  - risk: { try: [ { ${failed} } ], catch: { as: e, do: [ { tell: { set: { status: '\${ $e.status }' } } } ] } }\n`,
    )
    expect([run.status, run.output, tasks, markers]).toEqual(['completed', { status: 503 }, [], 2])
    expect(requestsOf(failing)).toEqual(['GET /b'])
  })

  test('connection refused: retried as an activity', async () => {
    const { run, tasks } = await runFlow(httpTask('a', closedOrigin))
    expect(run).toMatchObject({ status: 'faulted', error: { type: expect.stringMatching(/communication$/) } })
    expect(tasks).toEqual(['callHttp'])
  })

  test('many nearly slow requests: some run as activities, so that the worker reports progress', async () => {
    const { origin } = nearlySlow
    const count = 12
    const loop = `  - all:\n      for: { each: n, in: '\${ [range(${count})] }' }\n      do:\n      ${httpTask('a', origin)}`
    const { run, tasks } = await runFlow(loop)
    expect(run.status).toBe('completed')
    expect(tasks.length).toBeGreaterThan(0)
    expect(tasks.length).toBeLessThan(count / 2)
  })
})

test('egress allowlist changed: extension takes effect at once, restriction within seconds', async () => {
  const name = await executions.publish(httpTask('a', quick.origin))
  const outcome = async () => {
    const { status, error } = await executions.ended(await executions.start(name))
    return error === null ? status : error.code
  }
  await allowEgress([])
  await eventually(async () => ((await outcome()) === 'egress_refused' ? true : undefined))
  await allowEgress([quick.host])
  expect(await outcome()).toBe('completed')
  await allowEgress([])
  await eventually(
    async () => ((await outcome()) === 'egress_refused' ? true : undefined),
    INFRA_LIMITS.settingsCacheMs + 2_000,
  )
})
