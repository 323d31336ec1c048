/** Serves the protocol versions from 2026-07-28, by SDK 2.x. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import {
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  createMcpHandler,
  type GetPromptResult,
  type ListToolsResult,
  LOG_LEVEL_META_KEY,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type ServerContext,
  type ServerEvent,
  type ServerEventBus,
  type StandardSchemaV1,
} from '@modelcontextprotocol/server'
import { isObject } from '../../core/json.ts'
import type { CallClient } from '../../features/mcp-servers/calls/call-client.ts'
import { MISSING_CAPABILITY } from '../../features/mcp-servers/calls/client-requests.ts'
import { onClose } from '../../infra/connections.ts'
import type { McpChange, McpChanges, McpPrompts, McpResources, McpServer, McpTasks } from './mcp-server.ts'
import {
  asRpcError,
  completion,
  type Exchange,
  logsSteps,
  NO_PROMPT,
  NO_RESOURCE,
  NO_TOOL,
  optionsOf,
  pageFor,
  reportsOf,
} from './serving.ts'

/** The extension for calls that continue after their response. */
const TASKS = 'io.modelcontextprotocol/tasks'

/** True if the capabilities of a client (MCP 2026-07-28) name that extension. */
const takesTasks = ({ extensions }: Readonly<Record<string, unknown>>): boolean =>
  isObject(extensions) && isObject(extensions[TASKS])

/** Lists and resources depend on the token of the client, so no cache may share them. */
const UNCACHED = { ttlMs: 0, cacheScope: 'private' as const }

const listPageOf = pageFor(ProtocolError)
const pageOf: typeof listPageOf = (...of) => ({ ...listPageOf(...of), ...UNCACHED })

/** Stateless, as the version is. */
export async function serveModern({ request, response, body }: Exchange, server: McpServer): Promise<void> {
  const { fetch } = createMcpHandler(() => modernServer(server), {
    legacy: 'reject',
    ...(server.changes && { bus: busOf(server.changes, body, response) }),
  })
  const answer = await fetch(webRequestOf(request, response), { parsedBody: body })
  await writeWebResponse(answer, response)
}

/** A request without its body, which has been read. It is aborted if the client disconnects before the response has ended. */
function webRequestOf({ headers }: IncomingMessage, response: ServerResponse): Request {
  const disconnected = new AbortController()
  onClose(response, () => {
    if (!response.writableFinished) disconnected.abort()
  })
  const fields = Object.entries(headers).map(([name, value]): [string, string] => [name, String(value)])
  // Nothing reads the address.
  return new Request('http://localhost/', { method: 'POST', headers: fields, signal: disconnected.signal })
}

/** Writes a stream of events as it comes, and any other response in one piece. Returns when the client has it, or has disconnected. */
async function writeWebResponse(answer: Response, response: ServerResponse): Promise<void> {
  const headers = Object.fromEntries(answer.headers)
  if (answer.body !== null && headers['content-type'] === 'text/event-stream') {
    response.writeHead(answer.status, headers)
    await pipeline(Readable.fromWeb(answer.body as Parameters<typeof Readable.fromWeb>[0]), response).catch(
      () => {},
    )
    return
  }
  const text = await answer.text()
  response.writeHead(answer.status, { ...headers, 'content-length': Buffer.byteLength(text) }).end(text)
}

function modernServer(server: McpServer): Server {
  const mcp = new Server({ name: server.name, version: server.version }, modernOptions(server))
  mcp.setRequestHandler('tools/list', async ({ params }) => pageOf('tools', listOf(server), params))
  mcp.setRequestHandler('tools/call', async ({ params }, context) => {
    const result = await server
      .call(params.name, params.arguments ?? {}, clientOf(context, params.name))
      .catch(asRpcError(ProtocolError))
    if (result === undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, NO_TOOL)
    // The type of the SDK does not know tasks.
    return { ...result } as CallToolResult
  })
  if (server.resources !== undefined) addModernResources(mcp, server.resources)
  if (server.prompts !== undefined) addModernPrompts(mcp, server.prompts)
  if (server.tasks !== undefined) addTasks(mcp, server.tasks)
  const { complete } = server
  if (complete !== undefined)
    mcp.setRequestHandler('completion/complete', async ({ params }) => completion(complete, params))
  return mcp
}

function addModernPrompts(mcp: Server, { list, get }: McpPrompts): void {
  mcp.setRequestHandler('prompts/list', async ({ params }) => pageOf('prompts', list(), params))
  mcp.setRequestHandler('prompts/get', async ({ params: { name, arguments: args = {} } }, context) => {
    const prompt = await get(name, args, clientOf(context)).catch(asRpcError(ProtocolError))
    if (prompt === undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, NO_PROMPT)
    return { ...prompt } as GetPromptResult
  })
}

function addModernResources(mcp: Server, { list, templates, read }: McpResources): void {
  mcp.setRequestHandler('resources/list', async ({ params }) => pageOf('resources', list(), params))
  mcp.setRequestHandler('resources/templates/list', async ({ params }) =>
    pageOf('resourceTemplates', templates?.() ?? [], params),
  )
  mcp.setRequestHandler('resources/read', async ({ params: { uri } }) => {
    const contents = await read(uri).catch(asRpcError(ProtocolError))
    if (contents === undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, NO_RESOURCE, { uri })
    return { contents: [...contents], ...UNCACHED }
  })
}

