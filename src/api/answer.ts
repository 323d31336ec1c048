/** An operation's output → status, headers and body; nothing where the caller has it already. */

import type { FastifyReply, FastifyRequest } from 'fastify'
import { matches } from '../core/etag.ts'
import { type AnyOperation, replyOf } from '../core/operation.ts'
import { Serialized } from '../core/serialized.ts'
import { nextPage } from './links.ts'

/** @param input as it was bound, for the address of what was made */
export function answer(
  operation: AnyOperation,
  input: Record<string, unknown>,
  output: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): unknown {
  const { status, location, etag, replyBody, replyHeaders = {} } = operation.http
  reply.code(status?.(output) ?? 200).header('cache-control', 'private, no-store')
  if (operation.stability !== 'stable') reply.header('x-stability', operation.stability)
  const where = location?.(output, input)
  if (where !== undefined) reply.header('location', where)
  const tag = etag?.(output)
  if (tag !== undefined) reply.header('etag', tag)
  if (tag !== undefined && isHeld(request, tag)) return reply.code(304).send()
  const next = nextPage(operation, request, output)
  if (next !== undefined) reply.header('link', `<${next}>; rel="next"`)
  for (const [field, name] of Object.entries(replyHeaders))
    reply.header(name, String((output as Record<string, unknown>)[field]))
  if (output instanceof Serialized) return reply.type('application/json; charset=utf-8').send(output.json)
  if (replyBody === undefined) return output
  // Any JSON value: a bare text or null would be sent as something else.
  return reply.type('application/json; charset=utf-8').send(JSON.stringify(replyOf(operation, output)))
}

/** RFC 9110 §13.1.2: of a read, the caller has what it names. */
function isHeld({ method, headers }: FastifyRequest, tag: string): boolean {
  const list = headers['if-none-match']
  return list !== undefined && (method === 'GET' || method === 'HEAD') && matches(list, tag, 'weak')
}
