/** Mounts the MCP endpoints: hosted servers, the official server, and the OAuth metadata documents. */

import type { FastifyInstance } from 'fastify'
import type { AuthServices } from '../access/authentication/auth-services.ts'
import type { Platform } from '../app/platform.ts'
import { notFound, Problem } from '../core/problem.ts'
import { issuerUrl } from '../infra/config.ts'
import { bearerOf, mountEndpoint, refuseForeignOrigin } from './endpoint.ts'
import { mountHostedServers } from './hosted-servers.ts'
import { platformServer } from './platform-server.ts'

export function mountMcp(app: FastifyInstance, platform: Platform, authServices: AuthServices): void {
  mountHostedServers(app, platform, authServices)
  mountPlatformServer(app, platform, authServices)
  mountWellKnown(app, platform, authServices)
}

/** The official server. Its credential is an access token; what a tool may do, its operation decides. */
function mountPlatformServer(app: FastifyInstance, platform: Platform, { auth }: AuthServices): void {
  mountEndpoint(app, platform.config, {
    path: '/v1/mcp/platform/mcp',
    enter: async (request, reply) => {
      refuseForeignOrigin(platform.config, request.headers.origin)
      const token = bearerOf(request)
      if (token === undefined) throw new Problem('credentials_missing')
      const principal = await auth.authenticate({ kind: 'token', text: token })
      request.principal = principal
      // Tools need one role or another, and administration waits for Valkey here as well.
      const { headers, refused, states } = await platform.limiter.limitPrincipal(
        principal,
        principal.roles[0] ?? 'anon',
        request.ip,
      )
      request.rateLimits = states
      reply.headers(headers)
      if (refused !== undefined) throw refused
    },
    open: async ({ principal, rateLimits, id }) => {
      if (principal === undefined) throw new TypeError('a route without its door')
      return platformServer(platform, principal, id, rateLimits)
    },
  })
}

const CONFIGURATION = '/auth/.well-known/openid-configuration'
const ANYBODY = { 'access-control-allow-origin': '*', 'cache-control': 'no-store' }

function mountWellKnown(app: FastifyInstance, platform: Platform, authServices: AuthServices): void {
  const { mcpServers: hosted, identity } = authServices
  app.get(
    '/.well-known/oauth-protected-resource/v1/mcp/workspaces/:ws/servers/:server/mcp',
    async (request, reply) => {
      const { ws, server: name } = request.params as { ws: string; server: string }
      const server = await hosted.find(ws, name)
      if (server === undefined) throw notFound('MCP server')
      return reply.headers(ANYBODY).send({
        resource: hosted.resource(ws, name),
        authorization_servers: [issuerUrl(platform.config)],
        scopes_supported: server.baseline,
        bearer_methods_supported: ['header'],
        resource_name: server.name,
      })
    },
  )
  // The issuer has a path, so its documents stand below the root as well (RFC 8414 §3.1).
  for (const name of ['oauth-authorization-server', 'openid-configuration']) {
    app.get(`/.well-known/${name}/auth`, async (request, reply) => {
      const issuer = await identity()
      reply.raw.setHeader('x-request-id', request.id)
      reply.hijack()
      await issuer.handle(request.raw, reply.raw, CONFIGURATION, {
        address: request.ip,
        requestId: request.id,
      })
    })
  }
}
