/** Serves hosted MCP servers: verifies the token, offers the tools that its scopes allow, records each call. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { AttemptThrottle } from '../../access/authentication/attempt-throttle.ts'
import type { AuthServices } from '../../access/authentication/auth-services.ts'
import type { PublishedServer } from '../../access/authentication/mcp-server-registry.ts'
import type { McpPrincipal } from '../../access/authentication/subject-status.ts'
import type { HostedClaims } from '../../access/issuer/embedded-issuer.ts'
import type { Platform } from '../../app/platform.ts'
import { LIMITS } from '../../core/limits.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { readChainDepth } from '../../core/run.ts'
import { scopeOf } from '../../core/tool-access.ts'
import type { CallResult, ToolCall } from '../../features/mcp-servers/calls/call-end.ts'
import { recordCall } from '../../features/mcp-servers/calls/call-log.ts'
import { callTool } from '../../features/mcp-servers/calls/call-tool.ts'
import { keptResultTool } from '../../features/mcp-servers/calls/kept-results.ts'
import { findPublished, type PublishedVersion } from '../../features/mcp-servers/manifest.ts'
import { usesSearch } from '../../features/mcp-servers/search/search-tool-list.ts'
import { runSearchTool, type VisibleTool } from '../../features/mcp-servers/search/search-tools.ts'
import type { Tool } from '../../features/mcp-servers/tool.ts'
import { runTools } from '../../features/mcp-servers/tool-providers/runs.ts'
import { Challenges, challengeOf, missingScope } from '../challenge.ts'
import { bearerOf, type Message, mountEndpoint, type RequestEnd } from '../endpoint.ts'
import { refuseForeignOrigin } from '../origins.ts'
import type { McpServer, McpTasks, ToolResult } from '../protocol/mcp-server.ts'
import { changesOf, checkSubscriptions, type Listening, ServerChanges } from './hosted-changes.ts'
import { completionsFor, promptsOf, resourcesOf } from './hosted-content.ts'
import { responseOf, shownResult } from './hosted-results.ts'
import { type HostedSessions, hasSession } from './hosted-sessions.ts'
import { tasksOf } from './hosted-tasks.ts'
import { isGranted, offeredTools, readsStructuredContent, visibleTools } from './offered-tools.ts'
import type { RequestState } from './request-state.ts'
import { calledTool } from './tool-search.ts'

const PATH = '/v1/mcp/workspaces/:ws/servers/:server/mcp'

/** The server that the path names, as the client writes it. */
interface PathParams {
  readonly ws: string
  readonly server: string
}

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
    onEnd: (request, end) => handler.onEnd(request, end),
  })
}

class HostedServerHandler {
  readonly #platform: Platform
  readonly #authServices: AuthServices
  readonly #sessions: HostedSessions
  readonly #states = new WeakMap<FastifyRequest, RequestState>()
  readonly #challenges = new Challenges()
  /** Limits the entries of unauthenticated requests in the call log of a server. */
  readonly #deniedLogThrottle = new AttemptThrottle(60_000)

  constructor(platform: Platform, authServices: AuthServices, sessions: HostedSessions) {
    this.#platform = platform
    this.#sessions = sessions
    this.#authServices = authServices
  }

