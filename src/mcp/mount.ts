/** Mounts the MCP endpoints: hosted servers, the platform's server, and the documents that describe them to clients. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { PLATFORM_MCP_PATH, PLATFORM_SCOPES } from '../access/authentication/platform-resource.ts'
import type { AuthServices } from '../app/auth-services.ts'
import type { Platform } from '../app/platform.ts'
import { notFound } from '../core/problem.ts'
import { MCP_LIMITS } from '../features/mcp-servers/limits.ts'
import { issuerUrl } from '../infra/config.ts'
import { ExpiringHashes } from '../infra/valkey/expiring-hashes.ts'
import { Notifier } from '../infra/valkey/notifier.ts'
import { withSlash } from './endpoint.ts'
import { ClientResponses, RESPONSES_CHANNEL } from './hosted/client-responses.ts'
import { mountHostedServers } from './hosted/hosted-servers.ts'
import { HostedSessions } from './hosted/hosted-sessions.ts'
import { mountPlatformServer } from './platform/platform-server.ts'
import { serverJson } from './server-json.ts'

export function mountMcp(app: FastifyInstance, platform: Platform, authServices: AuthServices): void {
  const { VALKEY } = platform.config
  const onError = (error: unknown) => platform.log.error({ err: error }, 'sessions of mcp clients')
  const responses = new ClientResponses(new Notifier(VALKEY, RESPONSES_CHANNEL, onError))
  const states = new ExpiringHashes(VALKEY, MCP_LIMITS.sessionSeconds, onError)
  app.addHook('onClose', () => {
    responses.close()
    states.close()
  })
  mountHostedServers(app, platform, authServices, new HostedSessions(responses, states))
  mountPlatformServer(app, platform, authServices)
  mountMetadata(app, platform, authServices)
  mountServerJson(app, platform, authServices)
}

const PUBLIC = { 'access-control-allow-origin': '*', 'cache-control': 'no-store' }

const PROTECTED_RESOURCE = '/.well-known/oauth-protected-resource'

/** Metadata of the MCP servers (RFC 9728), and of the issuer. */
function mountMetadata(
  app: FastifyInstance,
  platform: Platform,
  { mcpServers: hosted, manifestKeys, platformClients, identity }: AuthServices,
): void {
  const metadata = (
    resource: string,
    name: string,
    scopes: readonly string[],
    issuer = issuerUrl(platform.config),
  ) => ({
    resource,
    authorization_servers: [issuer],
    // Clients ask for all of them at once; the challenge of a tool names what it needs besides.
    ...(scopes.length > 0 && { scopes_supported: scopes }),
    bearer_methods_supported: ['header'],
    resource_name: name,
  })
  const describeHosted = async (request: FastifyRequest, reply: FastifyReply) => {
    const { ws, server: name } = request.params as { ws: string; server: string }
    const server = await hosted.find(ws, name)
    if (server === undefined) throw notFound('MCP server')
    const issuer = server.authorizationServer ?? undefined
    const document = metadata(
      hosted.resource(ws, name),
      server.name,
      await hosted.offeredScopes(server),
      issuer,
    )
    return reply.headers(PUBLIC).send(document)
  }
  const platformServer = metadata(platformClients.resource, 'Tenon', [PLATFORM_SCOPES.read])
  for (const path of withSlash(`${PROTECTED_RESOURCE}/v1/mcp/workspaces/:ws/servers/:server/mcp`))
    app.get(path, describeHosted)
  for (const path of withSlash(`${PROTECTED_RESOURCE}${PLATFORM_MCP_PATH}`))
    app.get(path, async (_request, reply) => reply.headers(PUBLIC).send(platformServer))
  app.get('/.well-known/tenon-manifest-keys', async (_request, reply) =>
    reply.headers(PUBLIC).send(await manifestKeys()),
  )
  // The URL of the issuer has a path, so clients look for its metadata below the root (RFC 8414 §3.1); older ones at the root itself.
  const names = ['oauth-authorization-server', 'openid-configuration']
  for (const path of names.flatMap((name) => [`${name}/auth`, name])) {
    app.get(`/.well-known/${path}`, async (request, reply) => {
      const issuer = await identity()
      reply.raw.setHeader('x-request-id', request.id)
      reply.hijack()
      const { ip: address, id: requestId } = request
      await issuer.handle(request.raw, reply.raw, '/auth/.well-known/openid-configuration', {
        address,
        requestId,
      })
    })
  }
}

/** Public as the metadata of RFC 9728 is. The path is not below /.well-known, so its requests are limited here. */
function mountServerJson(app: FastifyInstance, platform: Platform, { mcpServers }: AuthServices): void {
  app.get('/v1/mcp/workspaces/:ws/servers/:server/server.json', async (request, reply) => {
    const { headers, refused } = await platform.limiter.limitAnonymous(request.ip)
    reply.headers(headers)
    if (refused !== undefined) throw refused
    const { ws, server: name } = request.params as { ws: string; server: string }
    const server = await mcpServers.find(ws, name)
    if (server === undefined) throw notFound('MCP server')
    const url = mcpServers.resource(server.ref.workspaceId, server.slug)
    return reply.headers(PUBLIC).send(serverJson(server, await mcpServers.description(server), url))
  })
}
