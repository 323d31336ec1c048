/** Where a list goes on: the URL of its next page, for `Link: <…>; rel="next"` (RFC 8288). */

import type { FastifyRequest } from 'fastify'
import { type AnyOperation, QUERY_NAMES } from '../core/operation.ts'

/** @returns relative to the origin; undefined where there is no next page, or a URL does not lead to it */
export function nextPage(
  operation: AnyOperation,
  request: FastifyRequest,
  output: unknown,
): string | undefined {
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
