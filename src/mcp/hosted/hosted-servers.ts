/** Serves hosted MCP servers: to each request of a client, the tools, prompts and resources that its token allows. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { AuthServices } from '../../app/auth-services.ts'
import { reconnectMs } from '../../app/drain.ts'
import type { Platform } from '../../app/platform.ts'
import { isObject } from '../../core/json.ts'
import { scopeOf } from '../../core/tool-access.ts'
import { argumentErrors, withoutNulls } from '../../features/mcp-servers/calls/check-values.ts'
import { CALL_INPUT, TOOL_CALL, TOOL_SEARCH } from '../../features/mcp-servers/search/search-tool-list.ts'
import type { Tool } from '../../features/mcp-servers/tool.ts'
import { onClose } from '../../infra/connections.ts'
import { type Message, mountEndpoint } from '../endpoint.ts'
import type { McpServer, McpSession, ToolResult } from '../protocol/mcp-server.ts'
import { type CalledTool, HostedAccess, type RequestState } from './hosted-access.ts'
import { flowTasks, type HostedRequest, messageCall, recordEnd, resourceReader } from './hosted-calls.ts'
import { changesOf, checkSubscriptions, type Listening, ServerChanges } from './hosted-changes.ts'
import { completionsFor, promptsOf, resourcesOf } from './hosted-content.ts'
import { type HostedSessions, hasSession } from './hosted-sessions.ts'
import { offeredTools, readToolListing } from './offered-tools.ts'

const PATH = '/v1/mcp/workspaces/:ws/servers/:server/mcp'

export function mountHostedServers(
  app: FastifyInstance,
  platform: Platform,
  authServices: AuthServices,
  sessions: HostedSessions,
): void {
  const handler = new HostedServerHandler(platform, authServices, sessions)
  mountEndpoint(app, platform.config, {
    path: PATH,
    authenticate: (request, reply) => handler.authenticate(request, reply),
    serverFor: (request, message) => handler.serverFor(request, message),
    openStream: (request, reply) => handler.openStream(request, reply),
    hasSession,
    onEnd: (request, end) => recordEnd(request, handler.stateOf(request), end),
  })
}

class HostedServerHandler {
  readonly #platform: Platform
  readonly #access: HostedAccess
  readonly #sessions: HostedSessions
  readonly #states = new WeakMap<FastifyRequest, RequestState>()

  constructor(platform: Platform, authServices: AuthServices, sessions: HostedSessions) {
    this.#platform = platform
    this.#access = new HostedAccess(platform, authServices)
    this.#sessions = sessions
  }

  /** @throws Problem as {@link HostedAccess.authenticate} does */
  async authenticate(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    this.#states.set(request, await this.#access.authenticate(request, reply))
  }

  /** @throws Problem 403 if the token does not allow the called tool, 404 for a session of another client, 429 */
  async serverFor(request: FastifyRequest, message: Message): Promise<McpServer> {
    const state = this.stateOf(request)
    const offer = await readToolListing(state)
    const hosted = { request, state, offer }
    const tool = findCalledTool(hosted, message)
    const isDenied = tool !== undefined && !offer.isGranted(tool)
    const denied = isDenied ? this.#access.denyTool(request, state, tool) : undefined
    if (message.method === 'subscriptions/listen') {
      checkSubscriptions(message.params)
      await this.#acquireStream(state)
      this.#endWithProcess(state)
    }
    const acquireStream = () => this.#acquireStream(state)
    const session = await this.#sessions.openSession(request, state, message, { tool, acquireStream })
    return this.#serverOf(hosted, session, denied)
  }

  #serverOf(
    hosted: HostedRequest,
    session: McpSession | undefined,
    denied: ToolResult | undefined,
  ): McpServer {
    const { state, offer } = hosted
    const { manifest } = offer.version
    const listening = () => this.#listening(hosted)
    return {
      name: manifest.name,
      version: String(state.server.version),
      ...(manifest.description !== '' && { instructions: manifest.description }),
      tools: () => offeredTools(state.client, offer.sets, offer.hasSearch),
      call: messageCall(hosted, denied),
      tasks: flowTasks(hosted),
      hasSessions: true,
      session,
      takeResponse: (id, response) => this.#sessions.takeResponse(state, id, response),
      // A call needs none of these.
      get prompts() {
        return promptsOf(manifest)
      },
      get complete() {
        return completionsFor(manifest)
      },
      get resources() {
        return resourcesOf(manifest, resourceReader(hosted))
      },
      get changes() {
        return changesOf(listening())
      },
    }
  }

  /** Opens the stream of a session. @throws Problem 404 for another one's session, 429 */
  async openStream(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const state = this.stateOf(request)
    const listening = this.#listening({ request, state, offer: await readToolListing(state) })
    await this.#acquireStream(state)
    this.#endWithProcess(state)
    this.#sessions.openStream(request, reply, state, (onChange) => new ServerChanges(listening, onChange))
  }

  /** The state of an authenticated request. */
  stateOf(request: FastifyRequest): RequestState {
    const state = this.#states.get(request)
    if (state === undefined) throw new TypeError('The request is not authenticated')
    return state
  }

  #listening({ request, state, offer }: HostedRequest): Listening {
    const { scope, server, response } = state
    return {
      scope,
      server,
      tools: offer.sets.active,
      isGranted: offer.isGranted,
      recheck: () => this.#access.recheck(request),
      onError: (error) => scope.logError(error, 'subscription failed'),
      end: () => response.end(),
    }
  }

  /** Ends the stream when the process is about to end; its client continues at another one. */
  #endWithProcess({ response }: RequestState): void {
    const end = () => {
      if (!response.writableEnded) response.end(response.headersSent ? `retry: ${reconnectMs()}\n\n` : '')
    }
    onClose(response, this.#platform.drain.addStream(end))
  }

  async #acquireStream({ client, server, response }: RequestState): Promise<void> {
    const { limiter, access } = this.#platform
    const release = await limiter.acquireMcpStream(client, await access.streamsMax(server.ref.tenantId))
    onClose(response, release)
  }
}

/** Finds the tool that the message calls, and notes it for the call log. */
function findCalledTool({ state, offer }: HostedRequest, message: Message): Tool | undefined {
  const called = calledTool(message, offer.hasSearch)
  state.called = called
  const tool = offer.version.manifest.tools.find(({ name }) => name === called?.tool)
  if (tool !== undefined) state.toolScope = scopeOf(state.server.slug, tool)
  return tool
}

/**
 * Finds the tool that a message calls. If a server has the search of tools on, `tool_call` stands for the tool that it names: the
 * scope, the challenge, the rate, the quota and the entry in the log are those of this tool.
 * @returns undefined if the message calls no tool
 */
function calledTool({ method, params }: Message, hasSearch: boolean): CalledTool | undefined {
  if (method !== 'tools/call') return undefined
  const { name: tool, arguments: args } = params ?? {}
  const outer = { tool, arguments: args, isSearch: false, isWithinCall: false }
  if (!hasSearch) return outer
  if (tool === TOOL_SEARCH) return { ...outer, isSearch: true }
  if (tool !== TOOL_CALL) return outer
  const inner = withoutNulls(CALL_INPUT, args ?? {})
  const isInvalid = argumentErrors({ name: TOOL_CALL, input_schema: CALL_INPUT }, inner) !== undefined
  if (isInvalid || !isObject(inner)) return { ...outer, isSearch: true }
  return { tool: inner['name'], arguments: inner['arguments'], isSearch: false, isWithinCall: true }
}
