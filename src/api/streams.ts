/** Streams request and reply bodies, with deadlines for slow senders and readers. */

import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ByteReply, ByteSource } from '../core/bytes.ts'
import { LIMITS } from '../core/limits.ts'
import { Problem } from '../core/problem.ts'

/** In this part of the application any media type is taken, and no byte of a body is read before it is asked for. */
export function acceptStreams(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
}

/** The body, unread. @param ask whether the caller may still do this; it throws where not */
export function sourceOf(request: FastifyRequest, ask: () => Promise<void>): ByteSource {
  const { 'content-length': length, 'transfer-encoding': chunked } = request.headers
  const known = chunked === undefined
  return {
    chunks: chunksOf(request.raw, recheckPeriodically(ask)),
    ...(known && { length: Number(length ?? 0) }),
  }
}

/** Connections whose bodies are timed here. */
const TIMED = new WeakSet<Socket>()

/** Whether the server's own clock is to let the connection be: it knows when a body began, not whether it moves. */
export const hasUploadDeadline = (socket: Socket): boolean => TIMED.has(socket)

/** Ending it early does not end the connection: our answer has yet to go through it. */
async function* chunksOf(raw: FastifyRequest['raw'], ask: () => Promise<void>): AsyncGenerator<Uint8Array> {
  const chunks = raw.iterator({ destroyOnReturn: false })
  const { socket } = raw
  TIMED.add(socket)
  let until = performance.now() + LIMITS.uploadTimeoutMs
  try {
    for (;;) {
      const next = await nextChunk(chunks, Math.min(LIMITS.streamStallMs, until - performance.now()))
      if (next.done === true) return
      until += (next.value.byteLength * 1_000) / LIMITS.uploadBytesPerSecondMin
      yield next.value
      await ask()
    }
  } finally {
    TIMED.delete(socket)
    // Where a chunk is still awaited, this ends when it comes or the connection goes.
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

const TOO_SLOW = `It came too slowly: it may pause for ${LIMITS.streamStallMs} ms, and take ${LIMITS.uploadTimeoutMs} ms and a second for each ${LIMITS.uploadBytesPerSecondMin} bytes.`

/**
 * A stream goes on for minutes in which a key may be revoked or a tenant suspended, so it is asked while it lasts.
 * @returns asks at most once in `feedCheckMs`; what cannot be asked now is no refusal
 */
function recheckPeriodically(ask: () => Promise<void>): () => Promise<void> {
  let asked = performance.now()
  return async () => {
    if (performance.now() - asked < LIMITS.feedCheckMs) return
    asked = performance.now()
    await ask().catch((error: unknown) => {
      if (!(error instanceof Problem) || error.status < 500) throw error
    })
  }
}

/** What a refused sender still sends is read, so that it comes to read our answer; but not for long. */
export function drainBody({ raw }: FastifyRequest): void {
  if (raw.complete || raw.destroyed) return
  const timer = setTimeout(() => raw.destroy(), LIMITS.drainMs)
  raw.once('close', () => clearTimeout(timer)).once('end', () => clearTimeout(timer))
  raw.resume()
}

/** Sends the reply. A client that goes away, or takes nothing for long, ends what feeds it. */
export function sendBytes(
  output: ByteReply,
  request: FastifyRequest,
  reply: FastifyReply,
  ask: () => Promise<void>,
): FastifyReply {
  const { status, headers, chunks, discard } = output
  // What tenants store is never a page of ours: no script of it runs, whatever type it claims.
  reply.code(status).headers({
    'cache-control': 'private, no-cache',
    'content-security-policy': "default-src 'none'; sandbox",
    ...headers,
  })
  if (chunks === undefined) return reply.send()
  // Who has gone while the bytes were being fetched says so no more.
  if (reply.raw.destroyed || request.raw.socket.destroyed) discard?.()
  reply.raw.once('close', () => discard?.())
  if (request.method === 'HEAD') return reply.send()
  return reply.send(Readable.from(withDeadlines(chunks, reply.raw, recheckPeriodically(ask))))
}

/** The chunks, each of which the client has to take in time. What fails after the first of them ends the connection. */
async function* withDeadlines(
  chunks: AsyncIterable<Uint8Array>,
  raw: FastifyReply['raw'],
  ask: () => Promise<void>,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    await ask()
    const late = setTimeout(() => raw.destroy(), LIMITS.streamStallMs)
    try {
      yield chunk
    } finally {
      clearTimeout(late)
    }
  }
}
