/** A worker that stalls or is killed during HTTP calls: which requests are sent again, and what the flow learns of the others. */

import { createServer, type Server, type ServerResponse } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ok } from '../support/clients/mcp.ts'
import { Executions } from '../support/fixtures/executions.ts'
import { call, eventually } from '../support/fixtures/tenants.ts'
import { killServer, type OwnPlatform, sharedPlatform, whileStopped } from '../support/stack/own-platform.ts'
import { withRawClient } from '../support/stack/temporal.ts'
import { stopwatch } from '../support/stopwatch.ts'

let own: OwnPlatform
let executions: Executions
let origin: string
let fakeServer: Server
/** Idempotency keys of the requests to each path, in order. */
const keys = new Map<string, unknown[]>()
/** The responses to the first request of each path. */
const unanswered = new Map<string, ServerResponse>()

beforeAll(async () => {
  own = await sharedPlatform()
  executions = new Executions(own.workspace, own.started.running)
  const [port = 0] = own.started.running.echoPorts
  origin = `http://127.0.0.1:${port}`
  fakeServer = createServer(({ url = '', headers }, response) => {
    const received = keys.get(url) ?? []
    keys.set(url, [...received, headers['idempotency-key']])
    // The first request of each path gets no answer.
    if (received.length > 0) response.end('done')
    else unanswered.set(url, response)
  }).listen(port, '127.0.0.1')
})
afterAll(async () => {
  fakeServer?.closeAllConnections()
  fakeServer?.close()
  await own?.end()
})

/** Of the requests during which the worker is killed. */
const PATHS = ['/post', '/repeated', '/get', '/once', '/tool-get', '/tool-post']

const start = async (path: string, method: string, more = '') => {
  const options = `{ method: ${method}, endpoint: '${origin}${path}'${more} }`
  const task = `{ call: http, with: ${options}, timeout: { after: PT10M } }`
  return executions.start(await executions.publish(`  - ask: ${task}\n`))
}

/** Calls `GET /tool-get` and `POST /tool-post` as tools of a server, in an execution each. */
async function startTools(): Promise<readonly string[]> {
  const { workspace, started } = own
  const { operator: as, workspaceId } = workspace
  const send = (method: string, path: string, body: object) =>
    ok(call(method, `/v1/mcp/workspaces/${workspaceId}/${path}`, { as, at: started.running, body }))
  const methods = ['get', 'post']
  const paths = Object.fromEntries(methods.map((one) => [`/tool-${one}`, { [one]: { operationId: one } }]))
  const document = { openapi: '3.0.0', paths }
  await send('POST', 'sources', { name: 'api', kind: 'openapi', url: origin, base_url: origin, document })
  await send('POST', 'servers', { name: 'Lost', slug: 'lost' })
  const tools = Object.fromEntries(methods.map((one) => [`openapi:api:${one}`, { enabled: true }]))
  await send('PUT', 'servers/lost/curation', { tools })
  await send('POST', 'servers/lost/publish', {})
  const startTool = async (tool: string) =>
    executions.start(
      await executions.publish(`  - ask: { call: mcp, with: { server: lost, tool: ${tool} } }\n`),
    )
  return Promise.all(methods.map(startTool))
}

/** How often Temporal has begun the activity that the execution waits for. */
const attemptsOf = (workflowId: string) =>
  withRawClient(async (client) => {
    const { raw } = await client.workflow.getHandle(workflowId).describe()
    return raw.pendingActivities?.[0]?.attempt ?? 0
  }, own.started.running)

test('worker that stalls for longer than a lost one is noticed: the answer to a request that is not repeated counts', async () => {
  const posted = await start('/stalled-post', 'post')
  const got = await start('/stalled-repeated', 'post', ', delivery: at_least_once')
  await eventually(
    async () => (keys.has('/stalled-post') && keys.has('/stalled-repeated') ? true : undefined),
    30_000,
  )
  const { workflow_id } = await executions.read(got)
  await whileStopped(own.started, 'worker', async () => {
    // The other request is repeated: its worker counts as lost.
    await eventually(async () => ((await attemptsOf(workflow_id)) > 1 ? true : undefined), 60_000)
    unanswered.get('/stalled-post')?.end('done')
  })
  const [first, second] = await Promise.all([posted, got].map(endOf))
  expect([first.status, first.error, second.status]).toEqual(['completed', null, 'completed'])
  expect([keys.get('/stalled-post')?.length, keys.get('/stalled-repeated')?.length]).toEqual([1, 2])
})

test('worker killed during requests: POST is reported as unknown, GET and at_least_once are sent again', async () => {
  const [gotByTool = '', postedByTool = ''] = await startTools()
  const posted = await start('/post', 'post')
  const repeated = await start('/repeated', 'post', ', delivery: at_least_once')
  const got = await start('/get', 'get', ', headers: { x: y }')
  const once = await start('/once', 'get', ', delivery: at_most_once')
  await eventually(async () => (PATHS.every((path) => keys.has(path)) ? true : undefined), 30_000)
  killServer(own.started, 'worker')
  const elapsedMs = stopwatch()
  const ended = await Promise.all([posted, repeated, got, once].map(endOf))
  expect(elapsedMs()).toBeLessThan(60_000)
  expect(ended.map(({ status }) => status)).toEqual(['faulted', 'completed', 'completed', 'faulted'])
  expect(ended[0].error).toMatchObject({
    type: expect.stringMatching(/communication$/),
    code: 'outcome_unknown',
    detail: `POST ${origin}/post: the worker was lost before the answer arrived. The request may have arrived.`,
  })
  expect(ended[3].error).toMatchObject({ code: 'worker_lost' })
  expect([keys.get('/post')?.length, keys.get('/once')?.length]).toEqual([1, 1])
  const byTools = await Promise.all([gotByTool, postedByTool].map(endOf))
  expect(byTools.map(({ status }) => status)).toEqual(['completed', 'faulted'])
  expect(byTools[1].error).toMatchObject({ code: 'outcome_unknown' })
  expect([keys.get('/tool-get')?.length, keys.get('/tool-post')?.length]).toEqual([2, 1])
  const [first, second] = keys.get('/repeated') ?? []
  expect(first).toMatch(/^[0-9a-f-]{36}$/)
  expect(second).toBe(first)
})

/** The execution after its end; the platform may be slow while a worker starts. */
const endOf = (id: string) =>
  eventually(async () => {
    const run = await executions.read(id)
    return run.ended_at === null ? undefined : run
  }, 120_000)