  /**
   * Limits the rate of requests without a valid token before it queries the database.
   * @throws Problem 404 if no server is published, 403 for a page of another origin, 401 with the challenge of RFC 9728, 429
   */
  async authenticate(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const startedMs = performance.now()
    const params = request.params as PathParams
    const claims = await this.#verify(request, params)
    if (claims instanceof Problem) {
      const failures = this.#platform.limiter.authFailures(request.ip)
      failures.check()
      failures.record()
    }
    const server = await this.#authServices.mcpServers.find(params.ws, params.server)
    if (server === undefined) throw notFound('MCP server')
    const audited = { owner: server.ref, isVerified: true, before: null, after: null }
    request.auditContext = { ...audited, actor: { subject: null, role: null, kind: 'nobody' } }
    try {
      refuseForeignOrigin(this.#platform.config, request.headers.origin)
      const client = await this.#admit(claims, server, params)
      request.auditContext = {
        ...audited,
        actor: { subject: client.subject, role: null, kind: 'mcp_client' },
      }
      const { headers, refused } = await this.#platform.limiter.limitMcpClient(client)
      reply.headers(headers)
      if (refused !== undefined) throw refused
      const scope = this.#platform.access.openHosted(server, client.subject, readChainDepth(request.headers))
      this.#states.set(request, { server, client, scope, startedMs, response: reply.raw, recorded: false })
    } catch (error) {
      if (error instanceof Problem && error.status < 500)
        await this.#recordDenied(request, server, error, claims)
      throw error
    }
  }

  /** The claims of the token, or the reason why it is not valid. */
  async #verify(request: FastifyRequest, { ws, server }: PathParams): Promise<HostedClaims | Problem> {
    const { mcpServers: hosted, mcpClients: clients } = this.#authServices
    try {
      const token = bearerOf(request)
      if (token === undefined) return new Problem('credentials_missing')
      return await clients.verify(token, hosted.resource(ws, server))
    } catch (error) {
      if (error instanceof Problem && error.status < 500) return error
      throw error
    }
  }

