/** Plain calls of tools, answered by our own code and by the SDKs of both generations of the protocol: the responses are equal. */

import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Problem } from '../../../src/core/problem.ts'
import type { CallClient } from '../../../src/features/mcp-servers/calls/call-client.ts'
import { MISSING_CAPABILITY, RpcRefusal } from '../../../src/features/mcp-servers/calls/client-requests.ts'
import type { McpServer } from '../../../src/mcp/protocol/mcp-server.ts'
import { plainCall } from '../../../src/mcp/protocol/plain-call.ts'
import { serveLegacy } from '../../../src/mcp/protocol/serve-legacy.ts'
import { serveModern } from '../../../src/mcp/protocol/serve-modern.ts'
import type { Exchange } from '../../../src/mcp/protocol/serving.ts'
import { isModern, serve } from '../../../src/mcp/protocol/transport.ts'

const META = 'io.modelcontextprotocol/'
const TASKS = `${META}tasks`
const FORM = {
  method: 'elicitation/create',
  params: {
    mode: 'form',
    message: 'How many?',
    requestedSchema: { type: 'object', properties: { n: { type: 'integer' } } },
  },
}
const text = (of: string) => ({ type: 'text' as const, text: of })
const resource = { uri: 'tenon://a', mimeType: 'text/plain' }

/** Results and errors of the tools, by name. */
const TOOLS: Record<string, () => unknown> = {
  text: () => ({ content: [text('ä\u2028"\\')], isError: false }),
  structured: () => ({
    content: [text('1')],
    structuredContent: { n: 1, deep: { list: [null, 1e21] } },
    isError: false,
  }),
  failed: () => ({ content: [text('no')], isError: true, _meta: { 'tenon/x': 1 } }),
  media: () => ({
    content: [
      { type: 'image', data: 'AAAA', mimeType: 'image/png' },
      { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' },
      { type: 'resource', resource: { ...resource, text: 'x' } },
      { type: 'resource', resource: { ...resource, blob: 'AAAA' } },
      { type: 'resource_link', name: 'a', title: 'A', description: 'd', size: 5, ...resource },
    ],
    isError: false,
  }),
  empty: () => ({ content: [], isError: false }),
  missing: () => undefined,
  refused: () => {
    throw new RpcRefusal(-32_602, 'not so', { field: 'n' })
  },
  incapable: () => {
    throw new RpcRefusal(MISSING_CAPABILITY, 'needs', { requiredCapabilities: { elicitation: { form: {} } } })
  },
  forbidden: () => {
    throw new Problem('forbidden', { detail: 'No.' })
  },
  unavailable: () => {
    throw new Problem('dependency_unavailable')
  },
}
const WITH_INPUT: typeof TOOLS = {
  input: () => ({ resultType: 'input_required', inputRequests: { a: FORM }, requestState: 'sealed' }),
}

/** How the tool was called last. */
let called: unknown
const server: McpServer = {
  name: 'desk',
  version: '3',
  tools: () => [],
  call: async (tool, args, { signal, ...client }: CallClient) => {
    called = { tool, args, client: JSON.parse(JSON.stringify(client)), signal: signal?.aborted }
    return (TOOLS[tool] ?? WITH_INPUT[tool])?.() as Awaited<ReturnType<McpServer['call']>>
  },
}

const bySdk = (exchange: Exchange) =>
  isModern(exchange.body, exchange.request.headers['mcp-protocol-version'])
    ? serveModern(exchange, server)
    : serveLegacy(exchange, server)

const listener = (answer: (exchange: Exchange) => Promise<void>): Server =>
  createServer((request, response) => {
    json(request)
      .then((body) => answer({ request, response, body }))
      .catch((error: Error) => response.writeHead(500).end(error.name))
  })

let http: Server
let isPlain: boolean
beforeAll(async () => {
  http = listener((exchange) => {
    isPlain = plainCall(exchange, server) !== undefined
    return exchange.request.url === '/sdk' ? bySdk(exchange) : serve(exchange, server)
  })
  await new Promise<void>((listening) => http.listen(0, '127.0.0.1', listening))
})
afterAll(() => http.close())

interface Sent {
  readonly params: Record<string, unknown>
  readonly more?: object
  readonly headers?: Record<string, string>
}

async function answers({ params, more, headers }: Sent) {
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  const body = JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'tools/call', params, ...more })
  const all = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...headers,
  }
  const answered = async (path: string) => {
    called = undefined
    const response = await fetch(`${url}${path}`, { method: 'POST', headers: all, body })
    const type = response.headers.get('content-type')
    const answer = await response.text()
    return { status: response.status, type, body: answer === '' ? '' : parsed(answer), called }
  }
  return { plain: await answered('/'), sdk: await answered('/sdk') }
}

const parsed = (answer: string): unknown => JSON.parse(answer.replace(/^event: message\ndata: /, ''))

const legacy = (name: string, args?: object): Sent => ({ params: { name, ...(args && { arguments: args }) } })

