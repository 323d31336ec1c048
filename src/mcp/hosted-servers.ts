/** Serves hosted MCP servers: verifies the token, offers the tools that its scopes allow, records each call. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { AttemptThrottle } from '../access/authentication/attempt-throttle.ts'
import type { AuthServices } from '../access/authentication/auth-services.ts'
import type { PublishedServer } from '../access/authentication/mcp-server-registry.ts'
import type { McpPrincipal } from '../access/authentication/subject-status.ts'
import type { HostedClaims } from '../access/issuer/embedded-issuer.ts'
import type { WorkspaceScope } from '../access/scope.ts'
import type { Platform } from '../app/platform.ts'
import { LIMITS } from '../core/limits.ts'
import { notFound, Problem } from '../core/problem.ts'
import { isCovered, scopeOf } from '../core/tool-access.ts'
import { callTool, recordCall } from '../features/mcp-servers/call-tool.ts'
import { findPublished, type Published } from '../features/mcp-servers/manifest.ts'
import type { Tool } from '../features/mcp-servers/tool.ts'
import { bearerOf, type End, type Message, mountEndpoint, refuseForeignOrigin } from './endpoint.ts'
import type { WireServer, WireTool } from './wire/wire-server.ts'

const PATH = '/v1/mcp/workspaces/:ws/servers/:server/mcp'

/** The server that a path names, in the caller's spelling. */
interface Place {
  readonly ws: string
  readonly server: string
}

/** What is known of a request between its two halves. */
interface Visit {
  readonly server: PublishedServer
  readonly guest: McpPrincipal
  readonly scope: WorkspaceScope
  readonly startedMs: number
  recorded: boolean
}

export function mountHostedServers(
  app: FastifyInstance,
  platform: Platform,
  authServices: AuthServices,
): void {
  const door = new HostedHandler(platform, authServices)
  mountEndpoint(app, platform.config, {
    path: PATH,
    enter: (request, reply) => door.enter(request, reply),
    open: (request, message) => door.open(request, message),
    ended: (request, end) => door.ended(request, end),
  })
}

class HostedHandler {
  readonly #platform: Platform
  readonly #authServices: AuthServices
  readonly #visits = new WeakMap<FastifyRequest, Visit>()
  /** Anybody can be refused as often as he likes, but may fill a server's record only so far. */
  readonly #deniedLogThrottle = new AttemptThrottle(60_000)

  constructor(platform: Platform, authServices: AuthServices) {
    this.#platform = platform
    this.#authServices = authServices
  }

  /**
   * Whoever shows no token that was made for this address is a stranger; of those, the database is asked for so many and
   * no more.
   * @throws Problem 404 where nothing is published, 403 for a foreign page, 401 with the challenge of RFC 9728, 429
   */
  async enter(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const startedMs = performance.now()
    const params = request.params as Place
    const visitor = this.#platform.limiter.visitor(request.ip)
    const shown = await this.#shown(request, params)
    if (shown instanceof Problem) {
      visitor.tolerate()
      visitor.refuse()
    }
    const server = await this.#authServices.hosted.find(params.ws, params.server)
    if (server === undefined) throw notFound('MCP server')
    const unseen = { place: server.ref, sure: true, before: null, after: null }
    request.auditContext = { ...unseen, actor: { subject: null, role: null, kind: 'nobody' } }
    try {
      refuseForeignOrigin(this.#platform.config, request.headers.origin)
      const guest = await this.#admit(shown, server, params)
      request.auditContext = { ...unseen, actor: { subject: guest.subject, role: null, kind: 'mcp_client' } }
      const { headers, refused } = await this.#platform.limiter.limitMcpClient(guest)
      reply.headers(headers)
      if (refused !== undefined) throw refused
      const scope = this.#platform.access.openHosted(server, guest.subject)
      this.#visits.set(request, { server, guest, scope, startedMs, recorded: false })
    } catch (error) {
      if (error instanceof Problem && error.status < 500) await this.#refusedAtDoor(request, server, error)
      throw error
    }
  }

  /** What the token says, or why it says nothing. */
  async #shown(request: FastifyRequest, { ws, server }: Place): Promise<HostedClaims | Problem> {
    const { hosted, guests } = this.#authServices
    try {
      const token = bearerOf(request)
      if (token === undefined) return new Problem('credentials_missing')
      return await guests.verify(token, hosted.resource(ws, server))
    } catch (error) {
      if (error instanceof Problem && error.status < 500) return error
      throw error
    }
  }

