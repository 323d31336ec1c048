/**
 * Handles the HTTP requests of an MCP endpoint: POST only, one message per request, host and origin checked. There are two
 * kinds of endpoints. platform-server.ts serves operations of the API to callers with a token for it or for the REST API;
 * hosted-servers.ts serves the tools that a workspace has published, to clients with a token for that server alone.
 */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { finished } from 'node:stream/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { credentialsOf } from '../access/authentication/credentials.ts'
import { exceedsDepth, exceedsMembers } from '../core/json.ts'
import { Problem } from '../core/problem.ts'
import { MCP_LIMITS } from '../features/mcp-servers/limits.ts'
import { type Config, publicUrl } from '../infra/config.ts'
import { comparableHost } from '../infra/host-name.ts'
import type { McpServer } from './protocol/mcp-server.ts'
import { INVALID_REQUEST, serve } from './protocol/transport.ts'

/** The fields of a message that request handlers read. They are not validated. */
export interface Message {
  readonly method?: unknown
  readonly params?: {
    readonly name?: unknown
    readonly arguments?: unknown
  } | null
}

/** The request handlers of an endpoint. */
export interface Endpoint {
  readonly path: string
  /** Authenticates the client, before the body is read. */
  readonly authenticate: (request: FastifyRequest, reply: FastifyReply) => Promise<void>
  /** Returns the server for this message. @throws Problem if the client may not send it */
  readonly serverFor: (request: FastifyRequest, message: Message) => Promise<McpServer>
  /** Opens the stream of a session (GET). Without it, there are no streams. */
  readonly openStream?: (request: FastifyRequest, reply: FastifyReply) => Promise<void>
  /** True if the request names a session. */
  readonly hasSession?: (request: FastifyRequest) => boolean
  /** Called at the end of each authenticated request. */
  readonly onEnd?: (request: FastifyRequest, end: RequestEnd) => Promise<void>
}

export interface RequestEnd {
  readonly message: Message
  readonly status: number
  /** Set if the message is invalid, or `serverFor` has thrown. */
  readonly refused?: Problem
  /** The code of the JSON-RPC error in the response; undefined if it has none. */
  readonly rpcCode: () => number | undefined
}

/** An address with a slash at its end is the same endpoint: some clients append it. */
export function mountEndpoint(app: FastifyInstance, config: Config, endpoint: Endpoint): void {
  for (const path of withSlash(endpoint.path)) mountAt(app, config, { ...endpoint, path })
}

/** A path of a route, and the same with a slash at its end. */
export const withSlash = (path: string): readonly string[] => [path, `${path}/`]

