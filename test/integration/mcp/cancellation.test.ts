/** Calls that their client cancels: by a notification of its session (up to 2025-11-25), by closing the request (2026-07-28). */

import { Agent, request } from 'node:http'
import type { Socket } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  type CallEntry,
  callsOf,
  callTool,
  createMcpWorkspace,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  RPC,
  rpc,
  scopesOf,
  tokenFor,
} from '../../support/clients/mcp.ts'
import { type Message, readMessages, sendModern } from '../../support/clients/mcp-modern.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { type Caller, call, eventually, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { McpUpstream, textResult } from '../../support/servers/mcp-upstream.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

const SLEEPS = `export default async () => {
  await new Promise((done) => setTimeout(done, 600))
  return 'slept'
}`
const ASKS = `export default () => ({
  resultType: 'input_required',
  inputRequests: { it: { method: 'elicitation/create', params: {
    message: 'Well?', requestedSchema: { type: 'object', properties: { name: { type: 'string' } } } } } },
})`
const WAITS = { topics: ['orders.none'], wait_seconds: 25 }

let workspace: TestWorkspace
let server: PublishedMcpServer
let upstream: McpUpstream
let as: Caller
let answerUpstream = () => {}

beforeAll(async () => {
  const answer = () =>
    new Promise<object>((done) => {
      answerUpstream = () => done(textResult('late'))
    })
  upstream = await McpUpstream.open('stateless', [{ name: 'slow', call: answer }])
  workspace = await createMcpWorkspace()
  const { operator, workspaceId: workspace_id } = workspace
  await configure(workspace, { egress: { allow: [upstream.host] }, experimental: ['mcp.flow_tools'] })
  const source = { name: 'up', kind: 'mcp', url: upstream.url, headers: {} }
  await ok(call('POST', `/v1/mcp/workspaces/${workspace_id}/sources`, { as: operator, body: source }))
  for (const [name, code] of [
    ['sleep', SLEEPS],
    ['ask', ASKS],
  ]) {
    const body = { workspace_id, name, source: code }
    await ok(call('POST', '/v1/functions', { as: operator, body }))
  }
  await new Executions(workspace).publish('  - rest: { wait: { seconds: 300 } }\n', { name: 'nap' })
  const candidates = [
    'functions:ask:invoke',
    'flows:nap:run',
    'collections:notes:list',
    'events:stream:read',
    'functions:sleep:invoke',
    'mcp:up:slow',
  ]
  const tools = Object.fromEntries(candidates.map((one) => [one, { enabled: true }]))
  server = await publishMcpServer(workspace, 'cancelled', tools)
  as = await tokenFor(
    server,
    scopesOf(server, 'notes_list', 'event_read', 'call_sleep', 'call_ask', 'run_nap', 'up_slow'),
  )
})
afterAll(() => upstream.close())

async function beginSession(capabilities = {}): Promise<Caller> {
  const { headers } = await rpc(server.path, as, 'initialize', {
    protocolVersion: '2025-11-25',
    capabilities,
    clientInfo: { name: 'a', version: '1' },
  })
  return { ...as, 'mcp-session-id': headers.get('mcp-session-id') ?? '' }
}

const cancelled = (requestId: unknown) => ({
  jsonrpc: '2.0',
  method: 'notifications/cancelled',
  params: { requestId },
})
const cancel = async (session: Caller, requestId: unknown) =>
  (await call('POST', server.path, { as: session, body: cancelled(requestId), headers: RPC })).status

/** A later call of the same client has been answered, so the server has the earlier one. */
const begun = () => callTool(server.path, as, 'notes_list')

/** Sends a call of a tool. @returns a function by which the client cancels it, and the text of the response, empty if there is none */
type Send = (name: string, args: object) => Promise<{ stop: () => Promise<void>; text: Promise<string> }>

/** @param meta makes the call one that the SDK answers, in a stream */
const inSession =
  (meta: object): Send =>
  async (name, args) => {
    const session = await beginSession()
    const params = { name, arguments: args, ...meta }
    const text = rpc(server.path, session, 'tools/call', params, 'seven').then(({ body }) =>
      typeof body === 'string' ? body : JSON.stringify(body),
    )
    await begun()
    const stop = async () => {
      expect(await cancel(session, 'seven')).toBe(202)
    }
    return { stop, text }
  }

const closing: Send = async (name, args) => {
  const disconnect = new AbortController()
  const params = { name, arguments: args }
  const sent = sendModern(server.path, as, 'tools/call', params, { signal: disconnect.signal })
  const text = sent.then(
    (response) => response.text(),
    () => '',
  )
  await begun()
  return { stop: async () => disconnect.abort(), text }
}

const WAYS: Readonly<Record<string, Send>> = {
  'notification in a session': inSession({}),
  'notification in a session, stream': inSession({ _meta: { progressToken: 1 } }),
  'closed request': closing,
}

const entriesOf = (tool: string) => callsOf(server, `&tool=${tool}`)
/** The entry of the newest call of a tool, once there are so many. */
const entryOf = (tool: string, count: number): Promise<CallEntry> =>
  eventually(async () => {
    const entries = await entriesOf(tool)
    return entries.length >= count ? entries[0] : undefined
  })

