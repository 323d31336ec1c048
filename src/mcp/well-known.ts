/** Where OAuth clients look: whose tokens a hosted server takes (RFC 9728), and what the issuer is (RFC 8414). */

import type { FastifyInstance } from 'fastify'
import { notFound } from '../core/problem.ts'
import { issuerUrl } from '../platform/config.ts'
import type { Doorkeeper } from '../platform/identity/doorkeeper.ts'
import type { Platform } from '../platform/platform.ts'

const CONFIGURATION = '/auth/.well-known/openid-configuration'
const ANYBODY = { 'access-control-allow-origin': '*', 'cache-control': 'no-store' }

export function mountWellKnown(app: FastifyInstance, platform: Platform, doorkeeper: Doorkeeper): void {
  const { hosted, identity } = doorkeeper
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
