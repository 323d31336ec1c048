/** Streams request and reply bodies, with deadlines for slow senders and readers. */

import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { ACCESS_LIMITS } from '../access/limits.ts'
import type { ByteReply, ByteSource, RawRequest } from '../core/bytes.ts'
import { Problem } from '../core/problem.ts'
import { onClose } from '../infra/connections.ts'
import { API_LIMITS } from './limits.ts'

/** Makes a part of the application accept any media type, and leave bodies unread. */
export function acceptStreams(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
}

/** The unread body. @param recheck throws if the caller lost the right meanwhile */
export function sourceOf(request: FastifyRequest, recheck: () => Promise<void>): ByteSource {
  const { 'content-length': length, 'transfer-encoding': chunked } = request.headers
  const known = chunked === undefined
  return {
    chunks: readChunks(request.raw, recheckPeriodically(recheck)),
    ...(known && { length: Number(length ?? 0) }),
  }
}

/** The request as it came. @param recheck as of {@link sourceOf} */
export function rawRequest(
  request: FastifyRequest,
  reply: FastifyReply,
  recheck: () => Promise<void>,
): RawRequest {
  const { rawHeaders, url = '' } = request.raw
  const pairs = rawHeaders.flatMap((name, at) =>
    at % 2 === 0 ? [[name, rawHeaders[at + 1] ?? ''] as const] : [],
  )
  return {
    method: request.method,
    target: url,
    headers: pairs,
    address: request.ip,
    id: request.id,
    body: sourceOf(request, recheck),
    gone: whenGone(reply),
  }
}

/** Of replies that {@link whenGone} watches. */
const GONE = new WeakMap<FastifyReply['raw'], AbortController>()

/**
 * Aborted when the connection closes before the client has the whole response. The reason is a Problem if the caller lost its
 * right meanwhile; otherwise the client has closed it.
 */
export function whenGone({ raw }: FastifyReply): AbortSignal {
  const controller = new AbortController()
  GONE.set(raw, controller)
  onClose(raw, () => {
    if (!raw.writableFinished) controller.abort()
  })
  return controller.signal
}

/** Connections whose body has a deadline here. */
const TIMED = new WeakSet<Socket>()

/** True if the server's own request timeout must not apply: it does not know whether a body makes progress. */
export const hasUploadDeadline = (socket: Socket): boolean => TIMED.has(socket)

/** Ending early does not close the connection, which still has to carry the reply. */
async function* readChunks(
  raw: FastifyRequest['raw'],
  recheck: () => Promise<void>,
): AsyncGenerator<Uint8Array> {
  const chunks = raw.iterator({ destroyOnReturn: false })
  const { socket } = raw
  TIMED.add(socket)
  let until = performance.now() + API_LIMITS.bodyTimeoutMs
  try {
    for (;;) {
      const next = await nextChunk(chunks, Math.min(API_LIMITS.streamStallMs, until - performance.now()))
      // Before the end is told: what the body is for happens then.
      if (next.done === true) return await recheck()
      until += (next.value.byteLength * 1_000) / API_LIMITS.uploadBytesPerSecondMin
      yield next.value
      await recheck()
    }
  } finally {
    TIMED.delete(socket)
    // A pending read ends with the next chunk, or when the connection closes.
    chunks.return?.().catch(() => {})
  }
}

async function nextChunk(chunks: AsyncIterator<Uint8Array>, ms: number): Promise<IteratorResult<Uint8Array>> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Problem('body_incomplete', { detail: TOO_SLOW })), ms)
  })
  try {
    return await Promise.race([chunks.next(), late])
  } catch (cause) {
    throw cause instanceof Problem ? cause : new Problem('body_incomplete', { cause })
  } finally {
    clearTimeout(timer)
  }
}

const TOO_SLOW = `It came too slowly: it may pause for ${API_LIMITS.streamStallMs} ms, and take ${API_LIMITS.bodyTimeoutMs} ms and a second for each ${API_LIMITS.uploadBytesPerSecondMin} bytes.`

/**
 * A key may be revoked or a tenant suspended during the minutes that a stream takes.
 * @returns checks again at most once in `feedCheckMs`; a check that fails on the server is no refusal
 */
