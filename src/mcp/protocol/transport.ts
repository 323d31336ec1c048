/**
 * Transport of MCP: serves one POST with one MCP server, by the SDK of the protocol version that the request names. SDK 1.x
 * serves the versions up to 2025-11-25, SDK 2.x those from 2026-07-28, which have no handshake and no sessions.
 */

import { PROTOCOL_VERSION_META_KEY } from '@modelcontextprotocol/server'
import { isObject } from '../../core/json.ts'
import { INVALID_PARAMS } from '../../features/mcp-servers/calls/client-requests.ts'
import type { ClientResponse, McpServer } from './mcp-server.ts'
import { answerPlainCall, plainCall } from './plain-call.ts'
import { serveLegacy } from './serve-legacy.ts'
import { serveModern } from './serve-modern.ts'
import type { Exchange } from './serving.ts'

const FIRST_MODERN = '2026-07-28'

/** Answers a request in its protocol version. */
export function serve(exchange: Exchange, server: McpServer): Promise<void> {
  const header = exchange.request.headers['mcp-protocol-version']
  if (isResponse(exchange.body)) return takeAnswer(exchange, server)
  const fault = faultIn(exchange.body)
  if (fault !== undefined) return refuse(exchange, INVALID_PARAMS, fault)
  const call = plainCall(exchange, server)
  if (call !== undefined) return answerPlainCall(exchange.response, server, call)
  return isModern(exchange.body, header) ? serveModern(exchange, server) : serveLegacy(exchange, server)
}

/** True for a JSON-RPC response: the answer of a client to a request of the server. */
const isResponse = (body: unknown): body is { readonly id: unknown } & ClientResponse =>
  isObject(body) && body['method'] === undefined && ('result' in body || 'error' in body)

async function takeAnswer({ response, body }: Exchange, server: McpServer): Promise<void> {
  const { id, result, error } = body as { id?: unknown } & ClientResponse
  server.takeResponse?.(id, { result, error })
  response.writeHead(202).end()
}

/** Faults that SDK 1 would answer with the whole report of its schema library. */
function faultIn(body: unknown): string | undefined {
  const { method, params } = Object(body) as { method?: unknown; params?: Record<string, unknown> | null }
  const { arguments: args, cursor } = params ?? {}
  if (method === 'tools/call' && args !== undefined && !isObject(args)) return 'arguments must be an object'
  const isList = typeof method === 'string' && method.endsWith('/list')
  return isList && cursor !== undefined && typeof cursor !== 'string' ? 'cursor must be a string' : undefined
}

async function refuse({ response, body }: Exchange, code: number, message: string): Promise<void> {
  const { id = null } = body as { id?: unknown }
  response.writeHead(400, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } }))
}

/** Modern requests name their version in the body; the header alone counts only if it names a modern version. */
export function isModern(body: unknown, header: string | string[] | undefined): boolean {
  const params = (body as { params?: { _meta?: Record<string, unknown> } } | null)?.params
  if (params?._meta?.[PROTOCOL_VERSION_META_KEY] !== undefined) return true
  return typeof header === 'string' && /^\d{4}-\d\d-\d\d$/.test(header) && header >= FIRST_MODERN
}
