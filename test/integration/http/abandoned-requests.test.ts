/** Requests whose client goes away at any point: each ends once, with a line of the log, in the metrics, and in the figures of its workspace. */

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openLog } from '../../../src/infra/log.ts'
import type { LogLine } from '../../support/clients/logs.ts'
import { seriesOf, sumOf } from '../../support/clients/metrics.ts'
import { closeSubscriptions, subscribeToEvents } from '../../support/clients/sse.ts'
import {
  call,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

/** More than the buffers of a connection hold. */
const OBJECT = 'x'.repeat(24 * 1_048_576)

const logged: LogLine[] = []
let node: Node
let workspace: TestWorkspace
let bucket: string
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
  const log = openLog('info', 'test', { write: (text) => void logged.push(JSON.parse(text)) })
  node = await startInProcessNode({ TENON_OPS_LISTEN: '127.0.0.1:0' }, undefined, { log })
  const headers = { 'content-type': 'text/plain' }
  const path = `/v1/objects/${bucket}/large`
  const stored = await call('PUT', path, { as: workspace.service, body: OBJECT, headers, at: node.at })
  expect(stored.status).toBeLessThan(300)
})
afterAll(() => node?.close())

const open = (): Socket => {
  const { hostname, port } = new URL(node.at.url)
  return connect(Number(port), hostname)
}

/** The head of a request, with the key of the workspace. */
function head(method: string, path: string, headers: Readonly<Record<string, string>> = {}): string {
  const all = { host: 'tenon.test', ...workspace.service, ...headers }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`
}

const scrape = async () => seriesOf(await node.platform.metrics.scrape())
const inFlight = async () => sumOf(await scrape(), 'tenon_http_requests_in_flight')
const listeners = async () => sumOf(await scrape(), 'tenon_event_listeners')

/** All requests by the class of their status. */
async function counted(): Promise<Readonly<Record<string, number>>> {
  const series = (await scrape()).filter(({ name }) => name === 'tenon_http_requests_total')
  const statuses = [...new Set(series.map(({ labels }) => labels['status'] ?? ''))]
  return Object.fromEntries(
    statuses.map((status) => [status, sumOf(series, 'tenon_http_requests_total', { status }) ?? 0]),
  )
}

const IMPORT = '/v1/collections/kept/import'
const STREAM = '/v1/events/subscribe'
const large = () => `/v1/objects/${bucket}/large`

/** Requests of one connection, a text that shows that the server is at work, and how each of them ends. */
const CASES = [
  {
    title: 'while its body is read',
    sent: () =>
      head('POST', IMPORT, {
        'content-type': 'application/x-ndjson',
        'content-length': '1000',
        expect: '100-continue',
      }),
    until: '100 Continue',
    ends: () => [{ path: IMPORT, status: 499, incomplete: undefined }],
  },
  {
    title: 'while an event stream is open',
    sent: () => head('GET', `${STREAM}?topic=quiet`),
    until: 'event: ready',
    ends: () => [{ path: STREAM, status: 200, incomplete: undefined }],
  },
  {
    title: 'in the middle of the response',
    sent: () => head('GET', large()),
    until: 'xxxx',
    ends: () => [{ path: large(), status: 200, incomplete: true }],
  },
  {
    title: 'while a request and a stream wait behind another request (pipelining)',
    sent: () => head('GET', large()) + head('GET', `${STREAM}?topic=quiet`) + head('GET', '/v1/me'),
    until: 'xxxx',
    ends: () => [
      { path: large(), status: 200, incomplete: true },
      // Its head may not be written yet.
      { path: STREAM, status: expect.toBeOneOf([200, 499]), incomplete: undefined },
      { path: '/v1/me', status: 200, incomplete: true },
    ],
  },
] as const

test.each(CASES)('client goes away $title: each request ends once', async ({ sent, until, ends }) => {
  const before = await counted()
  const loggedBefore = logged.length
  const socket = open()
  socket.write(sent())
  let received = ''
  socket.on('data', (data) => {
    received += data.toString('latin1')
    if (received.includes(until)) socket.pause()
  })
  const expected = ends()
  await eventually(async () => ((await inFlight()) === expected.length ? true : undefined))
  await eventually(async () => (received.includes(until) ? true : undefined))
  socket.destroy()
  await eventually(async () => ((await inFlight()) === 0 ? true : undefined))
  // A handler that still runs ends its response after the connection, too.
  await call('GET', '/v1/me', { as: workspace.service, at: node.at })
  const lines = logged.slice(loggedBefore).filter(({ msg }) => msg === 'request')
  expect(lines).toHaveLength(expected.length + 1)
  const ended = lines.map(({ path, status, incomplete }) => ({ path, status, incomplete }))
  expect(ended).toEqual(expect.arrayContaining(expected))
  const abandoned = lines.filter(({ status }) => status === 499).length
  await eventually(async () => ((await listeners()) === 0 ? true : undefined))
  expect(await counted()).toEqual({
    ...before,
    '2xx': (before['2xx'] ?? 0) + lines.length - abandoned,
    ...(abandoned > 0 && { '4xx': (before['4xx'] ?? 0) + abandoned }),
  })
})

test('client goes away before its event stream is open: the stream ends', async () => {
  const loggedBefore = logged.length
  const requests = 10
  for (let sent = 0; sent < requests; sent++) {
    const socket = open()
    await once(socket, 'connect')
    socket.write(head('GET', `${STREAM}?topic=quiet`), () => socket.destroy())
  }
  await eventually(async () => (logged.length - loggedBefore >= requests ? true : undefined))
  // When a later stream is open, those before would be.
  await subscribeToEvents(workspace.service, 'topic=quiet', {}, node.at)
  await eventually(async () => ((await listeners()) === 1 ? true : undefined))
  closeSubscriptions()
  await eventually(async () => ((await inFlight()) === 0 ? true : undefined))
})

test('usage of a workspace: its clients have gone away: their requests are counted', async () => {
  const path = `/v1/usage/query?metric=requests&workspace_id=${workspace.workspaceId}&window=1h&step=1m`
  // A stream counts as it opens, and any other request once its workspace is known.
  const ended = logged.filter(
    ({ workspace: of, path: at, status }) => of !== undefined || (at === STREAM && status === 200),
  )
  await eventually(async () => {
    const { body } = await call('GET', path, { as: workspace.operator })
    const series: readonly { readonly points: readonly (readonly [string, number | null])[] }[] = body.series
    const counts = series.flatMap(({ points }) => points.map(([, count]) => count ?? 0))
    return counts.reduce((sum, count) => sum + count, 0) === ended.length ? true : undefined
  })
})