test.each(Object.entries(WAYS))(
  '%s: event_read stops waiting; recorded as a call that found nothing',
  async (_way, send) => {
    const before = (await entriesOf('event_read')).length
    const { stop, text } = await send('event_read', WAITS)
    expect(await entriesOf('event_read')).toHaveLength(before)
    await stop()
    const entry = await entryOf('event_read', before + 1)
    expect(entry).toMatchObject({ outcome: 'ok', transport_status: 200, code: null })
    expect(Number(entry['duration_ms'])).toBeLessThan(WAITS.wait_seconds * 500)
    expect(await text).toBe('')
  },
)

test.each(Object.entries(WAYS))(
  '%s: a flow is waited for no longer; its execution goes on',
  async (_way, send) => {
    const before = (await entriesOf('run_nap')).length
    const { stop } = await send('run_nap', {})
    await stop()
    const entry = await entryOf('run_nap', before + 1)
    expect(entry).toMatchObject({ outcome: 'ok', code: null })
    expect(Number(entry['duration_ms'])).toBeLessThan(12_000)
    const { data } = await ok(
      call('GET', `${workspace.flows}/executions?flow=nap`, { as: workspace.operator }),
    )
    expect(data).toHaveLength(before + 1)
    for (const { status } of data) expect(['pending', 'running', 'waiting']).toContain(status)
  },
)

test.each([{}, { _meta: { progressToken: 1 } }])(
  'notification in a session, %j: its connection stays open for the next request',
  async (meta) => {
    const session = await beginSession()
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const post = (body: object) =>
      new Promise<Socket>((done, failed) => {
        const headers = { ...session, ...RPC, 'content-type': 'application/json' }
        request(server.url, { agent, method: 'POST', headers }, (response) => {
          const { socket } = response
          response
            .resume()
            .once('error', failed)
            .once('end', () => done(socket))
        })
          .once('error', failed)
          .end(JSON.stringify({ jsonrpc: '2.0', ...body }))
      })
    const params = { name: 'event_read', arguments: WAITS, ...meta }
    const ended = post({ id: 'nine', method: 'tools/call', params })
    await begun()
    expect(await cancel(session, 'nine')).toBe(202)
    const socket = await ended
    expect(await post({ id: 'ten', method: 'ping' })).toBe(socket)
    agent.destroy()
  },
)

test('notification in a session: an answer of the user is waited for no longer', async () => {
  const session = await beginSession({ elicitation: {} })
  const params = { name: 'call_ask', arguments: {} }
  const response = await fetch(server.url, {
    method: 'POST',
    headers: { ...session, ...RPC, 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 8, method: 'tools/call', params }),
  })
  const messages: Message[] = []
  const ended = readMessages(response, (message) => messages.push(message))
  expect(await eventually(async () => messages[0])).toMatchObject({ method: 'elicitation/create' })
  expect(await cancel(session, 8)).toBe(202)
  await ended
  expect(messages).toHaveLength(1)
  expect(await entriesOf('call_ask')).toMatchObject([{ outcome: 'ok' }])
})

test.each(Object.entries(WAYS))(
  '%s: a function runs to its end, and is recorded with it',
  async (_way, send) => {
    const before = (await entriesOf('call_sleep')).length
    const { stop, text } = await send('call_sleep', {})
    await stop()
    const entry = await entryOf('call_sleep', before + 1)
    expect(entry).toMatchObject({ outcome: 'ok', code: null })
    expect(Number(entry['duration_ms'])).toBeGreaterThanOrEqual(600)
    expect(await text).toBe('')
  },
)

test.each(Object.entries(WAYS))(
  '%s: a request to another server is neither cut off nor repeated',
  async (_way, send) => {
    const before = (await entriesOf('up_slow')).length
    const sent = upstream.requestsFor('tools/call').length
    const { stop, text } = await send('up_slow', {})
    await eventually(async () => upstream.requestsFor('tools/call')[sent])
    await stop()
    await begun()
    expect(await entriesOf('up_slow')).toHaveLength(before)
    answerUpstream()
    expect(await entryOf('up_slow', before + 1)).toMatchObject({ outcome: 'ok', code: null })
    expect(upstream.requestsFor('tools/call')).toHaveLength(sent + 1)
    expect(upstream.requestsFor('notifications/cancelled')).toEqual([])
    expect(await text).toBe('')
  },
)

test('notification of another session, of none, or of another id: cancels nothing', async () => {
  const { text, stop } = await inSession({})('event_read', WAITS)
  const other = await beginSession()
  for (const [session, id] of [
    [other, 'seven'],
    [as, 'seven'],
    [other, null],
    [other, { toString: 1 }],
  ] as const)
    expect(await cancel(session, id)).toBeLessThan(500)
  const body = { topic: 'orders.none', data: { n: 1 } }
  await ok(call('POST', '/v1/events/publish', { as: workspace.service, body }))
  expect(await text).toContain('"n":1')
  // The call has ended: there is nothing to cancel.
  await stop()
})
