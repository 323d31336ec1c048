/**
 * Transport of MCP: serves one POST with one MCP server, by the SDK of the protocol version that the request names. SDK 1.x
 * serves the versions up to 2025-11-25, SDK 2.x those from 2026-07-28, which have no handshake and no sessions.
 */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { Server as LegacyServer } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import {
  CallToolRequestSchema,
  ErrorCode,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListToolsRequestSchema,
  McpError,
  ReadResourceRequestSchema,
} from '@modelcontextprotocol/sdk/types.js'
import {
  createMcpHandler,
  type ListToolsResult,
  ProtocolError,
  ProtocolErrorCode,
  Server,
} from '@modelcontextprotocol/server'

export interface McpTool {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly inputSchema: Readonly<Record<string, unknown>>
  readonly outputSchema?: Readonly<Record<string, unknown>>
  readonly annotations: Readonly<Record<string, boolean>>
}

export interface ToolResult {
  readonly content: { type: 'text'; text: string }[]
  readonly structuredContent?: Record<string, unknown>
  readonly isError: boolean
}

export interface McpResource {
  readonly uri: string
  readonly name: string
  readonly title: string
  readonly description: string
  readonly mimeType: string
}

export interface ResourceContents {
  readonly uri: string
  readonly mimeType: string
  readonly text: string
}

/** Files for the model, by URI. */
export interface McpResources {
  readonly list: () => readonly McpResource[]
  /** Undefined if there is no such resource. */
  readonly read: (uri: string) => Promise<readonly ResourceContents[] | undefined>
}

/** The MCP server for one request. */
export interface McpServer {
  readonly name: string
  readonly version: string
  readonly instructions?: string
  readonly tools: readonly McpTool[]
  readonly resources?: McpResources
  /** Undefined if there is no such tool. Never throws: a failure is a result, without detail. */
  readonly call: (tool: string, args: Record<string, unknown>) => Promise<ToolResult | undefined>
}

/** A POST whose body has been read. {@link serve} writes the whole response. */
interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly body: unknown
}

const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion'
const FIRST_MODERN = '2026-07-28'

/** Answers a request in its protocol version. */
export function serve(exchange: Exchange, server: McpServer): Promise<void> {
  const header = exchange.request.headers['mcp-protocol-version']
  return isModern(exchange.body, header) ? serveModern(exchange, server) : serveLegacy(exchange, server)
}

/** Modern requests name their version in the body; the header alone counts only if it names a modern version. */
function isModern(body: unknown, header: string | string[] | undefined): boolean {
  const params = (body as { params?: { _meta?: Record<string, unknown> } } | null)?.params
  if (params?._meta?.[VERSION_KEY] !== undefined) return true
  return typeof header === 'string' && /^\d{4}-\d\d-\d\d$/.test(header) && header >= FIRST_MODERN
}

const NO_TOOL = 'There is no such tool.'
const NO_RESOURCE = 'There is no such resource.'
/** In the versions up to 2025-11-25; later ones have no code of their own for it. */
const RESOURCE_NOT_FOUND = -32_002

/** What a client lists and reads depends on its token, so no cache may share it. */
const UNCACHED = { ttlMs: 0, cacheScope: 'private' as const }

/**
 * Options of both SDKs. The validator is for what servers ask of clients, and ours ask nothing; without it, the SDK compiles
 * a schema compiler for each request.
 */
const optionsOf = ({ instructions, resources }: McpServer) => ({
  capabilities: { tools: {}, ...(resources && { resources: {} }) },
  jsonSchemaValidator: {
    getValidator: () => () =>
      ({ valid: false, data: undefined, errorMessage: 'This server asks nothing.' }) as const,
  },
  ...(instructions && { instructions }),
})

/** Stateless: one server and one transport for each request (CVE-2026-25536). */
async function serveLegacy({ request, response, body }: Exchange, server: McpServer): Promise<void> {
  // The low-level server, since the high-level one takes only Zod schemas.
  const mcp = new LegacyServer({ name: server.name, version: server.version }, optionsOf(server))
  mcp.setRequestHandler(ListToolsRequestSchema, async () => ({ tools: listOf(server) }))
  mcp.setRequestHandler(CallToolRequestSchema, async ({ params }) => {
    const result = await server.call(params.name, params.arguments ?? {})
    if (result === undefined) throw new McpError(ErrorCode.InvalidParams, NO_TOOL)
    return { ...result }
  })
  if (server.resources !== undefined) addLegacyResources(mcp, server.resources)
  const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true })
  response.once('close', () => void mcp.close())
  // The types of optional members in the SDK conflict with exactOptionalPropertyTypes.
  await mcp.connect(transport as Parameters<typeof mcp.connect>[0])
  await transport.handleRequest(request, response, body)
}

function addLegacyResources(mcp: LegacyServer, { list, read }: McpResources): void {
  mcp.setRequestHandler(ListResourcesRequestSchema, async () => ({ resources: [...list()] }))
  mcp.setRequestHandler(ListResourceTemplatesRequestSchema, async () => ({ resourceTemplates: [] }))
  mcp.setRequestHandler(ReadResourceRequestSchema, async ({ params: { uri } }) => {
    const contents = await read(uri)
    if (contents === undefined) throw new McpError(RESOURCE_NOT_FOUND, NO_RESOURCE, { uri })
    return { contents: [...contents] }
  })
}

async function serveModern({ request, response, body }: Exchange, server: McpServer): Promise<void> {
  const { method, id = null } = (body ?? {}) as { method?: unknown; id?: unknown }
  // The server announces no changes, so it opens no stream for them.
  if (method === 'subscriptions/listen') {
    const error = { code: ProtocolErrorCode.MethodNotFound, message: 'Method not found' }
    response.writeHead(404, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ jsonrpc: '2.0', id, error }))
    return
  }
  const node = toNodeHandler(createMcpHandler(() => modernServer(server), { legacy: 'reject' }))
  // The types of optional members in the SDK conflict with exactOptionalPropertyTypes.
  await node(request as Parameters<typeof node>[0], response as Parameters<typeof node>[1], body)
}

function modernServer(server: McpServer): Server {
  const mcp = new Server({ name: server.name, version: server.version }, optionsOf(server))
  mcp.setRequestHandler('tools/list', async () => ({ tools: listOf(server), ...UNCACHED }))
  mcp.setRequestHandler('tools/call', async ({ params }) => {
    const result = await server.call(params.name, params.arguments ?? {})
    if (result === undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, NO_TOOL)
    return { ...result }
  })
  if (server.resources !== undefined) addModernResources(mcp, server.resources)
  return mcp
}

function addModernResources(mcp: Server, { list, read }: McpResources): void {
  mcp.setRequestHandler('resources/list', async () => ({ resources: [...list()], ...UNCACHED }))
  mcp.setRequestHandler('resources/templates/list', async () => ({ resourceTemplates: [], ...UNCACHED }))
  mcp.setRequestHandler('resources/read', async ({ params: { uri } }) => {
    const contents = await read(uri)
    if (contents === undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, NO_RESOURCE, { uri })
    return { contents: [...contents], ...UNCACHED }
  })
}

const listOf = ({ tools }: McpServer) => tools as unknown as ListToolsResult['tools']
