/** Access of clients to a hosted server: verifies their tokens, and answers with challenges if a token or a scope is missing. */

import type { FastifyReply, FastifyRequest } from 'fastify'
import { ANONYMOUS } from '../../access/audit/entry.ts'
import { AttemptThrottle } from '../../access/authentication/attempt-throttle.ts'
import type { HostedClaims } from '../../access/authentication/claims.ts'
import type { McpPrincipal } from '../../access/authentication/mcp-clients.ts'
import type { PublishedServer } from '../../access/authentication/mcp-server-registry.ts'
import { privilege } from '../../access/privileges.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import type { AuthServices } from '../../app/auth-services.ts'
import type { Platform } from '../../app/platform.ts'
import { readChainDepth } from '../../core/execution.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { scopeOf } from '../../core/tool-access.ts'
import { recordCall } from '../../features/mcp-servers/calls/call-log.ts'
import { MCP_LIMITS } from '../../features/mcp-servers/limits.ts'
import type { Tool } from '../../features/mcp-servers/tool.ts'
import { Challenges, challengeOf, missingScope } from '../challenge.ts'
import { bearerOf } from '../endpoint.ts'
import { refuseForeignOrigin } from '../origins.ts'
import type { ToolResult } from '../protocol/mcp-server.ts'
import { callContext, type RequestState } from './request-state.ts'

const openHosted = privilege('mcp.hosted')

/** The server that the path names, as the client writes it. */
interface PathParams {
  readonly ws: string
  readonly server: string
}

export class HostedAccess {
  readonly #platform: Platform
  readonly #authServices: AuthServices
  readonly #challenges = new Challenges()
  /** Limits the entries of unauthenticated requests in the call log of a server. */
  readonly #deniedLogThrottle = new AttemptThrottle(60_000)

  constructor(platform: Platform, authServices: AuthServices) {
    this.#platform = platform
    this.#authServices = authServices
  }

  /**
   * Limits the rate of requests without a valid token before it queries the database.
   * @throws Problem 404 if no server is published, 403 for a page of another origin, 401 with the challenge of RFC 9728, 429
   */
  async authenticate(request: FastifyRequest, reply: FastifyReply): Promise<RequestState> {
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
    request.auditContext = { ...audited, actor: ANONYMOUS }
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
      const scope = this.#open(server, client.subject, readChainDepth(request.headers))
      return { server, client, scope, startedMs, response: reply.raw, recorded: false }
    } catch (error) {
      if (error instanceof Problem && error.status < 500)
        await this.#recordDenied(request, server, error, claims)
      throw error
    }
  }

  /** @param chainDepth how many calls of other servers are around this one */
  #open({ ref }: PublishedServer, subject: string, chainDepth?: number): WorkspaceScope {
    const depth = chainDepth === undefined ? {} : { chainDepth }
    return openHosted(this.#platform.access, ref, { subject, role: 'workspace_admin', ...depth })
  }

  /** The server as it is now. @throws Problem if the token of a request does not admit its client any more */
  async recheck(request: FastifyRequest): Promise<PublishedServer> {
    const params = request.params as PathParams
    const server = await this.#authServices.mcpServers.find(params.ws, params.server)
    if (server === undefined) throw notFound('MCP server')
    await this.#admit(await this.#verify(request, params), server, params)
    return server
  }

  /**
   * Denies a tool that the token does not allow, or that has more effects than when the user gave consent.
   * @returns the result of the call, for a client that cannot use challenges
   * @throws Problem 403 whose challenge leads the client to the consent page
   */
  denyTool(request: FastifyRequest, state: RequestState, tool: Tool): ToolResult {
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
      return missingScope(detail, scopes, client.namedScopes)
    }
    const { ws, server: name } = request.params as PathParams
    const error = { error: 'insufficient_scope', error_description }
    const challenge = challengeOf(this.#authServices.mcpServers.metadataUrl(ws, name), scopes, error)
    throw new Problem('insufficient_scope', { detail, headers: { 'www-authenticate': challenge } })
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
      const challenge = challengeOf(hosted.metadataUrl(ws, name), await hosted.offeredScopes(server), {
        error,
      })
      const headers = { 'www-authenticate': challenge, 'cache-control': 'no-store' }
      throw new Problem(cause.code, { headers, hint: 'Get an access token for this server.', cause })
    }
  }

  /** Records a request that is not authenticated. A token that is valid, but not admitted, still names its client. */
  async #recordDenied(
    request: FastifyRequest,
    server: PublishedServer,
    problem: Problem,
    claims: HostedClaims | Problem,
  ): Promise<void> {
    if (!this.#deniedLogThrottle.admit(server.id, MCP_LIMITS.deniedRecordedPerMinuteMax)) return
    const known = claims instanceof Problem ? undefined : claims
    await recordCall(this.#open(server, 'anonymous'), {
      ...callContext(request, server),
      principal: known?.sub ?? null,
      clientId: known?.clientId,
      outcome: 'denied',
      transportStatus: problem.status,
      code: problem.code,
      durationMs: 0,
    })
  }
}
