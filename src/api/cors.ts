/** Cross-origin requests of web pages (CORS, Fetch §3.2) to operations on data. The caller's workspace decides afterwards, in the pipeline. */

import type { FastifyInstance } from 'fastify'
import type { AnyOperation } from '../core/operation.ts'
import { TUS_CAPABILITIES } from '../core/tus.ts'
import { OPERATIONS } from '../features/index.ts'
import { methodsByPath } from './bind.ts'

/** Pages may send keys and tokens to these; administrative routes are for the platform's own pages and for programs. */
const isForPages = ({ domain }: AnyOperation): boolean => domain !== 'structural_admin'

const EXPOSED = [
  ...['etag', 'link', 'location', 'ratelimit', 'ratelimit-policy', 'retry-after'],
  ...['x-problem-code', 'x-request-id', 'x-run-id', 'content-range', 'idempotent-replayed'],
  ...['upload-offset', 'upload-length', 'upload-defer-length', 'upload-metadata', 'upload-expires'],
  ...['tus-resumable', 'tus-max-size', ...Object.keys(TUS_CAPABILITIES)],
].join(', ')

const FOR_PAGES = OPERATIONS.filter(isForPages)

const REQUEST_HEADERS = [
  ...['apikey', 'x-api-key', 'authorization', 'content-type', 'idempotency-key', 'x-request-id'],
  ...FOR_PAGES.flatMap(({ http }) => Object.values(http.headers ?? {})).filter((name) => name !== 'x-meta-*'),
]

/** No cookies are read on these routes, so any page may be let in, without `Access-Control-Allow-Credentials`. */
const ALLOWED = { 'access-control-allow-origin': '*', 'access-control-expose-headers': EXPOSED }

/** Chromium keeps the answer to a preflight request no longer than this. */
const MAX_AGE_S = 7_200

/**
 * Lets pages read the replies of operations on data, errors included, and answers their preflight requests, which carry no
 * credential (Fetch §4.8). These cost nothing but this answer, and are not charged.
 */
export function allowPages(app: FastifyInstance): void {
  const methods = methodsByPath(FOR_PAGES)
  const headers = [...new Set(REQUEST_HEADERS)].join(', ')
  app.addHook('onRequest', (request, reply, done) => {
    const allowed = methods.get(request.routeOptions.url ?? '')
    if (allowed === undefined || request.headers.origin === undefined) return done()
    // On the raw reply: event streams are sent without Fastify.
    for (const [name, value] of Object.entries(ALLOWED)) reply.raw.setHeader(name, value)
    const isPreflight =
      request.method === 'OPTIONS' && request.headers['access-control-request-method'] !== undefined
    if (!isPreflight) return done()
    reply
      .code(204)
      .headers({
        'access-control-allow-methods': [...allowed].join(', '),
        'access-control-allow-headers': headers,
        'access-control-max-age': String(MAX_AGE_S),
      })
      .send()
  })
}
