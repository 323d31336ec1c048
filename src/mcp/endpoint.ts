/** An MCP endpoint on HTTP: POST alone, one message a request, host and origin checked, then the wire. */

import { finished } from 'node:stream/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { credentialsOf } from '../access/authentication/credentials.ts'
import { exceedsDepth } from '../core/json.ts'
import { LIMITS } from '../core/limits.ts'
import { Problem } from '../core/problem.ts'
import { type Config, publicUrl } from '../infra/config.ts'
import { serveLegacy } from './wire/legacy.ts'
import { serveModern } from './wire/modern.ts'
import type { Serve, WireServer } from './wire/wire-server.ts'

/** The part of a message that doors look at. Its parts may be of any type: nobody has checked them yet. */
export interface Message {
  readonly id?: unknown
  readonly method?: unknown
  readonly params?: { readonly name?: unknown } | null
}

export interface Endpoint {
  readonly path: string
  /** Refuses before a byte of the body is read. */
  readonly enter: (request: FastifyRequest, reply: FastifyReply) => Promise<void>
  /** The server for this one message. @throws Problem where the caller may not send it */
  readonly open: (request: FastifyRequest, message: Message) => Promise<WireServer>
  /** Told of each request that got past `enter`: the message, and why it was refused, if it was. */
  readonly ended?: (request: FastifyRequest, end: End) => Promise<void>
}

export interface End {
  readonly message: Message
  readonly status: number
  /** Thrown by `open`, or a message that is none. */
  readonly refused?: Problem
}

export function mountEndpoint(app: FastifyInstance, config: Config, endpoint: Endpoint): void {
  app.post(endpoint.path, {
    config: { operation: { name: 'mcp.message', reads: true } },
    onRequest: async (request, reply) => {
      refuseForeignHost(config, request)
      await endpoint.enter(request, reply)
    },
    handler: async (request, reply) => {
      const message = (request.body ?? {}) as Message
      try {
        refuseNonsense(request.body, request.headers['content-type'])
        const server = await endpoint.open(request, message)
        await answer(request, reply, server)
      } catch (error) {
        const refused = error instanceof Problem ? error : new Problem('internal', { cause: error })
        await endpoint.ended?.(request, { message, status: refused.status, refused })
        if (refused.code === 'batch_refused') return sendRpcError(reply, refused)
        throw refused
      }
      await endpoint.ended?.(request, { message, status: reply.raw.statusCode })
    },
  })
  const refuse = async () => {
    throw new Problem('method_not_allowed', {
      headers: { allow: 'POST' },
      detail: 'This endpoint keeps no streams and no sessions.',
    })
  }
  const method = ['GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
  app.route({ method, url: endpoint.path, onRequest: refuse, handler: refuse })
}

/** @throws Problem for what is no JSON, more than one message, or too deep for anything behind to walk */
function refuseNonsense(body: unknown, type: string | undefined): void {
  if (Array.isArray(body)) throw new Problem('batch_refused')
  if (typeof body === 'string' && !type?.startsWith('application/json'))
    throw new Problem('media_type_unsupported', { detail: 'Send application/json.' })
  if (typeof body !== 'object' || body === null)
    throw new Problem('body_invalid', { detail: 'The body must be one JSON-RPC message.' })
  if (exceedsDepth(body, LIMITS.mcpMessageDepthMax))
    throw new Problem('body_invalid', {
      detail: `The message is nested deeper than ${LIMITS.mcpMessageDepthMax}.`,
    })
}

/** From here on the SDK writes the reply; an error of ours shows its request id and nothing else. */
async function answer(request: FastifyRequest, reply: FastifyReply, server: WireServer): Promise<void> {
  const { raw } = reply
  for (const [name, value] of Object.entries(reply.getHeaders())) raw.setHeader(name, value ?? '')
  raw.setHeader('x-stability', 'preview')
  raw.setHeader('cache-control', 'private, no-store')
  reply.hijack()
  try {
    await serve({ request: request.raw, response: raw, body: request.body }, server)
    await finished(raw).catch(() => {}) // a caller that went away is no fault of ours
  } catch (error) {
    request.log.error({ err: error, reqId: request.id }, 'mcp')
    if (!raw.headersSent) raw.writeHead(500, { 'content-type': 'application/json' })
    raw.end(JSON.stringify(rpcError(-32_603, `Internal error, request ${request.id}.`)))
  }
}

const rpcError = (code: number, message: string) => ({ jsonrpc: '2.0', id: null, error: { code, message } })

function sendRpcError(reply: FastifyReply, problem: Problem): FastifyReply {
  return reply.code(problem.status).send(rpcError(-32_600, `${problem.row.title}.`))
}

/**
 * A name of somebody else that leads here is how a web page gets past the same-origin policy (DNS rebinding): it is
 * refused with 403, as an unknown origin is (MCP, "Security Warning" of Streamable HTTP).
 * @throws Problem `host_not_allowed`
 */
function refuseForeignHost(config: Config, { raw }: FastifyRequest): void {
  const host = (raw.headers.host ?? '').toLowerCase()
  const own = new URL(publicUrl(config))
  const names = [
    own.host,
    ...(own.port === '' ? [`${own.host}:${own.protocol === 'https:' ? 443 : 80}`] : []),
    ...LOOPBACK.map((name) => `${name}:${raw.socket.localPort}`),
    ...config.TENON_MCP_HOSTS.toLowerCase().split(','),
  ]
  if (host === '' || !names.includes(host)) {
    throw new Problem('host_not_allowed', {
      detail: 'MCP servers do not answer under the host name of this request.',
    })
  }
}

const LOOPBACK = ['localhost', '127.0.0.1', '[::1]']

/** A page of another origin may not call in its reader's name. Programs send no origin. */
export function refuseForeignOrigin(config: Config, origin: string | undefined): void {
  if (origin === undefined) return
  const allowed = [new URL(publicUrl(config)).origin, ...config.TENON_MCP_ORIGINS.split(',')]
  if (origin === '' || !allowed.includes(origin)) {
    throw new Problem('forbidden', { detail: 'Pages of this origin may not call here.' })
  }
}

/**
 * The bearer token, if there is one. What a gateway says of its callers counts for nothing here.
 * @throws Problem where there are two credentials, or an API key is among them
 */
export function bearerOf({ headers, raw, query }: FastifyRequest): string | undefined {
  const { rawHeaders } = raw
  const [first] = credentialsOf({ headers, rawHeaders, query: query as Record<string, unknown> })
  if (first?.kind === 'api_key')
    throw new Problem('token_invalid', { detail: 'MCP takes access tokens, not API keys.' })
  return first?.kind === 'token' ? first.text : undefined
}

const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion'
const FIRST_MODERN = '2026-07-28'

/** Modern requests say so in their body, each of them; the header alone counts only where it names such a version. */
function isModern(body: unknown, header: string | string[] | undefined): boolean {
  const params = (body as { params?: { _meta?: Record<string, unknown> } } | null)?.params
  if (params?._meta?.[VERSION_KEY] !== undefined) return true
  return typeof header === 'string' && /^\d{4}-\d\d-\d\d$/.test(header) && header >= FIRST_MODERN
}

/** Answers in the era of the request. */
const serve: Serve = (exchange, server) => {
  const { body, request } = exchange
  const era = isModern(body, request.headers['mcp-protocol-version']) ? serveModern : serveLegacy
  return era(exchange, server)
}
