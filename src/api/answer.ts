/** An operation's output → status, headers and body; nothing where the caller has it already. */

import type { FastifyReply, FastifyRequest } from 'fastify'
import { matches } from '../core/etag.ts'
import { Serialized } from '../core/json.ts'
import { type AnyOperation, QUERY_NAMES, replyOf } from '../core/operation.ts'

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

/** The URL of the next page, for `Link: <…>; rel="next"` (RFC 8288). @returns relative to the origin; undefined where there is no next page, or a URL does not lead to it */
function nextPage(operation: AnyOperation, request: FastifyRequest, output: unknown): string | undefined {
  if (operation.http.method !== 'GET' || operation.input.properties['page_after'] === undefined)
    return undefined
  const next = (output as { page?: { next?: unknown } }).page?.next
  if (typeof next !== 'string') return undefined
  const [path = '', query] = request.url.split(/\?(.*)/s)
  const parameters = new URLSearchParams(query)
  parameters.set(QUERY_NAMES['page_after'] ?? '', next)
  // What would end the link, or is in no header, is escaped; the query has been by now.
  return `${path.replaceAll(/[^!-~]|[<>"]/g, encodeURIComponent)}?${parameters}`
}
