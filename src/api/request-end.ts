/** Tells when a request has ended, with a response or because its connection has closed, and with which status. */

import type { FastifyReply } from 'fastify'

/** Of a request whose connection closed before a response was sent. No response has it; nginx writes the same into its logs. */
const CLIENT_CLOSED_REQUEST = 499

/**
 * Calls back once, when the whole response was handed to the system, or the connection has closed before. The hook `onResponse` of Fastify
 * is not called for the latter.
 */
export const onEnd = ({ raw }: FastifyReply, callback: () => void): void => void raw.once('close', callback)

/** The status of a request that has ended. */
export const sentStatus = ({ raw, statusCode }: FastifyReply): number =>
  raw.headersSent ? statusCode : CLIENT_CLOSED_REQUEST

/** True if the connection closed while the response was being sent. An event stream is whole at any time. */
export const isCut = (reply: FastifyReply): boolean =>
  reply.raw.headersSent && !reply.raw.writableFinished && !isEventStream(reply)

export function isEventStream(reply: FastifyReply): boolean {
  const type = reply.getHeader('content-type') ?? reply.raw.getHeader('content-type')
  return typeof type === 'string' && type.startsWith('text/event-stream')
}