function modern(name: string, capabilities: object = {}, meta: object = {}): Sent {
  const envelope = { [`${META}protocolVersion`]: '2026-07-28', [`${META}clientCapabilities`]: capabilities }
  return {
    params: { name, arguments: { n: 1 }, _meta: { ...envelope, ...meta } },
    headers: { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': name },
  }
}

const ELICITS = { elicitation: { form: {}, url: {} }, sampling: {}, roots: { listChanged: true } }
const CLIENT = { [`${META}clientInfo`]: { name: 'agent', version: '1', title: 'Agent' } }

test.each([
  ...Object.keys(TOOLS).flatMap((name): [string, Sent][] => [
    [`2025: ${name}`, legacy(name, { n: 1 })],
    [`2026: ${name}`, modern(name, {}, CLIENT)],
    [`2026, with capabilities: ${name}`, modern(name, ELICITS)],
  ]),
  ['2025: without arguments', legacy('text')],
  ['2025: version named', { ...legacy('text'), headers: { 'mcp-protocol-version': '2025-06-18' } }],
  ['2025: id is a text', { ...legacy('text'), more: { id: 'a' } }],
  ['2026: requests of the tool', modern('input', ELICITS)],
])('%s: answered here as the SDK answers', async (_what, sent) => {
  const { plain, sdk } = await answers(sent)
  expect(isPlain).toBe(true)
  expect(plain).toEqual(sdk)
  expect(plain.called).toMatchObject({ args: sent.params['arguments'] ?? {}, signal: false })
})

const without = ({ headers = {}, ...sent }: Sent, name: string): Sent => ({
  ...sent,
  headers: Object.fromEntries(Object.entries(headers).filter(([header]) => header !== name)),
})
const withHeaders = ({ headers, ...sent }: Sent, more: Record<string, string>): Sent => ({
  ...sent,
  headers: { ...headers, ...more },
})

test.each<[string, Sent]>([
  ['2025: unknown member', { ...legacy('text'), more: { extra: 1 } }],
  ['2025: no version of JSON-RPC', { ...legacy('text'), more: { jsonrpc: '1.0' } }],
  ['2025: id is null', { ...legacy('text'), more: { id: null } }],
  ['2025: id is no integer', { ...legacy('text'), more: { id: 1.5 } }],
  ['2025: name is a number', { params: { name: 1 } }],
  ['2025: arguments are null', { params: { name: 'text', arguments: null } }],
  ['2025: asks for progress', { params: { name: 'text', _meta: { progressToken: 1 } } }],
  ['2025: asks for a task', { params: { name: 'text', task: { ttl: 1 } } }],
  ['2025: takes no stream', withHeaders(legacy('text'), { accept: 'application/json' })],
  ['2025: unknown version', withHeaders(legacy('text'), { 'mcp-protocol-version': '2020-01-01' })],
  [
    '2025: media type with a parameter',
    withHeaders(legacy('text'), { 'content-type': 'application/json; charset=utf-8' }),
  ],
  ['2026: other name in the header', withHeaders(modern('text'), { 'mcp-name': 'failed' })],
  ['2026: other method in the header', withHeaders(modern('text'), { 'mcp-method': 'tools/list' })],
  ['2026: no name in the header', without(modern('text'), 'mcp-name')],
  ['2026: no method in the header', without(modern('text'), 'mcp-method')],
  ['2026: no version in the header', without(modern('text'), 'mcp-protocol-version')],
  ['2026: name in base64', withHeaders(modern('text'), { 'mcp-name': '=?base64?dGV4dA==?=' })],
  ['2026: name that looks like base64', modern('=?base64?dGV4dA==?=')],
  ['2026: later version', modern('text', {}, { [`${META}protocolVersion`]: '2030-01-01' })],
  ['2026: capabilities are a list', modern('text', [])],
  ['2026: invalid capabilities', modern('text', { elicitation: 5 })],
  ['2026: invalid client', modern('text', {}, { [`${META}clientInfo`]: { name: 1 } })],
  ['2026: asks for progress', modern('text', {}, { progressToken: 'p' })],
  ['2026: asks for log messages', modern('text', {}, { [`${META}logLevel`]: 'debug' })],
  ['2026: takes tasks', modern('text', { extensions: { [TASKS]: {} } })],
  ['2026: responses to requests', { ...modern('text', ELICITS), more: {} }],
])('%s: left to the SDK', async (what, sent) => {
  const responses = { inputResponses: { a: { action: 'accept', content: { n: 1 } } }, requestState: 'sealed' }
  const isRepeated = what.includes('responses')
  const { plain, sdk } = await answers(
    isRepeated ? { ...sent, params: { ...sent.params, ...responses } } : sent,
  )
  expect(isPlain).toBe(false)
  expect(plain.status).toBe(what.includes('arguments are null') ? 400 : sdk.status)
})

test('internal error of a call: not shown', async () => {
  const broken = { ...server, call: () => Promise.reject(new TypeError('SELECT secret')) }
  const failing = listener((exchange) => serve(exchange, broken))
  await new Promise<void>((listening) => failing.listen(0, '127.0.0.1', listening))
  const { port } = failing.address() as AddressInfo
  const { params, headers } = modern('text')
  const init = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...headers,
  }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
  const response = await fetch(`http://127.0.0.1:${port}`, { method: 'POST', headers: init, body })
  expect([response.status, await response.text()]).toEqual([500, 'TypeError'])
  failing.close()
})
