/** Serves the protocol versions up to 2025-11-25, by SDK 1.x. */

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
  type ListToolsResult,
  McpError,
  ReadResourceRequestSchema,
} from '@modelcontextprotocol/sdk/types.js'
import type { CallClient, Progress } from '../features/mcp-servers/calls/call-client.ts'

import type { McpPrompts, McpResources, McpServer } from './mcp-server.ts'
import {
  asRpcError,
  completion,
  type Exchange,
  NO_PROMPT,
  NO_RESOURCE,
  NO_TOOL,
  optionsOf,
} from './serving.ts'

/** Later versions have no code of their own for it. */
const RESOURCE_NOT_FOUND = -32_002

/** A client that cannot be asked: that needs a session in these versions. */
const NO_CLIENT: CallClient = { takesTasks: false }

/**
 * Stateless: one server and one transport for each request (CVE-2026-25536). The response is a stream if the client wants to
 * hear of progress, and one JSON document otherwise.
 */
export async function serveLegacy({ request, response, body }: Exchange, server: McpServer): Promise<void> {
  // The low-level server, since the high-level one takes only Zod schemas.
  const mcp = new LegacyServer({ name: server.name, version: server.version }, optionsOf(server))
  mcp.setRequestHandler(ListToolsRequestSchema, async () => ({ tools: listOf(server) }))
  const token = progressTokenOf(body)
  mcp.setRequestHandler(CallToolRequestSchema, async ({ params }, { signal, sendNotification }) => {
    const onProgress = (progress: Progress) =>
      void sendNotification({
        method: 'notifications/progress',
        params: { progressToken: token ?? '', ...progress },
      }).catch(() => {}) // The client has disconnected.
    const client = { signal, takesTasks: false, ...(token !== undefined && { onProgress }) }
    const result = await server.call(params.name, params.arguments ?? {}, client).catch(asRpcError(McpError))
    if (result === undefined) throw new McpError(ErrorCode.InvalidParams, NO_TOOL)
    return { ...result }
  })
  if (server.resources !== undefined) addLegacyResources(mcp, server.resources)
  if (server.prompts !== undefined) addLegacyPrompts(mcp, server.prompts)
  const { complete } = server
  if (complete !== undefined)
    mcp.setRequestHandler(CompleteRequestSchema, async ({ params }) => completion(complete, params))
  const transport = new StreamableHTTPServerTransport({ enableJsonResponse: token === undefined })
  response.once('close', () => void mcp.close())
  // The types of optional members in the SDK conflict with exactOptionalPropertyTypes.
  await mcp.connect(transport as Parameters<typeof mcp.connect>[0])
  await transport.handleRequest(request, response, body)
}

function addLegacyPrompts(mcp: LegacyServer, { list, get }: McpPrompts): void {
  mcp.setRequestHandler(ListPromptsRequestSchema, async () => ({ prompts: [...list()] }))
  mcp.setRequestHandler(GetPromptRequestSchema, async ({ params: { name, arguments: args = {} } }) => {
    const prompt = await get(name, args, NO_CLIENT).catch(asRpcError(McpError))
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
    const contents = await read(uri).catch(asRpcError(McpError))
    if (contents === undefined) throw new McpError(RESOURCE_NOT_FOUND, NO_RESOURCE, { uri })
    return { contents: [...contents] }
  })
}

function progressTokenOf(body: unknown): string | number | undefined {
  const { params } = body as { params?: { _meta?: { progressToken?: unknown } } | null }
  const token = params?._meta?.progressToken
  return typeof token === 'string' || typeof token === 'number' ? token : undefined
}

const listOf = ({ tools }: McpServer) => tools() as unknown as ListToolsResult['tools']