function mountAt(app: FastifyInstance, config: Config, endpoint: Endpoint): void {
  app.post(endpoint.path, {
    config: { operation: { name: 'mcp.message', reads: true } },
    onRequest: async (request, reply) => {
      allowOrigin(config, request, reply)
      refuseForeignHost(config, request)
      await endpoint.authenticate(request, reply)
    },
    handler: async (request, reply) => {
      request.body = withArguments(request.body)
      nameAcceptedTypes(request.raw)
      const message = (request.body ?? {}) as Message
      const rpcCode = watchErrorCode(reply.raw)
      try {
        validateMessage(request.body, request.headers['content-type'])
        await respond(request, reply, await endpoint.serverFor(request, message))
      } catch (error) {
        const refused = error instanceof Problem ? error : new Problem('internal', { cause: error })
        const { code, status } = refused
        const ownCode = () => (code === 'batch_refused' ? INVALID_REQUEST : undefined)
        await endpoint.onEnd?.(request, { message, status, refused, rpcCode: ownCode })
        if (code !== 'batch_refused') throw refused
        return reply.code(status).send(rpcError(INVALID_REQUEST, `${refused.row.title}.`))
      }
      await endpoint.onEnd?.(request, { message, status: reply.raw.statusCode, rpcCode })
    },
  })
  const { openStream, hasSession } = endpoint
  const refuse = async (request: FastifyRequest, reply: FastifyReply) => {
    if (answerPreflight(config, request, reply)) return reply
    throw new Problem('method_not_allowed', {
      headers: { allow: openStream === undefined ? 'POST' : 'GET, POST' },
      detail: 'This endpoint has streams for sessions only, and ends none on request.',
    })
  }
  app.get(endpoint.path, {
    exposeHeadRoute: false,
    config: { operation: { name: 'mcp.message', reads: true } },
    onRequest: async (request, reply) => {
      if (openStream === undefined || hasSession?.(request) !== true) return refuse(request, reply)
      allowOrigin(config, request, reply)
      refuseForeignHost(config, request)
      return endpoint.authenticate(request, reply)
    },
    handler: async (request, reply) => {
      await openStream?.(request, reply)
      return reply
    },
  })
  const method = ['HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
  app.route({ method, url: endpoint.path, onRequest: refuse, handler: refuse })
}

/** Clients of some languages send `arguments: null` for a call without arguments, which the SDKs refuse. */
function withArguments(body: unknown): unknown {
  const { params } = Object(body) as Message
  if (params?.arguments !== null) return body
  const { arguments: _none, ...others } = params
  return { ...Object(body), params: others }
}

/**
 * A client that takes every type, or says nothing, takes both types of responses (RFC 9110 §12.5.1). The SDKs look for their
 * names, in the headers or in the raw ones.
 */
function nameAcceptedTypes({ headers, rawHeaders }: IncomingMessage): void {
  const ranges = headers.accept?.split(',').map((range) => range.split(';')[0]?.trim()) ?? ['*/*']
  if (!ranges.includes('*/*')) return
  headers.accept = 'application/json, text/event-stream'
  rawHeaders.push('accept', headers.accept)
}

/** @throws Problem unless the body is one JSON object of a bounded depth, and of a bounded number of members */
function validateMessage(body: unknown, type: string | undefined): void {
  if (Array.isArray(body)) throw new Problem('batch_refused')
  if (typeof body === 'string' && !type?.startsWith('application/json'))
    throw new Problem('media_type_unsupported', { detail: 'Send application/json.' })
  if (typeof body !== 'object' || body === null)
    throw new Problem('body_invalid', { detail: 'The body must be one JSON-RPC message.' })
  if (exceedsDepth(body, MCP_LIMITS.messageDepthMax))
    throw new Problem('body_invalid', {
      detail: `The message is nested deeper than ${MCP_LIMITS.messageDepthMax}.`,
    })
  if (exceedsMembers(body, MCP_LIMITS.messageMembersMax))
    throw new Problem('body_invalid', {
      detail: `The objects of the message have more than ${MCP_LIMITS.messageMembersMax} members.`,
    })
}

/** Lets the SDK write the response; an error of ours shows only the request id. */
async function respond(request: FastifyRequest, reply: FastifyReply, server: McpServer): Promise<void> {
  const { raw } = reply
  for (const [name, value] of Object.entries(reply.getHeaders())) raw.setHeader(name, value ?? '')
  raw.setHeader('x-stability', 'preview')
  raw.setHeader('cache-control', 'private, no-store')
  reply.hijack()
  try {
    await serve({ request: request.raw, response: raw, body: request.body }, server)
    await finished(raw).catch(() => {}) // The client has disconnected.
  } catch (error) {
    request.log.error({ err: error, request_id: request.id }, 'mcp request failed')
    if (!raw.headersSent) raw.writeHead(500, { 'content-type': 'application/json' })
    raw.end(JSON.stringify(rpcError(-32_603, `Internal error, request ${request.id}.`)))
  }
}

/**
 * Watches what is written to a response, since the SDKs refuse some messages without calling a handler.
 * @returns a function that reads the code of the JSON-RPC error that was written; undefined if there was none
 */
function watchErrorCode(response: ServerResponse): () => number | undefined {
  const chunks: (string | Uint8Array)[] = []
  let bytes = 0
  for (const method of ['write', 'end'] as const) {
    const original = response[method].bind(response) as (...args: unknown[]) => unknown
    const watched = (...args: unknown[]) => {
      const [chunk] = args
      if (typeof chunk === 'string' || chunk instanceof Uint8Array) {
        bytes += chunk.length
        if (bytes <= MCP_LIMITS.errorBytesMax) chunks.push(chunk)
      }
      return original(...args)
    }
    Object.assign(response, { [method]: watched })
  }
  return () => (bytes <= MCP_LIMITS.errorBytesMax ? errorCodeIn(chunks) : undefined)
}

function errorCodeIn(chunks: readonly (string | Uint8Array)[]): number | undefined {
  const text = Buffer.concat(chunks.map((chunk) => Buffer.from(chunk as string))).toString()
  try {
    const code: unknown = JSON.parse(text)?.error?.code
    return Number.isSafeInteger(code) ? (code as number) : undefined
  } catch {
    return undefined // No JSON, such as the empty response to a notification.
  }
}

const rpcError = (code: number, message: string) => ({ jsonrpc: '2.0', id: null, error: { code, message } })

/**
 * Prevents DNS rebinding, by which a web page evades the same-origin policy (MCP, "Security Warning" of Streamable HTTP).
 * @throws Problem `host_not_allowed`
 */
function refuseForeignHost(config: Config, { raw }: FastifyRequest): void {
  const host = comparableHost(raw.headers.host ?? '')
  const own = new URL(publicUrl(config))
  const names = [
    own.host,
    ...(own.port === '' ? [`${own.host}:${own.protocol === 'https:' ? 443 : 80}`] : []),
    ...['localhost', '127.0.0.1', '[::1]'].map((name) => `${name}:${raw.socket.localPort}`),
    ...config.TENON_MCP_HOSTS.split(','),
  ].map(comparableHost)
  if (host === '' || !names.includes(host)) {
    throw new Problem('host_not_allowed', {
      detail: 'MCP servers do not answer under the host name of this request.',
    })
  }
}

/**
 * The bearer token, if there is one. Identity headers of a gateway have no effect here.
 * @throws Problem if there are two credentials, or an API key
 */
export function bearerOf({ headers, raw, query }: FastifyRequest): string | undefined {
  const { rawHeaders } = raw
  const [first] = credentialsOf({ headers, rawHeaders, query: query as Record<string, unknown> })
  if (first?.kind === 'api_key')
    throw new Problem('token_invalid', { detail: 'MCP takes access tokens, not API keys.' })
  return first?.kind === 'token' ? first.text : undefined
}

/** Web pages that may call: those of `TENON_MCP_ORIGINS` and the platform's own (CORS, Fetch §3.2). */
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
function allowOrigin(config: Config, { headers: { origin } }: FastifyRequest, reply: FastifyReply): void {
  if (origin === undefined || !isAllowed(config, origin)) return
  // On the raw reply: the SDKs write theirs without Fastify.
  reply.raw.setHeader('access-control-allow-origin', origin)
  reply.raw.setHeader('access-control-expose-headers', EXPOSED)
}

/** True if the request is a preflight of an allowed page; then it is answered. */
function answerPreflight(config: Config, request: FastifyRequest, reply: FastifyReply): boolean {
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

const REQUEST_HEADERS = [
  ...['authorization', 'content-type', 'accept', 'x-request-id'],
  ...['mcp-protocol-version', 'mcp-method', 'mcp-name', 'mcp-session-id', 'last-event-id'],
].join(', ')
const EXPOSED = [
  ...['www-authenticate', 'retry-after', 'ratelimit', 'ratelimit-policy', 'x-request-id'],
  ...['mcp-protocol-version', 'mcp-session-id'],
].join(', ')
const MAX_AGE_S = 7_200