  async #admit(
    claims: HostedClaims | Problem,
    server: PublishedServer,
    { ws, server: name }: PathParams,
  ): Promise<McpPrincipal> {
    const { mcpServers: hosted, mcpClients: clients } = this.#authServices
    try {
      if (claims instanceof Problem) throw claims
      return await clients.admit(claims, server)
    } catch (cause) {
      if (!(cause instanceof Problem) || cause.status !== 401) throw cause
      const error = cause.code === 'credentials_missing' ? undefined : 'invalid_token'
      const challenge = challengeOf(hosted.metadataUrl(ws, name), server.baseline, { error })
      const headers = { 'www-authenticate': challenge, 'cache-control': 'no-store' }
      throw new Problem(cause.code, { headers, hint: 'Get an access token for this server.', cause })
    }
  }

  async serverFor(request: FastifyRequest, message: Message): Promise<McpServer> {
    const state = this.#stateOf(request)
    const { server, client, scope } = state
    const { version, sets, grants } = await offerTo(state)
    const { manifest } = version
    const hasSearch = usesSearch(server.search, manifest.tools)
    const called = calledTool(message, hasSearch)
    state.called = called
    const tool = manifest.tools.find(({ name }) => name === called?.tool)
    if (tool !== undefined) state.toolScope = scopeOf(server.slug, tool)
    const refused =
      tool === undefined || isGranted(tool, client, sets)
        ? undefined
        : this.#insufficientScope(request, state, tool)
    if (refused instanceof Problem) throw refused
    if (message.method === 'subscriptions/listen') {
      checkSubscriptions(message.params)
      await this.#acquireStream(state)
    }
    const session = await this.#sessions.sessionOf(request, state, message, {
      tool,
      acquireStream: () => this.#acquireStream(state),
    })
    return {
      name: manifest.name,
      version: String(server.version),
      ...(manifest.description !== '' && { instructions: manifest.description }),
      tools: () => offeredTools(client, sets, hasSearch),
      prompts: promptsOf(manifest),
      complete: completionsFor(manifest),
      resources: resourcesOf(manifest, {
        isGranted: grants,
        keptResultTool: (handle) => keptResultTool(scope, server.id, handle),
        call: (read, args, via) => {
          state.toolScope = scopeOf(server.slug, read)
          const reading = { tool: read.name, arguments: args, asResource: true, ...(via && { via }) }
          return this.#call(request, state, version, reading)
        },
      }),
      call: async (_name, _args, of) => {
        if (refused !== undefined) return refused
        const call = { tool: String(called?.tool), arguments: called?.arguments, client: of }
        const result = await this.#call(request, state, version, call, () => visibleTools(client, sets))
        return result && responseOf(result, of)
      },
      tasks: this.#tasksOf(request, state, version, grants),
      hasSessions: true,
      session,
      takeResponse: (id, response) => this.#sessions.takeResponse(state, id, response),
      changes: changesOf(this.#listening(request, state, manifest.tools, grants)),
    }
  }

  /** Opens the stream of a session. @throws Problem 404 for another one's session, 429 */
  async openStream(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const state = this.#stateOf(request)
    const { sets, grants } = await offerTo(state)
    const listening = this.#listening(request, state, sets.active, grants)
    await this.#acquireStream(state)
    this.#sessions.openStream(request, reply, state, (onChange) => new ServerChanges(listening, onChange))
  }

  #listening(
    request: FastifyRequest,
    { scope, server, response }: RequestState,
    tools: readonly Tool[],
    grants: (tool: Tool) => boolean,
  ): Listening {
    return {
      scope,
      server,
      tools,
      isGranted: grants,
      recheck: () => this.#recheck(request),
      onError: (error) => scope.logError(error, 'subscription failed'),
      end: () => response.end(),
    }
  }

  async #acquireStream({ client, server, response }: RequestState): Promise<void> {
    const { limiter, access } = this.#platform
    const release = await limiter.acquireMcpStream(client, await access.streamsMax(server.ref.tenantId))
    response.once('close', release)
    // A connection that has closed meanwhile emits no further event.
    if (response.destroyed) release()
  }

  /** The server as it is now. @throws Problem if the token of a request does not admit its client any more */
  async #recheck(request: FastifyRequest): Promise<PublishedServer> {
    const params = request.params as PathParams
    const server = await this.#authServices.mcpServers.find(params.ws, params.server)
    if (server === undefined) throw notFound('MCP server')
    await this.#admit(await this.#verify(request, params), server, params)
    return server
  }

  /** Tasks over the flows that the client may start. Undefined if the version has no tools over flows. */
  #tasksOf(
    request: FastifyRequest,
    state: RequestState,
    version: PublishedVersion,
    grants: (tool: Tool) => boolean,
  ): McpTasks | undefined {
    const flows = version.manifest.tools.filter(({ binding }) => binding.source === 'flows')
    if (flows.length === 0) return undefined
    return tasksOf((verb, args) => {
      const tools = runTools(state.scope, flows.filter(grants))
      const own = { ...version, manifest: { ...version.manifest, tools } }
      return this.#call(request, state, own, { tool: `run_${verb}`, arguments: args })
    }, shownResult)
  }

  async #call(
    request: FastifyRequest,
    state: RequestState,
    version: PublishedVersion,
    call: Pick<ToolCall, 'tool' | 'arguments' | 'client' | 'asResource' | 'via'>,
    visible: () => readonly VisibleTool[] = () => [],
  ): Promise<CallResult | undefined> {
    state.recorded = true
    const { isSearch = false, isWithinCall = false } = state.called ?? {}
    const made = {
      ...callContext(request, state.server),
      ...callerOf(state),
      isStructured: call.asResource || (readsStructuredContent(request) && !isWithinCall),
      ...call,
    }
    return isSearch
      ? runSearchTool(state.scope, version, made, visible)
      : callTool(state.scope, version, made)
  }

  /**
   * The problem of a tool that the token does not allow, or that has more effects than when the user gave consent. Its
   * challenge leads the client to the consent page. For a client that cannot use challenges, the result of the tool.
   */
  #insufficientScope(request: FastifyRequest, state: RequestState, tool: Tool): Problem | ToolResult {
    const { server, client } = state
    const scope = scopeOf(server.slug, tool)
    const hasScope = client.scopes.has(scope)
    // Clients ask for consent only if they lack a scope, so the second one is never granted.
    const scopes = hasScope ? [scope, `${scope}@${server.version}`] : [scope]
    state.toolScope = scopes.at(-1)
    const error_description = hasScope
      ? 'The scope reaches this tool only since the consent was given.'
      : 'The token does not allow this tool.'
    const detail = hasScope
      ? `The scope ${scope} reaches this tool of ${server.slug} only since the consent was given. Ask for consent again.`
      : `This tool of ${server.slug} needs the scope ${scope}.`
    if (!this.#challenges.admits(request, client, scope)) {
      state.deniedCode = 'insufficient_scope'
      return missingScope(detail, scopes, client.scopes)
    }
    const { ws, server: name } = request.params as PathParams
    const error = { error: 'insufficient_scope', error_description }
    const challenge = challengeOf(this.#authServices.mcpServers.metadataUrl(ws, name), scopes, error)
    return new Problem('insufficient_scope', { detail, headers: { 'www-authenticate': challenge } })
  }

  /** Records refused messages, and calls that did not reach a tool; {@link callTool} records the others. */
  async onEnd(request: FastifyRequest, { message, status, refused, ...end }: RequestEnd): Promise<void> {
    const state = this.#stateOf(request)
    if (state.recorded) return
    const rpcCode = end.rpcCode()
    const isRefused = refused !== undefined || rpcCode !== undefined || status >= 400
    if (!isRefused && message.method !== 'tools/call') return
    state.recorded = true
    const { tool, arguments: args } = state.called ?? {
      tool: message.params?.name,
      arguments: message.params?.arguments,
    }
    const code = refused?.code ?? state.deniedCode
    await recordCall(state.scope, {
      ...callContext(request, state.server),
      ...callerOf(state),
      ...(typeof tool === 'string' && { tool }),
      arguments: args,
      outcome: code === 'insufficient_scope' || refused?.status === 403 ? 'denied' : 'rpc_error',
      transportStatus: status,
      rpcCode,
      ...(code !== undefined && { code }),
      durationMs: Math.round(performance.now() - state.startedMs),
    })
  }

  /** Records a request that is not authenticated. A token that is valid, but not admitted, still names its client. */
  async #recordDenied(
    request: FastifyRequest,
    server: PublishedServer,
    problem: Problem,
    claims: HostedClaims | Problem,
  ): Promise<void> {
    if (!this.#deniedLogThrottle.admit(server.id, LIMITS.mcpStrangersRecordedPerMinute)) return
    const known = claims instanceof Problem ? undefined : claims
    await recordCall(this.#platform.access.openHosted(server, 'nobody'), {
      ...callContext(request, server),
      principal: known?.sub ?? null,
      clientId: known?.clientId,
      outcome: 'denied',
      transportStatus: problem.status,
      code: problem.code,
      durationMs: 0,
    })
  }

  #stateOf(request: FastifyRequest): RequestState {
    const state = this.#states.get(request)
    if (state === undefined) throw new TypeError('The request is not authenticated')
    return state
  }
}

/** The active version, its tools beside those that were consented to, and the test if the client may call a tool. */
async function offerTo({ scope, server, client }: RequestState) {
  const version = await findPublished(scope, server.id, server.version)
  const consented = await findPublished(scope, server.id, client.consentedVersion)
  const sets = { active: version.manifest.tools, consented: consented.manifest.tools }
  return { version, sets, grants: (tool: Tool) => isGranted(tool, client, sets) }
}

/** Members of an entry in the log of calls that describe the request. */
const callContext = (request: FastifyRequest, { id, version, versionHash }: PublishedServer) => ({
  channel: 'wire' as const,
  serverId: id,
  version,
  versionHash,
  address: request.ip,
  requestId: request.id,
})

/** Members of an entry in the log of calls that describe the authenticated caller. */
const callerOf = ({ client, toolScope }: RequestState) => ({
  principal: client.subject,
  clientId: client.clientId,
  toolScope,
})
