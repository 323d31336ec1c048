/** Serves the protocol versions up to 2025-11-25, by SDK 1.x. */

import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { finished } from 'node:stream/promises'
import { Server as LegacyServer } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import {
  CallToolRequestSchema,
  CompleteRequestSchema,
  ErrorCode,
  GetPromptRequestSchema,
  type JSONRPCRequest,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListToolsRequestSchema,
  type ListToolsResult,
  McpError,
  ReadResourceRequestSchema,
  SetLevelRequestSchema,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
} from '@modelcontextprotocol/sdk/types.js'
import type {
  CallClient,
  InputRequests,
  InputResponses,
  Progress,
} from '../../features/mcp-servers/calls/call-client.ts'
import { MCP_LIMITS } from '../../features/mcp-servers/limits.ts'
import {
  CallCancelled,
  type McpPrompts,
  type McpResources,
  type McpServer,
  type McpSession,
} from './mcp-server.ts'
import {
  asRpcError,
  completion,
  type Exchange,
  NO_PROMPT,
  NO_RESOURCE,
  NO_TOOL,
  optionsOf,
  pageFor,
  reportsOf,
} from './serving.ts'

/** Later versions have no code of their own for it. */
const RESOURCE_NOT_FOUND = -32_002

/** A client that takes no requests: prompts have a result at once in these versions. */
const NO_CLIENT: CallClient = { takesTasks: false }

/**
 * Stateless: one server and one transport for each request (CVE-2026-25536). The response is a stream if the client wants to
 * hear of progress or may get requests, and one JSON document otherwise.
 */
export async function serveLegacy({ request, response, body }: Exchange, server: McpServer): Promise<void> {
  // The low-level server, since the high-level one takes only Zod schemas.
  const mcp = new LegacyServer({ name: server.name, version: server.version }, legacyOptions(server))
  mcp.setRequestHandler(ListToolsRequestSchema, async ({ params }) => pageOf('tools', listOf(server), params))
  const token = progressTokenOf(body)
  const { mayRequestInput = false, logsSteps = false, capabilities } = server.session ?? {}
  const isStream = token !== undefined || mayRequestInput || logsSteps
  const transport = new StreamableHTTPServerTransport({ enableJsonResponse: !isStream })
  mcp.setRequestHandler(
    CallToolRequestSchema,
    async ({ params }, { signal, requestId, sendNotification }) => {
      const { name, arguments: args = {} } = params
      const onProgress = (progress: Progress) => {
        for (const notification of reportsOf(progress, { token, logger: logsSteps ? name : undefined }))
          sendNotification(notification).catch(() => {}) // The client has disconnected.
      }
      const client: CallClient = {
        takesTasks: false,
        ...((token !== undefined || logsSteps) && { onProgress }),
        ...(mayRequestInput && capabilities && { capabilities }),
      }
      const send: Send = (message) => transport.send(message, { relatedRequestId: requestId })
      const result = await untilCancelled(server, signal, (cancellable) =>
        callWithInput(server, { name, args, client: { ...client, signal: cancellable }, send }),
      ).catch(async (error: unknown) => {
        // Before the SDK writes the error as a response.
        if (error instanceof CallCancelled) await endCancelled(response.on('error', () => {}))
        throw error
      })
      if (result === undefined) throw new McpError(ErrorCode.InvalidParams, NO_TOOL)
      return { ...result }
    },
  )
  if (server.resources !== undefined) addLegacyResources(mcp, server.resources)
  if (server.prompts !== undefined) addLegacyPrompts(mcp, server.prompts)
  if (server.session !== undefined) addSession(mcp, server.session, server.resources !== undefined)
  const { complete } = server
  if (complete !== undefined)
    mcp.setRequestHandler(CompleteRequestSchema, async ({ params }) => completion(complete, params))
  // The types of optional members in the SDK conflict with exactOptionalPropertyTypes.
  await mcp.connect(transport as Parameters<typeof mcp.connect>[0])
  response.once('close', () => void mcp.close())
  await transport.handleRequest(request, response, body)
}

