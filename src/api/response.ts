/** Sends an operation's output: status, headers and body, 304 for a held tag, or server-sent events. */

import type { OutgoingHttpHeaders } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { ACCESS_LIMITS } from '../access/limits.ts'
import { type Drain, reconnectMs } from '../app/drain.ts'
import { type END_EVENT, type Feed, frame } from '../core/bytes.ts'
import { matches } from '../core/etag.ts'
import { Serialized } from '../core/json.ts'
import { type AnyOperation, QUERY_NAMES, replyOf } from '../core/operation.ts'
import { Problem } from '../core/problem.ts'
import { EVENT_LIMITS } from '../features/events/limits.ts'
import { onClose } from '../infra/connections.ts'
import { API_LIMITS } from './limits.ts'

/** @param input as it was bound, for the Location header */
export function sendResponse(
  operation: AnyOperation,
  input: Record<string, unknown>,
  output: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): unknown {
  const { status, location, etag, replyBody, replyHeaders = {} } = operation.http
  reply.code(status?.(output) ?? 200).header('cache-control', 'private, no-store')
  if (operation.stability !== 'stable') reply.header('x-stability', operation.stability)
  const address = location?.(output, input)
  if (address !== undefined) reply.header('location', address)
  const tag = etag?.(output)
  if (tag !== undefined) reply.header('etag', tag)
  if (tag !== undefined && isNotModified(request, tag)) return reply.code(304).send()
  const next = nextPage(operation, request, output)
  if (next !== undefined) reply.header('link', `<${next}>; rel="next"`)
  for (const [field, name] of Object.entries(replyHeaders))
    reply.header(name, String((output as Record<string, unknown>)[field]))
  if (output instanceof Serialized) return reply.type('application/json; charset=utf-8').send(output.json)
  if (replyBody === undefined) return output
  // Serialized here: Fastify would not send a bare string or null as JSON.
  return reply.type('application/json; charset=utf-8').send(JSON.stringify(replyOf(operation, output)))
}

/** True if If-None-Match of a read names the tag (RFC 9110 §13.1.2). */
function isNotModified({ method, headers }: FastifyRequest, tag: string): boolean {
  const list = headers['if-none-match']
  return list !== undefined && (method === 'GET' || method === 'HEAD') && matches(list, tag, 'weak')
}

/** The URL of the next page, relative to the origin, for `Link: <…>; rel="next"` (RFC 8288); undefined if there is none. */
function nextPage(operation: AnyOperation, request: FastifyRequest, output: unknown): string | undefined {
  if (operation.http.method !== 'GET' || operation.input.properties['page_after'] === undefined)
    return undefined
  const next = (output as { page?: { next?: unknown } }).page?.next
  if (typeof next !== 'string') return undefined
  const [path = '', query] = request.url.split(/\?(.*)/s)
  const parameters = new URLSearchParams(query)
  parameters.set(QUERY_NAMES['page_after'] ?? '', next)
  // Escapes characters that end the link or are invalid in headers; URLSearchParams has escaped the query.
  return `${path.replaceAll(/[^!-~]|[<>"]/g, encodeURIComponent)}?${parameters}`
}

/** Proxies must neither cache nor buffer a stream. */
export const EVENT_STREAM_HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store, no-transform',
  'x-accel-buffering': 'no',
}

/**
 * True if a stream was refused for now only, to a client that asks for server-sent events: an `EventSource` never tries again
 * after a status that is not 200 (HTML §9.2.3).
 */
export function endsAsStream({ status }: Problem, { headers, routeOptions }: FastifyRequest): boolean {
  const { operation } = routeOptions.config
  const isForNow = status === 429 || status === 503
  return isForNow && operation?.http?.reply === 'feed' && /\btext\/event-stream\b/.test(headers.accept ?? '')
}

/** @param problem as JSON @param retryAfter seconds */
export function endedStream(problem: string, retryAfter: string | undefined): string {
  const retryMs = Math.max(EVENT_LIMITS.streamRetryMs, Number(retryAfter ?? 0) * 1_000)
  return `retry: ${retryMs}\nevent: end\ndata: ${problem}\n\n`
}

/**
 * Sends a feed as server-sent events. Frames of one tick are sent in one write.
 * @param options `drain` ends the stream with the process; `recheck` throws if the caller lost its right: a revoked key, an expired token or a suspended tenant must end a
 *   stream, which has no next request
 */
export function sendEventStream(
  feed: Feed,
  reply: FastifyReply,
  { recheck, drain }: { readonly recheck: () => Promise<void>; readonly drain: Drain },
): void {
  reply.hijack()
  const { raw } = reply
  raw.writeHead(200, { ...(reply.getHeaders() as OutgoingHttpHeaders), ...EVENT_STREAM_HEADERS })
  raw.flushHeaders()
  let queued = ''
  const flush = () => {
    if (raw.writableEnded) return
    raw.write(queued)
    queued = ''
    if (raw.writableLength > EVENT_LIMITS.streamQueueBytesMax) end('slow_consumer')
  }
  const hasRoom = () => raw.writableLength + queued.length < EVENT_LIMITS.streamQueueBytesMax / 2
  const send = (text: string) => {
    if (queued === '') queueMicrotask(flush)
    queued += text
    return hasRoom()
  }
  const end = (code: string, retryMs?: number) => {
    stop()
    const retry = retryMs === undefined ? '' : `retry: ${retryMs}\n`
    if (!raw.writableEnded)
      raw.end(queued + retry + frame<typeof END_EVENT>({ event: 'end', data: { code } }))
    queued = ''
    // Bounds the memory that a client takes by not reading.
    setTimeout(() => raw.destroy(), API_LIMITS.drainMs).unref()
  }
  const drained = async () => {
    if (raw.destroyed || hasRoom()) return
    const late = setTimeout(() => end('slow_consumer'), EVENT_LIMITS.streamStallMs)
    await new Promise<void>((done) => raw.once('drain', done).once('close', done))
    clearTimeout(late)
  }
  const heartbeat = setInterval(() => void sendHeartbeat(feed, send), EVENT_LIMITS.streamHeartbeatMs)
  const watch = setInterval(() => {
    recheck()
      .then(() => feed.recheck?.())
      .catch((error: unknown) => {
        // A check that fails on the server is no refusal.
        if (error instanceof Problem && error.status < 500) end(error.code)
      })
  }, ACCESS_LIMITS.streamCheckMs)
  const close = feed.open({ send, drained, end })
  // The client reads on at another process, after the last id that it has got.
  const forget = drain.addStream(() => end('draining', reconnectMs()))
  const stop = () => {
    forget()
    clearInterval(heartbeat)
    clearInterval(watch)
    close()
  }
  onClose(raw, stop)
}

/** A frame without data fires no event, but a browser keeps its id as the last one (HTML §9.2.6). */
async function sendHeartbeat(feed: Feed, send: (text: string) => void): Promise<void> {
  // Without its store a feed has no position; the connection is kept alive all the same.
  const position = await feed.position?.().catch(() => undefined)
  send(position === undefined ? ': hb\n\n' : `: hb\nid: ${position}\n\n`)
}
