/** The era of 2026-07-28, by SDK 2.x: no handshake, no sessions, one server a request. */

import { toNodeHandler } from '@modelcontextprotocol/node'
import {
  createMcpHandler,
  type ListToolsResult,
  ProtocolError,
  ProtocolErrorCode,
  Server,
} from '@modelcontextprotocol/server'
import { ASKS_NOTHING, type Serve, type WireServer } from './wire-server.ts'

export const serveModern: Serve = async ({ request, response, body }, server) => {
  const { method, id = null } = (body ?? {}) as { method?: unknown; id?: unknown }
  // Nothing is announced, so there is nothing to listen to: no stream is held open for it.
  if (method === 'subscriptions/listen') {
    const error = { code: ProtocolErrorCode.MethodNotFound, message: 'Method not found' }
    response.writeHead(404, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ jsonrpc: '2.0', id, error }))
    return
  }
  const handler = createMcpHandler(() => serverOf(server), { legacy: 'reject' })
  const node = toNodeHandler(handler)
  // Node's own classes type their optional members in a way that exactOptionalPropertyTypes refuses.
  await node(request as Parameters<typeof node>[0], response as Parameters<typeof node>[1], body)
}

function serverOf({ name, version, instructions, tools, call }: WireServer): Server {
  const server = new Server(
    { name, version },
    { capabilities: { tools: {} }, jsonSchemaValidator: ASKS_NOTHING, ...(instructions && { instructions }) },
  )
  // What a client is shown depends on its token: nobody may keep it for others.
  server.setRequestHandler('tools/list', async () => ({
    tools: tools as unknown as ListToolsResult['tools'],
    ttlMs: 0,
    cacheScope: 'private' as const,
  }))
  server.setRequestHandler('tools/call', async ({ params }) => {
    const result = await call(params.name, params.arguments ?? {})
    if (result === undefined)
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'There is no such tool.')
    return { ...result }
  })
  return server
}
