/** A feed as server-sent events: heartbeat, a bound on what a slow client may leave unread, a said end. */

import type { OutgoingHttpHeaders } from 'node:http'
import type { FastifyReply } from 'fastify'
import { type Feed, frame } from '../core/bytes.ts'
import { LIMITS } from '../core/limits.ts'
import { Problem } from '../core/problem.ts'

/** Proxies must neither keep nor change it. */
const HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store, no-transform',
  'x-accel-buffering': 'no',
}

/**
 * Frames of one tick leave in one write.
 * @param enter asks for the caller's right once more, and the feed for its own conditions. A stream has no next request at which a key that was revoked, a
 *   token that ran out or a tenant that was suspended would be noticed, so it is asked while it lasts
 */
export function sendFeed(feed: Feed, reply: FastifyReply, enter: () => Promise<void>): void {
  reply.hijack()
  const { raw } = reply
  raw.writeHead(200, { ...(reply.getHeaders() as OutgoingHttpHeaders), ...HEADERS })
  raw.flushHeaders()
  let queued = ''
  const flush = () => {
    if (raw.writableEnded) return
    raw.write(queued)
    queued = ''
    if (raw.writableLength > LIMITS.feedQueueBytesMax) end('slow_consumer')
  }
  const hasRoom = () => raw.writableLength + queued.length < LIMITS.feedQueueBytesMax / 2
  const send = (text: string) => {
    if (queued === '') queueMicrotask(flush)
    queued += text
    return hasRoom()
  }
  const end = (code: string) => {
    stop()
    if (!raw.writableEnded) raw.end(frame({ event: 'end', data: { code } }))
    // Who does not read it all keeps it in our memory no longer than this.
    setTimeout(() => raw.destroy(), LIMITS.drainMs).unref()
  }
  const taken = async () => {
    if (raw.destroyed || hasRoom()) return
    const late = setTimeout(() => end('slow_consumer'), LIMITS.feedStallMs)
    await new Promise<void>((done) => raw.once('drain', done).once('close', done))
    clearTimeout(late)
  }
  const heartbeat = setInterval(() => send(': hb\n\n'), LIMITS.feedHeartbeatMs)
  const watch = setInterval(() => {
    enter()
      .then(() => feed.recheck?.())
      .catch((error: unknown) => {
        // What cannot be asked now is no refusal.
        if (error instanceof Problem && error.status < 500) end(error.code)
      })
  }, LIMITS.feedCheckMs)
  const close = feed.open({ send, taken, end })
  const stop = () => {
    clearInterval(heartbeat)
    clearInterval(watch)
    close()
  }
  raw.once('close', stop)
}
