/** Calls of MCP sources that take long: their progress reaches the client, and an admin may allow a tool more time. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  callTool,
  createMcpWorkspace,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  scopesOf,
  tokenFor,
  withLegacyClient,
} from '../../support/clients/mcp.ts'
import { modernRpc } from '../../support/clients/mcp-modern.ts'
import { canary, storeSecret } from '../../support/fixtures/secrets.ts'
import { type Caller, call, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

const TOOL = { name: 'work', inputSchema: { type: 'object', properties: {} } }
const META = 'io.modelcontextprotocol/'

/** Progress as a server may report it, with what the protocol forbids in between. */
const reports = (progressToken: unknown, key: unknown) => [
  { progressToken, progress: 1, message: 'Read\u202e the\n files' },
  { progressToken, progress: 1, message: 'again' },
  { progressToken: 'another', progress: 2, message: 'of another call' },
  { progressToken, progress: 'much' },
  { progressToken, progress: 2.5, total: 3 },
  { progressToken, progress: 3, message: `${'.'.repeat(190)}${key}` },
]
const SHOWN = [
  { progress: 1, message: 'Read the files' },
  { progress: 2.5, message: 'The server of the tool is working.' },
  { progress: 3, message: `${'.'.repeat(190)}[redacted]` },
]

let upstream: Server
/** The `_meta` of the calls that arrived. */
const metas: Record<string, unknown>[] = []
let workspace: TestWorkspace
let server: PublishedMcpServer
let as: Caller

/** A server of 2026-07-28, or of `version` with a handshake, that streams reports before its result. */
function openUpstream(isModern: boolean): Server {
  return createServer((request, response) => void answer(request, response, isModern))
}

async function answer(request: IncomingMessage, response: ServerResponse, isModern: boolean): Promise<void> {
  let text = ''
  for await (const chunk of request) text += chunk
  const { id, method, params = {} } = JSON.parse(text)
  const json = (member: object) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...member }))
  }
  if (id === undefined) return void response.writeHead(202).end()
  if (method === 'server/discover')
    return json(
      isModern
        ? { result: { supportedVersions: ['2026-07-28'] } }
        : { error: { code: -32_601, message: 'unknown' } },
    )
  if (method === 'initialize') return json({ result: { protocolVersion: '2025-06-18' } })
  if (method === 'tools/list') return json({ result: { tools: [TOOL] } })
  metas.push(params._meta ?? {})
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const send = (message: object) =>
    response.write(`data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`)
  for (const report of reports(params._meta?.progressToken, request.headers['x-key']))
    send({ method: 'notifications/progress', params: report })
  send({ id, result: { content: [{ type: 'text', text: 'done' }] } })
  response.end()
}

describe.each([[true], [false]])('source of 2026-07-28: %s', (isModern) => {
  beforeAll(async () => {
    upstream = openUpstream(isModern)
    await new Promise<void>((done) => upstream.listen(0, '127.0.0.1', done))
    const host = `127.0.0.1:${(upstream.address() as AddressInfo).port}`
    workspace = await createMcpWorkspace()
    await configure(workspace, { egress: { allow: [host] } })
    await storeSecret(workspace, 'key', canary())
    const headers = { 'x-key': { secret: 'key' } }
    const body = { name: 'up', kind: 'mcp', url: `http://${host}/mcp`, headers }
    const path = `/v1/mcp/workspaces/${workspace.workspaceId}/sources`
    await ok(call('POST', path, { as: workspace.operator, body }))
    server = await publishMcpServer(workspace, 'works', { 'mcp:up:work': { enabled: true } })
    as = await tokenFor(server, scopesOf(server, 'up_work'))
  })
  afterAll(() => new Promise((done) => upstream.close(done)))

  test('client with a progress token: gets each report that grows, without credentials, before the result', async () => {
    const params = { name: 'up_work', arguments: {} }
    const { message, notifications } = await modernRpc(server.path, as, 'tools/call', params, {
      progressToken: 'mine',
    })
    expect(message['result'].content[0].text).toContain('done')
    expect(notifications.map((one) => one['params'])).toEqual(
      SHOWN.map((one) => ({ ...one, progressToken: 'mine' })),
    )
    const seen: unknown[] = []
    await withLegacyClient(server.url, as, (client) =>
      client.callTool(params, undefined, { onprogress: (one) => void seen.push(one) }),
    )
    expect(seen).toEqual(SHOWN)
  })

  test('client without a progress token: the source is asked for none', async () => {
    metas.length = 0
    await callTool(server.path, as, 'up_work')
    expect(Object.keys(metas[0] ?? { none: 1 }).filter((name) => !name.startsWith(META))).toEqual([])
  })
})
