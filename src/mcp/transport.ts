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
  CompleteRequestSchema,
  ErrorCode,
  GetPromptRequestSchema,
  ListPromptsRequestSchema,
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

import { isObject } from '../core/json.ts'
import { Problem } from '../core/problem.ts'
import type { Content } from '../features/mcp-servers/calls/content.ts'

export interface McpTool {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly inputSchema: Readonly<Record<string, unknown>>
  readonly outputSchema?: Readonly<Record<string, unknown>>
  readonly annotations: Readonly<Record<string, boolean>>
}

export interface ToolResult {
  readonly content: Content[]
  readonly structuredContent?: Record<string, unknown>
  readonly isError: boolean
  readonly _meta?: Record<string, unknown>
}

export interface McpResource {
  readonly uri: string
  readonly name: string
  readonly title: string
  readonly description: string
  readonly mimeType: string
}

export type ResourceContents = { readonly uri: string; readonly mimeType: string } & (
  | { readonly text: string }
  | { readonly blob: string }
)

/** Files for the model, by URI. */
interface McpResourceTemplate extends Omit<McpResource, 'uri'> {
  readonly uriTemplate: string
}

export interface McpResources {
  readonly list: () => readonly McpResource[]
  readonly templates?: () => readonly McpResourceTemplate[]
  /** Undefined if there is no such resource. */
  readonly read: (uri: string) => Promise<readonly ResourceContents[] | undefined>
}

interface McpPrompt {
  readonly name: string
  readonly title?: string
  readonly description?: string
  readonly arguments: { readonly name: string; readonly description?: string; readonly required: boolean }[]
}

interface PromptMessage {
  readonly role: 'user' | 'assistant'
  readonly content: Content
}

export interface McpPrompts {
  readonly list: () => readonly McpPrompt[]
  /** Undefined if there is no such prompt. @throws Problem for wrong arguments */
  readonly get: (
    name: string,
    args: Readonly<Record<string, string>>,
  ) => Promise<{ readonly description?: string; readonly messages: PromptMessage[] } | undefined>
}

/** Completions of an argument of a prompt for the beginning of its value. */
export type McpCompletions = (prompt: string, argument: string, begin: string) => readonly string[]

/** The MCP server for one request. */
export interface McpServer {
  readonly name: string
  readonly version: string
  readonly instructions?: string
  /** Called for `tools/list` alone: a call needs none of them described. */
  readonly tools: () => readonly McpTool[]
  readonly resources?: McpResources | undefined
  readonly prompts?: McpPrompts | undefined
  readonly complete?: McpCompletions | undefined
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
  if (hasInvalidArguments(exchange.body))
    return refuse(exchange, INVALID_PARAMS, 'arguments must be an object')
  return isModern(exchange.body, header) ? serveModern(exchange, server) : serveLegacy(exchange, server)
}

/** SDK 1 would answer with the whole report of its schema library. */
function hasInvalidArguments(body: unknown): boolean {
  const { method, params } = (body ?? {}) as { method?: unknown; params?: { arguments?: unknown } | null }
  return method === 'tools/call' && params?.arguments !== undefined && !isObject(params.arguments)
}

async function refuse({ response, body }: Exchange, code: number, message: string): Promise<void> {
  const { id = null } = body as { id?: unknown }
  response.writeHead(400, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } }))
}

/** Modern requests name their version in the body; the header alone counts only if it names a modern version. */
export function isModern(body: unknown, header: string | string[] | undefined): boolean {
  const params = (body as { params?: { _meta?: Record<string, unknown> } } | null)?.params
  if (params?._meta?.[VERSION_KEY] !== undefined) return true
  return typeof header === 'string' && /^\d{4}-\d\d-\d\d$/.test(header) && header >= FIRST_MODERN
}

const NO_TOOL = 'There is no such tool.'
const NO_PROMPT = 'There is no such prompt.'
const INVALID_PARAMS = -32_602
const NO_RESOURCE = 'There is no such resource.'
/** In the versions up to 2025-11-25; later ones have no code of their own for it. */
const RESOURCE_NOT_FOUND = -32_002

/** Lists and resources depend on the token of the client, so no cache may share them. */
const UNCACHED = { ttlMs: 0, cacheScope: 'private' as const }

