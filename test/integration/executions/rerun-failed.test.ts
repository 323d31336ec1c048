// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Reruns failed executions from the step that failed: no call with an answer is made again, however the calls overlapped. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { Executions, type Shown } from '../../support/fixtures/executions.ts'
import { call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'

let workspace: TestWorkspace
let executions: Executions
let server: FakeServers
/** Paths that answer 500. */
const failing = new Set<string>()
const LATE_MS: Readonly<Record<string, number>> = { '/items/7': 700, '/items/13': 300, '/left/2': 300 }

beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  server = await FakeServers.open({
    '/': ({ url }) => ({
      status: failing.has(url) ? 500 : 200,
      json: { url },
      lateMs: LATE_MS[url] ?? 0,
    }),
  })
  const body = { workspace_id: workspace.workspaceId, egress: { allow: [server.host] } }
  expect((await call('POST', '/v1/services/configure', { as: workspace.operator, body })).status).toBe(200)
})
afterAll(() => server.close())

const post = (path: string) => `call: http, with: { method: post, endpoint: '${server.origin}${path}' }`
const requests = (path: string) => server.requestsTo(path).map(({ url }) => url)

async function rerunFailed(id: string, body: object = {}): Promise<Shown> {
  const made = await executions.send(id, 'rerun', { from: 'failed', ...body })
  expect(made.status, JSON.stringify(made.body)).toBe(201)
  return { ...(await executions.ended(made.body.id)), plan: made.body.plan }
}

test('rerun from failed: concurrent loop with a slow and a failing item: no answered request is sent again', async () => {
  failing.add('/items/13')
  const flow = await executions.publish(`  - each:
      for: { each: n, in: '\${ [range(20)] }', concurrency: 5 }
      do: [{ send: { call: http, with: { method: post, endpoint: '\${ "${server.origin}/items/\\($n)" }' } } }]`)
  const id = await executions.start(flow)
  const first = await executions.ended(id)
  expect(first.status).toBe('faulted')
  const steps: Shown[] = first.steps.filter(({ name }: Shown) => name === 'send')
  const answered = steps.filter(({ status }) => status === 'completed').map(({ iteration }) => iteration)
  const failed = steps.find(({ status }) => status === 'faulted').iteration
  // An item that began after the failing one and ended before it has an answer.
  expect(Math.max(...answered)).toBeGreaterThan(failed)
  failing.clear()
  const run = await rerunFailed(id)
  expect(run.status).toBe('completed')
  expect(run.plan.reused).toHaveLength(answered.length)
  expect(run.steps.filter(({ reused }: Shown) => reused)).toHaveLength(answered.length)
  expect(run.output.map(({ url }: { url: string }) => url)).toEqual(
    Array.from({ length: 20 }, (_, n) => `/items/${n}`),
  )
  // What was under way has no answer: it is asked again.
  const counts = Map.groupBy(requests('/items/'), (url) => url)
  const twice = [...counts].filter(([, all]) => all.length > 1).map(([url]) => Number(url.slice(7)))
  expect(twice).toContain(failed)
  expect(twice.filter((item) => answered.includes(item))).toEqual([])
})

test('rerun from failed: fork whose other branch went on meanwhile: its answers are reused', async () => {
  failing.add('/right/1')
  const flow = await executions.publish(`  - both:
      fork:
        branches:
          - left: { do: [{ one: { ${post('/left/1')} } }, { two: { ${post('/left/3')} } }] }
          - right: { do: [{ slow: { ${post('/left/2')} } }, { bad: { ${post('/right/1')} } }] }
  - after: { ${post('/after')} }`)
  const id = await executions.start(flow)
  await executions.ended(id)
  failing.clear()
  const run = await rerunFailed(id)
  expect(run).toMatchObject({ status: 'completed', plan: { from: { name: 'bad' }, refusals: [] } })
  expect(requests('/left/')).toHaveLength(3)
  expect(requests('/right/')).toHaveLength(2)
  expect(requests('/after')).toHaveLength(1)
})

test('rerun from failed: timeout of the flow: answers are reused, only the interrupted step is done again', async () => {
  const flow = await executions.publish(
    `  - one: { ${post('/timed/1')} }
  - t: { try: [{ bad: { ${post('/timed/bad')} } }], catch: { do: [{ note: { ${post('/timed/note')} } }] } }
  - two: { ${post('/timed/2')} }
  - late: { wait: P1D }`,
    { more: 'timeout: { after: PT2S }\n' },
  )
  failing.add('/timed/bad')
  const id = await executions.start(flow)
  expect(await executions.ended(id)).toMatchObject({ status: 'faulted' })
  failing.clear()
  const dry = await executions.send(id, 'rerun', { from: 'failed', dry_run: true })
  const names = (steps: readonly { name: string }[]) => steps.map(({ name }) => name)
  expect(dry.body.plan).toMatchObject({ from: null, refusals: [] })
  expect(names(dry.body.plan.reused)).toEqual(['one', 'bad', 'note', 'two'])
  expect(names(dry.body.plan.again)).toEqual(['late'])
  const run = await rerunFailed(id)
  expect(run.status).toBe('faulted')
  expect(requests('/timed/')).toHaveLength(4)
})

test('rerun from an explicit step: only what ended before it began is reused', async () => {
  failing.add('/explicit/2')
  const flow = await executions.publish(`  - one: { ${post('/explicit/1')} }
  - two: { ${post('/explicit/2')} }`)
  const id = await executions.start(flow)
  await executions.ended(id)
  failing.clear()
  const made = await executions.send(id, 'rerun', { from: 'one' })
  expect(await executions.ended(made.body.id)).toMatchObject({ status: 'completed' })
  expect(requests('/explicit/1')).toHaveLength(2)
})
