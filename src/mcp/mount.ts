/** The MCP doors: hosted servers, the official one, and where their clients find the issuer. */

import type { FastifyInstance } from 'fastify'
import { Problem } from '../core/problem.ts'
import type { Doorkeeper } from '../platform/identity/doorkeeper.ts'
import type { Platform } from '../platform/platform.ts'
import { bearerOf, mountEndpoint, refuseForeignOrigin } from './endpoint.ts'
import { mountHostedServers } from './hosted.ts'
import { platformServer } from './server.ts'
import { mountWellKnown } from './well-known.ts'

export function mountMcp(app: FastifyInstance, platform: Platform, doorkeeper: Doorkeeper): void {
  mountHostedServers(app, platform, doorkeeper)
  mountPlatformServer(app, platform, doorkeeper)
  mountWellKnown(app, platform, doorkeeper)
}

/** The official server. Its credential is an access token; what a tool may do, its operation decides. */
function mountPlatformServer(app: FastifyInstance, platform: Platform, { auth }: Doorkeeper): void {
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
      request.standings = states
      reply.headers(headers)
      if (refused !== undefined) throw refused
    },
    open: async ({ principal, standings, id }) => {
      if (principal === undefined) throw new TypeError('a route without its door')
      return platformServer(platform, principal, id, standings)
    },
  })
}