/**
 * Options of both SDKs. The validator is for what servers ask of clients, and ours ask nothing; without it, the SDK compiles
 * a schema compiler for each request.
 */
const optionsOf = ({ instructions, resources, prompts, complete }: McpServer) => ({
  capabilities: {
    tools: {},
    ...(resources && { resources: {} }),
    ...(prompts && { prompts: {} }),
    ...(complete && { completions: {} }),
  },
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
  if (server.prompts !== undefined) addLegacyPrompts(mcp, server.prompts)
  const { complete } = server
  if (complete !== undefined)
    mcp.setRequestHandler(CompleteRequestSchema, async ({ params }) => completion(complete, params))
  const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true })
  response.once('close', () => void mcp.close())
  // The types of optional members in the SDK conflict with exactOptionalPropertyTypes.
  await mcp.connect(transport as Parameters<typeof mcp.connect>[0])
  await transport.handleRequest(request, response, body)
}

function addLegacyPrompts(mcp: LegacyServer, { list, get }: McpPrompts): void {
  mcp.setRequestHandler(ListPromptsRequestSchema, async () => ({ prompts: [...list()] }))
  mcp.setRequestHandler(GetPromptRequestSchema, async ({ params: { name, arguments: args = {} } }) => {
    const prompt = await get(name, args).catch(asInvalidParams(McpError))
    if (prompt === undefined) throw new McpError(ErrorCode.InvalidParams, NO_PROMPT)
    return { ...prompt }
  })
}

function addLegacyResources(mcp: LegacyServer, { list, templates, read }: McpResources): void {
  mcp.setRequestHandler(ListResourcesRequestSchema, async () => ({ resources: [...list()] }))
  mcp.setRequestHandler(ListResourceTemplatesRequestSchema, async () => ({
    resourceTemplates: [...(templates?.() ?? [])],
  }))
  mcp.setRequestHandler(ReadResourceRequestSchema, async ({ params: { uri } }) => {
    const contents = await read(uri).catch(asInvalidParams(McpError))
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
  if (server.prompts !== undefined) addModernPrompts(mcp, server.prompts)
  const { complete } = server
  if (complete !== undefined)
    mcp.setRequestHandler('completion/complete', async ({ params }) => completion(complete, params))
  return mcp
}

function addModernPrompts(mcp: Server, { list, get }: McpPrompts): void {
  mcp.setRequestHandler('prompts/list', async () => ({ prompts: [...list()], ...UNCACHED }))
  mcp.setRequestHandler('prompts/get', async ({ params: { name, arguments: args = {} } }) => {
    const prompt = await get(name, args).catch(asInvalidParams(ProtocolError))
    if (prompt === undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, NO_PROMPT)
    return { ...prompt }
  })
}

/** A problem with arguments is an error of the protocol. */
const asInvalidParams =
  (RpcError: typeof McpError | typeof ProtocolError) =>
  (error: unknown): never => {
    throw error instanceof Problem ? new RpcError(INVALID_PARAMS, error.message) : error
  }

/** Both protocol versions return at most 100 values. */
function completion(complete: McpCompletions, { ref, argument }: CompleteParams) {
  const values = ref.type === 'ref/prompt' ? complete(ref.name ?? '', argument.name, argument.value) : []
  return { completion: { values: values.slice(0, 100), total: values.length, hasMore: values.length > 100 } }
}

interface CompleteParams {
  readonly ref: { readonly type: string; readonly name?: string }
  readonly argument: { readonly name: string; readonly value: string }
}

function addModernResources(mcp: Server, { list, templates, read }: McpResources): void {
  mcp.setRequestHandler('resources/list', async () => ({ resources: [...list()], ...UNCACHED }))
  mcp.setRequestHandler('resources/templates/list', async () => ({
    resourceTemplates: [...(templates?.() ?? [])],
    ...UNCACHED,
  }))
  mcp.setRequestHandler('resources/read', async ({ params: { uri } }) => {
    const contents = await read(uri).catch(asInvalidParams(ProtocolError))
    if (contents === undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, NO_RESOURCE, { uri })
    return { contents: [...contents], ...UNCACHED }
  })
}

const listOf = ({ tools }: McpServer) => tools() as unknown as ListToolsResult['tools']