  async #admit(shown: HostedClaims | Problem, server: PublishedServer, at: Place): Promise<McpPrincipal> {
    const { hosted, guests } = this.#authServices
    const challenge = challengeOf(hosted.metadataUrl(at.ws, at.server), server.baseline)
    try {
      if (shown instanceof Problem) throw shown
      return await guests.admit(shown, server)
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 401) throw error
      const invalid = error.code === 'credentials_missing' ? {} : { error: 'invalid_token' }
      const headers = { 'www-authenticate': challenge(invalid), 'cache-control': 'no-store' }
      throw new Problem(error.code, { headers, hint: 'Get an access token for this server.', cause: error })
    }
  }

  async open(request: FastifyRequest, message: Message): Promise<WireServer> {
    const visit = this.#visitOf(request)
    const { server, guest, scope } = visit
    const version = await findPublished(scope, server.id, server.version)
    const { manifest } = version
    const named = message.method === 'tools/call' ? message.params?.name : undefined
    const wanted = manifest.tools.find(({ name }) => name === named)
    const consented = (await findPublished(scope, server.id, guest.consentedVersion)).manifest.tools
    const isConsented = (tool: Tool) => isCovered(tool, consented)
    if (wanted !== undefined) this.#refuseWithoutConsent(request, visit, wanted, isConsented(wanted))
    const allowed = manifest.tools.filter(
      (tool) => guest.scopes.has(scopeOf(server.slug, tool)) && isConsented(tool),
    )
    return {
      name: manifest.name,
      version: String(server.version),
      ...(manifest.description !== '' && { instructions: manifest.description }),
      tools: allowed.map(describe),
      call: async (tool, args) => this.#call(visit, version, request.id, tool, args),
    }
  }

  async #call(visit: Visit, version: Published, requestId: string, tool: string, args: unknown) {
    const { scope, guest, server } = visit
    visit.recorded = true
    const seen = { channel: 'wire', principal: guest.subject, requestId } as const
    const result = await callTool(scope, version, { ...seen, serverId: server.id, tool, arguments: args })
    if (result === undefined) return undefined
    const { content, structured_content, is_error } = result
    return {
      content,
      ...(structured_content && { structuredContent: structured_content }),
      isError: is_error,
    }
  }

  /**
   * Before anything is dispatched, in both eras alike.
   * @param isConsented whether the scope reached the tool, as it is now, when the token's consent was given
   * @throws Problem `insufficient_scope`; its challenge leads the client back to the consent page
   */
  #refuseWithoutConsent(
    request: FastifyRequest,
    { server, guest }: Visit,
    tool: Tool,
    isConsented: boolean,
  ): void {
    const scope = scopeOf(server.slug, tool)
    if (!guest.scopes.has(scope)) {
      const error_description = 'The token does not allow this tool.'
      const detail = `This tool of ${server.slug} needs the scope ${scope}.`
      throw this.#insufficient(request, { scopes: [scope], detail, error_description })
    }
    if (isConsented) return
    // Clients ask their person again only for a scope that they lack. This one is granted to nobody.
    const scopes = [scope, `${scope}@${server.version}`]
    const error_description = 'The scope reaches this tool only since the consent was given.'
    const detail = `The scope ${scope} reaches this tool of ${server.slug} only since the consent was given. Ask for consent again.`
    throw this.#insufficient(request, { scopes, detail, error_description })
  }

  #insufficient(
    request: FastifyRequest,
    refusal: { scopes: readonly string[]; detail: string; error_description: string },
  ): Problem {
    const { scopes, detail, error_description } = refusal
    const at = request.params as Place
    const challenge = challengeOf(this.#authServices.hosted.metadataUrl(at.ws, at.server), scopes)
    const headers = { 'www-authenticate': challenge({ error: 'insufficient_scope', error_description }) }
    return new Problem('insufficient_scope', { detail, headers })
  }

  /** A call that never reached its tool, and a message that was refused, are on record as well. */
  async ended(request: FastifyRequest, { message, status, refused }: End): Promise<void> {
    const visit = this.#visitOf(request)
    if (visit.recorded || (refused === undefined && message.method !== 'tools/call')) return
    visit.recorded = true
    const name = message.params?.name
    await recordCall(visit.scope, {
      serverId: visit.server.id,
      version: visit.server.version,
      ...(typeof name === 'string' && { tool: name }),
      channel: 'wire',
      principal: visit.guest.subject,
      requestId: request.id,
      outcome: refused?.status === 403 ? 'denied' : 'rpc_error',
      transportStatus: status,
      ...(refused && { code: refused.code }),
      ...(refused?.code === 'batch_refused' && { rpcCode: -32_600 }),
      durationMs: Math.round(performance.now() - visit.startedMs),
    })
  }

  async #refusedAtDoor(request: FastifyRequest, server: PublishedServer, problem: Problem): Promise<void> {
    if (!this.#deniedLogThrottle.admit(server.id, LIMITS.mcpStrangersRecordedPerMinute)) return
    await recordCall(this.#platform.access.openHosted(server, 'nobody'), {
      serverId: server.id,
      version: server.version,
      channel: 'wire',
      principal: null,
      requestId: request.id,
      outcome: 'denied',
      transportStatus: problem.status,
      code: problem.code,
      durationMs: 0,
    })
  }

  #visitOf(request: FastifyRequest): Visit {
    const visit = this.#visits.get(request)
    if (visit === undefined) throw new TypeError('a route without its door')
    return visit
  }
}

function challengeOf(metadata: string, scopes: readonly string[]) {
  return ({ error, error_description }: { error?: string; error_description?: string }): string => {
    const parts = {
      ...(error && { error }),
      resource_metadata: metadata,
      scope: scopes.join(' '),
      ...(error_description && { error_description }),
    }
    return `Bearer ${Object.entries(parts)
      .map(([name, value]) => `${name}="${value}"`)
      .join(', ')}`
  }
}

function describe(tool: Tool): WireTool {
  const { name, title, description, input_schema, output_schema, annotations } = tool
  return {
    name,
    title,
    description,
    inputSchema: input_schema,
    ...(output_schema && { outputSchema: output_schema }),
    annotations: { ...annotations },
  }
}
