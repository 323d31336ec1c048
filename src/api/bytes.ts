/** Bytes at the HTTP door: a request's body as a source, a reply as a stream, each ending where the other side does. */

import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ByteReply, ByteSource } from '../core/bytes.ts'
import { LIMITS } from '../core/limits.ts'
import { Problem } from '../core/problem.ts'

/** In this part of the application any media type is taken, and no byte of a body is read before it is asked for. */
export function takeBytes(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
}

/** The body, unread. */
export function sourceOf(request: FastifyRequest): ByteSource {
  const { 'content-length': length, 'transfer-encoding': chunked } = request.headers
  const known = chunked === undefined
  return { chunks: chunksOf(request.raw), ...(known && { length: Number(length ?? 0) }) }
}

/** Ending it early does not end the connection: our answer has yet to go through it. */
async function* chunksOf(raw: FastifyRequest['raw']): AsyncGenerator<Uint8Array> {
  try {
    yield* raw.iterator({ destroyOnReturn: false })
  } catch (cause) {
    throw new Problem('body_incomplete', { cause })
  }
}

/** What a refused sender still sends is read, so that it comes to read our answer; but not for long. */
export function drain({ raw }: FastifyRequest): void {
  if (raw.complete || raw.destroyed) return
  const timer = setTimeout(() => raw.socket.destroy(), LIMITS.drainMs)
  raw.once('close', () => clearTimeout(timer)).once('end', () => clearTimeout(timer))
  raw.resume()
}

/** Sends the reply. A client that goes away ends what feeds it. */
export function sendBytes(output: ByteReply, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const { status, headers, chunks, discard } = output
  // What tenants store is never a page of ours: no script of it runs, whatever type it claims.
  reply.code(status).headers({
    'cache-control': 'private, no-cache',
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; sandbox",
    ...headers,
  })
  if (chunks === undefined) return reply.send()
  reply.raw.once('close', () => discard?.())
  if (request.method === 'HEAD') return reply.send()
  return reply.send(chunks instanceof Readable ? chunks : Readable.from(chunks))
}