/** Makes a call whose client may cancel it, if it is of a session. */
const untilCancelled = <T>(
  { session }: McpServer,
  disconnected: AbortSignal,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> => (session === undefined ? call(disconnected) : session.cancellable(disconnected, call))

/**
 * Ends the exchange of a cancelled request: a stream without a response, or an empty answer. Afterwards the connection is free for the
 * client's next request: what the SDK still tries to write does not close it.
 */
async function endCancelled(response: ServerResponse): Promise<void> {
  if (response.writableEnded) return
  if (!response.headersSent) response.writeHead(202)
  response.end()
  await finished(response).catch(() => {}) // The client has disconnected.
}

/** The stream of a session tells of changes; a client without a session cannot be told. */
function legacyOptions(server: McpServer) {
  const { capabilities, ...options } = optionsOf(server)
  const { resources, prompts, hasSessions: listChanged = false } = server
  return {
    ...options,
    capabilities: {
      ...capabilities,
      tools: { listChanged },
      ...(resources && { resources: { listChanged, subscribe: listChanged } }),
      ...(prompts && { prompts: { listChanged } }),
      ...(listChanged && { logging: {} }),
    },
  }
}

function addSession(mcp: LegacyServer, session: McpSession, hasResources: boolean): void {
  mcp.setRequestHandler(SetLevelRequestSchema, async ({ params }) => {
    await session.setLogLevel(params.level)
    return {}
  })
  if (!hasResources) return
  mcp.setRequestHandler(SubscribeRequestSchema, async ({ params: { uri } }) => {
    if (uri.length > MCP_LIMITS.uriCharsMax)
      throw new McpError(ErrorCode.InvalidParams, `uri has more than ${MCP_LIMITS.uriCharsMax} characters.`)
    if (await session.subscribe(uri)) return {}
    const detail = `A session has at most ${MCP_LIMITS.subscriptionsMax} subscriptions.`
    throw new McpError(ErrorCode.InvalidParams, detail)
  })
  mcp.setRequestHandler(UnsubscribeRequestSchema, async ({ params: { uri } }) => {
    await session.unsubscribe(uri)
    return {}
  })
}

const pageOf = pageFor(McpError)

type Send = (message: JSONRPCRequest) => Promise<void>

interface Call {
  readonly name: string
  readonly args: Record<string, unknown>
  readonly client: CallClient
  readonly send: Send
}

/** Calls a tool, and again with the responses of the client as long as the tool requests input. */
async function callWithInput(server: McpServer, { name, args, client, send }: Call) {
  let current = client
  for (let round = 0; round < MCP_LIMITS.roundsMax; round += 1) {
    const result = await server.call(name, args, current).catch(asRpcError(McpError))
    if (result === undefined || !('inputRequests' in result)) return result
    if (round === 0) await server.session?.begin().catch(asRpcError(McpError))
    const inputResponses = await sendRequests(server, result.inputRequests, { client, send })
    // The client would not read the result, and the function has no response to continue with.
    if (client.signal?.aborted)
      throw new McpError(ErrorCode.ConnectionClosed, 'The client has disconnected or cancelled the call.')
    current = { ...client, inputResponses, requestState: result.requestState }
  }
  throw new McpError(ErrorCode.InternalError, `The tool asked more than ${MCP_LIMITS.roundsMax} times.`)
}

/** Sends requests in the stream of the call, and waits for their responses. */
async function sendRequests(
  { session }: McpServer,
  requests: InputRequests,
  { client: { signal = new AbortController().signal }, send }: Pick<Call, 'client' | 'send'>,
): Promise<InputResponses> {
  const responses = Object.entries(requests).map(async ([name, { method, params }]) => {
    const id = randomUUID()
    const response = session?.waitForResponse(id, signal)
    await send({ jsonrpc: '2.0', id, method, params: { ...params } })
    // No response, or an error, stands for a closed form.
    return [name, (await response)?.result ?? { action: 'cancel' }] as const
  })
  return Object.fromEntries(await Promise.all(responses))
}

function addLegacyPrompts(mcp: LegacyServer, { list, get }: McpPrompts): void {
  mcp.setRequestHandler(ListPromptsRequestSchema, async ({ params }) => pageOf('prompts', list(), params))
  mcp.setRequestHandler(GetPromptRequestSchema, async ({ params: { name, arguments: args = {} } }) => {
    const prompt = await get(name, args, NO_CLIENT).catch(asRpcError(McpError))
    if (prompt === undefined) throw new McpError(ErrorCode.InvalidParams, NO_PROMPT)
    return { ...prompt }
  })
}

function addLegacyResources(mcp: LegacyServer, { list, templates, read }: McpResources): void {
  mcp.setRequestHandler(ListResourcesRequestSchema, async ({ params }) => pageOf('resources', list(), params))
  mcp.setRequestHandler(ListResourceTemplatesRequestSchema, async ({ params }) =>
    pageOf('resourceTemplates', templates?.() ?? [], params),
  )
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
