/** Web pages that may call an MCP endpoint: those of `TENON_MCP_ORIGINS` and the platform's own (CORS, Fetch §3.2). */

import type { FastifyReply, FastifyRequest } from 'fastify'
import { Problem } from '../core/problem.ts'
import { type Config, publicUrl } from '../infra/config.ts'

const REQUEST_HEADERS = [
  ...['authorization', 'content-type', 'accept', 'x-request-id'],
  ...['mcp-protocol-version', 'mcp-method', 'mcp-name', 'mcp-session-id', 'last-event-id'],
].join(', ')
const EXPOSED = [
  ...['www-authenticate', 'retry-after', 'ratelimit', 'ratelimit-policy', 'x-request-id'],
  ...['mcp-protocol-version', 'mcp-session-id'],
].join(', ')
const MAX_AGE_S = 7_200

function isAllowed(config: Config, origin: string): boolean {
  const allowed = [new URL(publicUrl(config)).origin, ...config.TENON_MCP_ORIGINS.split(',')]
  return origin !== '' && allowed.includes(origin)
}

/** Rejects web pages of other origins, which would act for their reader. Programs send no origin. */
export function refuseForeignOrigin(config: Config, origin: string | undefined): void {
  if (origin === undefined || isAllowed(config, origin)) return
  throw new Problem('forbidden', { detail: 'Pages of this origin may not call here.' })
}

/** Lets a page of an allowed origin read the reply, refusals included. */
export function allowOrigin(
  config: Config,
  { headers: { origin } }: FastifyRequest,
  reply: FastifyReply,
): void {
  if (origin === undefined || !isAllowed(config, origin)) return
  // On the raw reply: the SDKs write theirs without Fastify.
  reply.raw.setHeader('access-control-allow-origin', origin)
  reply.raw.setHeader('access-control-expose-headers', EXPOSED)
}

/** True if the request is a preflight of an allowed page; then it is answered. */
export function answerPreflight(config: Config, request: FastifyRequest, reply: FastifyReply): boolean {
  const { origin, 'access-control-request-method': wanted } = request.headers
  if (request.method !== 'OPTIONS' || wanted === undefined || origin === undefined) return false
  if (!isAllowed(config, origin)) return false
  allowOrigin(config, request, reply)
  reply
    .code(204)
    .headers({
      'access-control-allow-methods': 'GET, POST',
      'access-control-allow-headers': REQUEST_HEADERS,
      'access-control-max-age': String(MAX_AGE_S),
    })
    .send()
  return true
}
