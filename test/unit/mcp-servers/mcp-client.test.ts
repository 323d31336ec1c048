/** The client of MCP servers against servers that answer too much, too late, something else, or ask back. */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import type { Problem } from '../../../src/core/problem.ts'
import type { Post } from '../../../src/features/mcp-servers/remote/mcp/json-rpc.ts'
import {
  callUpstreamTool,
  listUpstreamTools,
} from '../../../src/features/mcp-servers/remote/mcp/mcp-client.ts'
import { Egress } from '../../../src/infra/http-client/egress.ts'
import { McpUpstream, textResult, type UpstreamKind } from '../../support/servers/mcp-upstream.ts'

const BYTES_MAX = 1_000_000
const open: { close: () => unknown }[] = []
let owners = 0

afterEach(() => Promise.all(open.splice(0).map((one) => one.close())))

/** @returns a peer of its own, so that no other test's connection is used */
function peerOf(url: string, timeoutMs = 5_000) {
  const egress = new Egress([])
  const allowed = [new URL(url).host]
  const post: Post = (headers, body, { wantedPart }) =>
    egress.send(
      { method: 'POST', url: new URL(url), headers, body },
      { allowed },
      { timeoutMs, bytesMax: BYTES_MAX, ...(wantedPart && { wantedPart }) },
    )
  owners += 1
  return { owner: `test-${owners}`, post }
}

interface Message {
  readonly id?: number
  readonly method: string
}

/** Serves one handler, which gets the message of each request. @returns the URL */
async function serve(handle: (response: ServerResponse, message: Message) => void): Promise<string> {
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    let text = ''
    for await (const chunk of request) text += chunk
    handle(response, JSON.parse(text) as Message)
  }
  const server = createServer((request, response) => void answer(request, response))
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  open.push({ close: () => [server.closeAllConnections(), server.close()] })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

/** A server of 2026-07-28 whose calls are answered by hand. */
async function byHand(answer: (response: ServerResponse, message: Message) => void, timeoutMs?: number) {
  const url = await serve((response, message) => {
    if (message.method !== 'server/discover') return answer(response, message)
    reply(response, { resultType: 'complete', supportedVersions: ['2026-07-28'], capabilities: {} })
  })
  return peerOf(url, timeoutMs)
}

const rpc = (members: object) => JSON.stringify({ jsonrpc: '2.0', id: 1, ...members })

function reply(response: ServerResponse, result: object): void {
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(rpc({ result }))
}

const stream = (response: ServerResponse) => response.writeHead(200, { 'content-type': 'text/event-stream' })

const call = (peer: ReturnType<typeof peerOf>) => callUpstreamTool(peer, { name: 'any', args: {} })

const failure = (work: Promise<unknown>): Promise<Problem> =>
  work.then(
    () => expect.unreachable('it must fail'),
    (error: Problem) => error,
  )

test.each<UpstreamKind>(['modern', 'stateless', 'sessions'])(
  '%s: lists all pages, and calls',
  async (kind) => {
    const names = Array.from({ length: 7 }, (_, n) => `t${n}`)
    const upstream = await McpUpstream.open(
      kind,
      names.map((name) => ({ name, call: ({ a }) => textResult(`${name} ${a}`) })),
    )
    open.push(upstream)
    upstream.pageSize = 3
    const peer = peerOf(upstream.url)
    const tools = await listUpstreamTools(peer)
    expect(tools).toMatchObject(names.map((name) => ({ name })))
    expect((await callUpstreamTool(peer, { name: 't6', args: { a: 1 } })).result).toMatchObject(
      textResult('t6 1'),
    )
    expect((await callUpstreamTool(peer, { name: 'no', args: {} })).error).toMatchObject({
      message: expect.any(String),
    })
    // One probe, and one handshake of the older generation, for all requests.
    expect(upstream.requestsFor('server/discover')).toHaveLength(1)
    expect(upstream.requestsFor('initialize')).toHaveLength(kind === 'modern' ? 0 : 1)
  },
)

test('session that the server has forgotten: opened again, and the call is sent once', async () => {
  let calls = 0
  const upstream = await McpUpstream.open('sessions', [{ name: 'any', call: () => textResult(`${++calls}`) }])
  open.push(upstream)
  const peer = peerOf(upstream.url)
  expect((await call(peer)).result).toMatchObject(textResult('1'))
  upstream.forgetSessions()
  expect((await call(peer)).result).toMatchObject(textResult('2'))
  expect(upstream.requestsFor('initialize')).toHaveLength(2)
})

