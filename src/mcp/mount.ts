/** The MCP door of the platform itself: read operations as tools, over Streamable HTTP, one request at a time. */

import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { FastifyInstance } from 'fastify'
import type { Principal } from '../core/policy.ts'
import { Problem } from '../core/problem.ts'
import type { Authenticator } from '../platform/auth.ts'
import type { Platform } from '../platform/platform.ts'
import { platformServer } from './server.ts'

const PATH = '/v1/mcp/platform/mcp'

/** Mounts the official server. Its credential is an access token; what a tool may do, its operation decides. */
export function mountPlatformServer(app: FastifyInstance, platform: Platform, auth: Authenticator): void {
  app.post(PATH, {
    onRequest: async (request) => {
      request.principal = await principalOf(request.headers.authorization, auth)
    },
    handler: async (request, reply) => {
      const { principal } = request
      if (principal === undefined) throw new Problem('credentials_missing')
      const server = platformServer(platform, principal)
      const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true })
      reply.raw.once('close', () => void server.close())
      reply.raw.setHeader('x-request-id', request.id)
      reply.raw.setHeader('x-stability', 'preview')
      reply.hijack()
      // The SDK's own class types its optional members in a way that exactOptionalPropertyTypes refuses.
      await server.connect(transport as Parameters<typeof server.connect>[0])
      await transport.handleRequest(request.raw, reply.raw, request.body)
    },
  })
  const refuse = async () => {
    throw new Problem('method_not_allowed', {
      headers: { allow: 'POST' },
      detail: 'This endpoint keeps no streams.',
    })
  }
  app.route({ method: ['GET', 'PUT', 'PATCH', 'DELETE'], url: PATH, onRequest: refuse, handler: refuse })
}

async function principalOf(header: string | undefined, auth: Authenticator): Promise<Principal> {
  const [, token] = /^Bearer (\S+)$/i.exec(header ?? '') ?? []
  if (token === undefined) throw new Problem('credentials_missing')
  if (token.startsWith('svc_'))
    throw new Problem('token_invalid', { detail: 'MCP takes access tokens, not API keys.' })
  return auth.authenticate({ kind: 'token', text: token })
}
