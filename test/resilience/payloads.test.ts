// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Object store crashes or hangs while executions carry large payloads: no execution is lost, each effect happens once. */

import { randomBytes } from 'node:crypto'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, type TestWorkspace } from '../support/fixtures/tenants.ts'
import { killServer, type OwnPlatform, sharedPlatform, whileStopped } from '../support/stack/own-platform.ts'
import type { Started } from '../support/stack/start.ts'

let own: OwnPlatform
let started: Started
let workspace: TestWorkspace
let server: Server
let pendingResponses: ServerResponse[] = []

beforeAll(async () => {
  own = await sharedPlatform()
  started = own.started
  workspace = own.workspace
  server = createServer((_request, response) => pendingResponses.push(response))
  const port = started.running.echoPorts[0] ?? 0
  await new Promise<void>((done) => server.listen(port, '127.0.0.1', done))
  const tasks = `  - got: { call: http, with: { method: post, endpoint: 'http://127.0.0.1:${port}/' } }
  - heard: { listen: { to: { one: { with: { type: told } } } } }
  - both: { set: { x: '\${ $workflow.input.x }', heard: '\${ .[0].x }' } }`
  const source = `document: { dsl: '1.0.3', namespace: n, name: large, version: '1.0.0' }\ndo:\n${tasks}`
  const made = await call('POST', `${workspace.flows}/definitions`, { source })
  expect(made.body.diagnostics).toEqual([])
  await call('POST', `${workspace.flows}/definitions/large/versions`, {})
})
afterAll(async () => {
  server?.close()
  await own?.end()
})

const call = (method: string, path: string, body?: unknown) =>
  own.call(method, path, { as: workspace.operator, ...(body !== undefined && { body }) })
const textOf = (bytes: number) => randomBytes(bytes).toString('base64').slice(0, bytes)
const start = (x: string) => call('POST', `${workspace.flows}/definitions/large/executions`, { input: { x } })
const until = (id: string, statuses: readonly string[]) =>
  eventually(async () => {
    const { body } = await call('GET', `${workspace.flows}/executions/${id}`)
    return statuses.includes(body.status) ? body : undefined
  }, 90_000)

const killStore = () => killServer(started, 'seaweedfs')

test('object store down when a call returns a large result: the execution continues afterwards, the call is made once', async () => {
  const x = textOf(300_000)
  const { body: run } = await start(x)
  const [response] = await eventually(
    async () => (pendingResponses.length > 0 ? pendingResponses : undefined),
    60_000,
  )
  killStore()
  response?.setHeader('content-type', 'application/json').end(JSON.stringify(textOf(300_000)))
  const waiting = await until(run.id, ['waiting', 'faulted'])
  expect([waiting.status, waiting.error]).toEqual(['waiting', null])
  expect(pendingResponses).toHaveLength(1)
  killStore()
  const event = { type: 'told', data: { x: textOf(300_000) } }
  const statuses = new Set<number>()
  await eventually(async () => {
    const { status } = await call('POST', `${workspace.flows}/executions/${run.id}/signal`, { event })
    statuses.add(status)
    return status === 202 ? true : undefined
  }, 60_000)
  expect([...statuses].filter((status) => status !== 202 && status !== 503)).toEqual([])
  const done = await until(run.id, ['completed', 'faulted'])
  expect([done.status, done.output.x === x, done.output.heard === event.data.x]).toEqual([
    'completed',
    true,
    true,
  ])
})

test('object store down at a start: the execution is pending, and runs once the store is back', async () => {
  pendingResponses = []
  killStore()
  const { status, body: run } = await start(textOf(300_000))
  expect([status, run.status]).toEqual([201, 'pending'])
  await eventually(async () => (pendingResponses.length > 0 ? true : undefined), 60_000)
  expect((await until(run.id, ['running', 'faulted'])).status).toBe('running')
  expect(pendingResponses).toHaveLength(1)
})

/** Longer than a request waits for the store. */
const WAIT_MS = 20_000

test('object store hangs: a start is answered in time, a call with a large result continues afterwards', async () => {
  pendingResponses = []
  const x = textOf(300_000)
  const { body: run } = await start(x)
  await eventually(async () => (pendingResponses.length > 0 ? true : undefined), 60_000)
  await whileStopped(started, 'seaweedfs', async () => {
    pendingResponses[0]?.setHeader('content-type', 'application/json').end(JSON.stringify(textOf(300_000)))
    const late = await Promise.race([start(textOf(300_000)), pause(WAIT_MS, undefined, { ref: false })])
    expect([late?.status, late?.body.status]).toEqual([201, 'pending'])
    expect((await call('POST', `${workspace.flows}/executions/${late?.body.id}/cancel`, {})).status).toBe(202)
  })
  const waiting = await until(run.id, ['waiting', 'faulted'])
  expect([waiting.status, waiting.error, pendingResponses.length]).toEqual(['waiting', null, 1])
})