test('stream that stays open after the response: the response is used, the connection closed', async () => {
  let closed: Promise<unknown> | undefined
  const peer = await byHand((response) => {
    closed = new Promise((done) => response.once('close', done))
    stream(response)
    response.write(
      `event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress' })}\n\n`,
    )
    response.write(`data: ${rpc({ result: { resultType: 'complete', ...textResult('é') } })}\n\n`)
  })
  expect((await call(peer)).result).toMatchObject(textResult('é'))
  await closed
})

test.each<[string, (response: ServerResponse) => void, string, RegExp]>([
  ['hangs', () => {}, 'upstream_timeout', /has not answered within 0\.4 s/],
  [
    'streams notifications for ever',
    (response) => {
      stream(response)
      const timer = setInterval(() => response.write(`data: {"jsonrpc":"2.0","method":"n/p"}\n\n`), 20)
      response.once('close', () => clearInterval(timer))
    },
    'upstream_timeout',
    /has not answered/,
  ],
  [
    '50 MB of JSON',
    (response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(Buffer.alloc(50_000_000, 32))
    },
    'upstream_invalid',
    /maximum is 1000000/,
  ],
  [
    '50 MB in one event',
    (response) => {
      stream(response)
      response.end(Buffer.concat([Buffer.from('data: "'), Buffer.alloc(50_000_000, 97)]))
    },
    'upstream_invalid',
    /maximum is 1000000/,
  ],
  ['no JSON', (response) => void response.end('<html>'), 'upstream_invalid', /missing/],
  [
    'invalid JSON',
    (response) => void response.writeHead(200, { 'content-type': 'application/json' }).end('{"a":'),
    'upstream_invalid',
    /not valid JSON/,
  ],
  [
    'a member __proto__',
    (response) =>
      void response
        .writeHead(200, { 'content-type': 'application/json' })
        .end('{"jsonrpc":"2.0","id":1,"result":{"__proto__":{"isError":true}}}'),
    'upstream_invalid',
    /not valid JSON/,
  ],
  [
    'the response to another request',
    (response) =>
      void response
        .writeHead(200, { 'content-type': 'application/json' })
        .end('{"jsonrpc":"2.0","id":2,"result":{}}'),
    'upstream_invalid',
    /id of the response/,
  ],
  [
    'a batch',
    (response) =>
      void response.writeHead(200, { 'content-type': 'application/json' }).end(`[${rpc({ result: {} })}]`),
    'upstream_invalid',
    /id of the response/,
  ],
  [
    'asks for an elicitation in a stream',
    (response) => {
      stream(response)
      response.write(`data: ${JSON.stringify({ jsonrpc: '2.0', id: 9, method: 'elicitation/create' })}\n\n`)
    },
    'upstream_invalid',
    /asks for more \(elicitation\/create\)/,
  ],
  [
    'asks for input in its result',
    (response) => reply(response, { resultType: 'input_required', inputRequests: {} }),
    'upstream_invalid',
    /asks for more \(input_required\)/,
  ],
  [
    'returns a task',
    (response) => reply(response, { resultType: 'task', taskId: 'x' }),
    'upstream_invalid',
    /asks for more \(task\)/,
  ],
  [
    'redirects',
    (response) => void response.writeHead(307, { location: 'http://169.254.169.254/' }).end(),
    'upstream_invalid',
    /redirects \(307\)/,
  ],
  [
    'refuses the credentials',
    (response) => void response.writeHead(401, { 'www-authenticate': 'Bearer' }).end('{}'),
    'upstream_invalid',
    /refuses the credentials \(401\)/,
  ],
  [
    'closes the connection',
    (response) => void response.destroy(),
    'upstream_unavailable',
    /closed the connection/,
  ],
])('server that %s: a clear error (T43)', async (_what, answer, code, detail) => {
  const peer = await byHand(answer, code === 'upstream_timeout' ? 400 : 20_000)
  const error = await failure(call(peer))
  expect(error.code).toBe(code)
  expect(error.message).toMatch(detail)
})

test('lists without end, and too many tools: refused', async () => {
  const endless = await byHand((response) => reply(response, { tools: [], nextCursor: 'again' }))
  expect((await failure(listUpstreamTools(endless))).message).toMatch(/more than 50 pages/)
  const many = Array.from({ length: 501 }, (_, n) => ({ name: `t${n}`, inputSchema: { type: 'object' } }))
  const full = await byHand((response) => reply(response, { tools: many }))
  expect((await failure(listUpstreamTools(full))).message).toMatch(/more than 500 tools/)
})

test('server of an unknown version: refused', async () => {
  const url = await serve((response, { method }) => {
    if (method !== 'initialize') return void response.writeHead(404).end()
    const serverInfo = { name: 'x', version: '1' }
    reply(response, { protocolVersion: '2024-10-07', capabilities: {}, serverInfo })
  })
  expect((await failure(call(peerOf(url)))).message).toMatch(/2024-10-07, which is not known/)
})