function recheckPeriodically(recheck: () => Promise<void>): () => Promise<void> {
  let checkedMs = performance.now()
  return async () => {
    if (performance.now() - checkedMs < ACCESS_LIMITS.streamCheckMs) return
    checkedMs = performance.now()
    await recheck().catch((error: unknown) => {
      if (!(error instanceof Problem) || error.status < 500) throw error
    })
  }
}

/**
 * The text of a reply to a request whose body is rejected before it has arrived. The client gets the reply at once, but the
 * response ends only after the rest of the body was read for a while: many clients read it only after they have sent the whole
 * body, and with `Connection: close` the server would close the connection before.
 */
export function replyBeforeBody(text: string, request: FastifyRequest): string | Readable {
  if (!isBodyPending(request)) return text
  const pieces = async function* () {
    yield text
    await drainBody(request)
  }
  return Readable.from(pieces())
}

/** Closes the connection if the sender has not ended the body in time, since what follows is no request. */
export function closeUndrained(request: FastifyRequest): void {
  if (isBodyPending(request))
    void drainBody(request).then(() => request.raw.complete || request.raw.destroy())
}

function isBodyPending({ raw }: FastifyRequest): boolean {
  const { 'content-length': length, 'transfer-encoding': encoding } = raw.headers
  return !raw.complete && !raw.destroyed && (encoding !== undefined || Number(length ?? 0) > 0)
}

/** Bodies that are being read, and thrown away. */
const DRAINED = new WeakMap<FastifyRequest['raw'], Promise<void>>()

/** Reads a body to its end, but at most `drainBytesMax`, and for `drainMs`. */
function drainBody({ raw }: FastifyRequest): Promise<void> {
  const known = DRAINED.get(raw)
  if (known !== undefined) return known
  const { promise, resolve: done } = Promise.withResolvers<void>()
  DRAINED.set(raw, promise)
  const timer = setTimeout(done, API_LIMITS.drainMs)
  let bytes = 0
  const count = ({ byteLength }: Uint8Array) => {
    bytes += byteLength
    if (bytes <= API_LIMITS.drainBytesMax) return
    // A client that cannot send any more reads its reply, which closing the connection on unread bytes would discard.
    raw.off('data', count).pause()
    setTimeout(done, API_LIMITS.drainLingerMs)
  }
  raw.on('data', count)
  for (const event of ['end', 'close', 'error']) raw.once(event, () => done())
  raw.resume()
  return promise.finally(() => clearTimeout(timer))
}

/** Sends a reply of bytes. A client that disconnects, or reads nothing for long, ends its source. */
export function sendBytes(
  output: ByteReply,
  request: FastifyRequest,
  reply: FastifyReply,
  recheck: () => Promise<void>,
): FastifyReply {
  const { status, headers, chunks, discard } = output
  // Scripts in objects of tenants must not run on this origin, whatever their type.
  reply.code(status).headers({
    'cache-control': 'private, no-cache',
    // Its credential is never a cookie, so a page that embeds it has been given the key; CORS decides who reads it.
    'cross-origin-resource-policy': 'cross-origin',
    'content-security-policy': "default-src 'none'; sandbox",
    ...headers,
    ...(headers['vary'] !== undefined && { vary: joined(reply.getHeader('vary'), headers['vary']) }),
  })
  if (chunks === undefined) return reply.send()
  // A connection that has closed meanwhile emits no further event.
  if (reply.raw.destroyed || request.raw.socket.destroyed) discard?.()
  reply.raw.once('close', () => discard?.())
  if (request.method === 'HEAD') return reply.send()
  return reply.send(Readable.from(withDeadlines(chunks, reply.raw, recheckPeriodically(recheck))))
}

/** The members of lists in headers, each once. */
const joined = (...lists: readonly unknown[]): string =>
  [...new Set(lists.flatMap((list) => String(list ?? '').split(/[\s,]+/)))]
    .filter((one) => one !== '')
    .join(', ')

/** The chunks, each of which the client must read in time. A failure after the first one closes the connection. */
async function* withDeadlines(
  chunks: AsyncIterable<Uint8Array>,
  raw: FastifyReply['raw'],
  recheck: () => Promise<void>,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    await recheck().catch((refusal: unknown) => {
      GONE.get(raw)?.abort(refusal)
      throw refusal
    })
    const late = setTimeout(() => raw.destroy(), API_LIMITS.streamStallMs)
    try {
      yield chunk
    } finally {
      clearTimeout(late)
    }
  }
}
