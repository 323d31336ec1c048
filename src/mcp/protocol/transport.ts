/**
 * Transport of MCP: serves one POST with one MCP server, by the SDK of the protocol version that the request names. SDK 1.x
 * serves the versions up to 2025-11-25, SDK 2.x those from 2026-07-28, which have no handshake and no sessions.
 */

import type { IncomingHttpHeaders } from 'node:http'
import { PROTOCOL_VERSION_META_KEY } from '@modelcontextprotocol/server'
import { isObject } from '../../core/json.ts'
import { INVALID_PARAMS } from '../../features/mcp-servers/calls/client-requests.ts'
import type { ClientResponse, McpServer } from './mcp-server.ts'
import { serveLegacy } from './serve-legacy.ts'
import { serveModern } from './serve-modern.ts'
import type { Exchange } from './serving.ts'

const FIRST_MODERN = '2026-07-28'

/** The JSON-RPC code for what is no single message, or no valid one. */
export const INVALID_REQUEST = -32_600

/** Answers a request in its protocol version. */
export function serve(exchange: Exchange, server: McpServer): Promise<void> {
  const header = exchange.request.headers['mcp-protocol-version']
  if (isResponse(exchange.body)) return takeAnswer(exchange, server)
  const fault = faultIn(exchange.body)
  if (fault !== undefined) return refuse(exchange, fault)
  const served = Object(exchange.body).method === 'tools/call' ? forCall(server) : server
  return isModern(exchange.body, header) ? serveModern(exchange, served) : serveLegacy(exchange, served)
}

/** A server without what a call does not use: each request has a server of its own. */
const forCall = ({
  name,
  version,
  tools,
  call,
  tasks,
  hasSessions = false,
  session,
}: McpServer): McpServer => ({
  name,
  version,
  tools,
  call,
  tasks,
  hasSessions,
  session,
})

/** True for a JSON-RPC response: the answer of a client to a request of the server. */
const isResponse = (body: unknown): body is { readonly id: unknown } & ClientResponse =>
  isObject(body) && body['method'] === undefined && ('result' in body || 'error' in body)

async function takeAnswer({ response, body }: Exchange, server: McpServer): Promise<void> {
  const { id, result, error } = body as { id?: unknown } & ClientResponse
  server.takeResponse?.(id, { result, error })
  response.writeHead(202).end()
}

interface Fault {
  readonly code: number
  readonly message: string
}

/** Faults that SDK 1 would answer with the whole report of its schema library, or as a message that it cannot parse. */
function faultIn(body: unknown): Fault | undefined {
  const { method, params } = Object(body) as { method?: unknown; params?: unknown }
  if (params !== undefined && !isObject(params))
    return { code: INVALID_REQUEST, message: 'params must be an object, or be left out' }
  const { arguments: args, cursor } = params ?? {}
  if (method === 'tools/call' && args !== undefined && !isObject(args))
    return { code: INVALID_PARAMS, message: 'arguments must be an object' }
  const isList = typeof method === 'string' && method.endsWith('/list')
  if (isList && cursor !== undefined && typeof cursor !== 'string')
    return { code: INVALID_PARAMS, message: 'cursor must be a string' }
  return undefined
}

async function refuse({ response, body }: Exchange, error: Fault): Promise<void> {
  const { id = null } = body as { id?: unknown }
  response.writeHead(400, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ jsonrpc: '2.0', id, error }))
}

/** Modern requests name their version in the body; the header alone counts only if it names a modern version. */
export function isModern(body: unknown, header: string | string[] | undefined): boolean {
  const params = (body as { params?: { _meta?: Record<string, unknown> } } | null)?.params
  if (params?._meta?.[PROTOCOL_VERSION_META_KEY] !== undefined) return true
  return typeof header === 'string' && /^\d{4}-\d\d-\d\d$/.test(header) && header >= FIRST_MODERN
}

/** True for clients of this version of the protocol and later ones. */
export function speaks(
  { headers, body }: { readonly headers: IncomingHttpHeaders; readonly body: unknown },
  least: string,
): boolean {
  const version = headers['mcp-protocol-version']
  return isModern(body, version) || (typeof version === 'string' && version >= least)
}