function modernOptions(server: McpServer) {
  const { capabilities, ...options } = optionsOf(server)
  const { resources, prompts, changes, tasks } = server
  const listChanged = changes !== undefined
  return {
    ...options,
    capabilities: {
      ...capabilities,
      tools: { listChanged },
      ...(resources && { resources: { listChanged, subscribe: listChanged } }),
      ...(prompts && { prompts: { listChanged } }),
      // Steps of flows are log messages.
      ...(tasks && { logging: {}, extensions: { [TASKS]: {} } }),
    },
  }
}

/** The client of a request, as the request describes it. @param logger the called tool; log messages are of its steps */
function clientOf({ mcpReq }: ServerContext, logger?: string): CallClient {
  const capabilities = capabilitiesOf(mcpReq)
  const { progressToken: token } = mcpReq._meta ?? {}
  const wanted = { token, logger: logsSteps(envelopeOf(mcpReq)[LOG_LEVEL_META_KEY]) ? logger : undefined }
  const requestState = mcpReq.requestState()
  return {
    capabilities,
    takesTasks: takesTasks(capabilities),
    signal: mcpReq.signal,
    inputResponses: mcpReq.inputResponses,
    ...(requestState !== undefined && { requestState }),
    ...((token !== undefined || wanted.logger !== undefined) && {
      onProgress: (progress) => {
        // It fails if the client has disconnected.
        for (const report of reportsOf(progress, wanted)) mcpReq.notify(report).catch(() => {})
      },
    }),
  }
}

const envelopeOf = ({ envelope }: ServerContext['mcpReq']) => Object(envelope) as Record<string, unknown>

const capabilitiesOf = (mcpReq: ServerContext['mcpReq']) =>
  Object(envelopeOf(mcpReq)[CLIENT_CAPABILITIES_META_KEY]) as Record<string, unknown>

/** The SDK has no handlers of this extension. */
function addTasks(mcp: Server, tasks: McpTasks): void {
  const add = (
    method: string,
    answer: (taskId: string, params: Record<string, unknown>) => Promise<object | undefined>,
  ) =>
    mcp.setRequestHandler(method, { params: ANY_PARAMS }, async (params, { mcpReq }) => {
      if (!takesTasks(capabilitiesOf(mcpReq))) {
        const data = { requiredCapabilities: { extensions: { [TASKS]: {} } } }
        throw new ProtocolError(MISSING_CAPABILITY, `${method} needs the extension ${TASKS}.`, data)
      }
      const { taskId } = params
      const answered =
        typeof taskId === 'string'
          ? await answer(taskId, {
              ...params,
              inputResponses: mcpReq.inputResponses ?? params['inputResponses'],
            })
          : undefined
      if (answered === undefined)
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'There is no such task.')
      return { resultType: 'complete', ...answered }
    })
  const acknowledged = (isKnown: boolean) => (isKnown ? {} : undefined)
  add('tasks/get', (id) => tasks.get(id))
  add('tasks/update', async (id, { inputResponses }) => acknowledged(await tasks.update(id, inputResponses)))
  add('tasks/cancel', async (id) => acknowledged(await tasks.cancel(id)))
}

/** Parameters are checked by the handler. */
const ANY_PARAMS: StandardSchemaV1<unknown, Record<string, unknown>> = {
  '~standard': {
    version: 1,
    vendor: 'tenon',
    validate: (value) => ({ value: (isObject(value) ? value : {}) as Record<string, unknown> }),
  },
}

const EVENTS = {
  tools: { kind: 'tools_list_changed' },
  prompts: { kind: 'prompts_list_changed' },
  resources: { kind: 'resources_list_changed' },
} as const

const eventOf = (change: McpChange): ServerEvent =>
  typeof change === 'string' ? EVENTS[change] : { kind: 'resource_updated', uri: change.uri }

/** The SDK subscribes for each `subscriptions/listen`, filters, and writes the stream. */
function busOf(changes: McpChanges, body: unknown, response: ServerResponse): ServerEventBus {
  const { params } = body as { params?: { notifications?: { resourceSubscriptions?: unknown } } | null }
  const uris = params?.notifications?.resourceSubscriptions
  const watched = Array.isArray(uris) ? uris.filter((uri) => typeof uri === 'string') : []
  return {
    publish: () => {},
    subscribe: (listener) =>
      changes.listen(
        watched,
        paced(response, (change) => listener(eventOf(change))),
      ),
  }
}

/** Holds changes back while the client does not read. Each is held once, so a client that never reads costs little memory. */
function paced(response: ServerResponse, send: (change: McpChange) => void): (change: McpChange) => void {
  const held = new Map<string, McpChange>()
  const flush = () => {
    for (const [key, change] of held) {
      if (response.writableNeedDrain) return
      held.delete(key)
      send(change)
    }
  }
  response.on('drain', flush)
  return (change) => {
    held.set(typeof change === 'string' ? change : change.uri, change)
    flush()
  }
}

const listOf = ({ tools }: McpServer) => tools() as unknown as ListToolsResult['tools']
