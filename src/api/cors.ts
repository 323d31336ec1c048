/** Cross-origin requests of web pages (CORS, Fetch §3.2) to operations on data. The caller's workspace decides afterwards, in the pipeline. */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { AnyOperation } from '../core/operation.ts'
import { TUS_CAPABILITIES } from '../core/tus.ts'
import { OPERATIONS } from '../features/index.ts'
import { methodsByPath } from './bind.ts'
import { S3_URLS } from './s3/s3-request.ts'

/** Pages may send keys and tokens to these; administrative routes are for the platform's own pages and for programs. */
const isForPages = ({ domain }: AnyOperation): boolean => domain !== 'structural_admin'

const EXPOSED = [
  ...['etag', 'link', 'location', 'ratelimit', 'ratelimit-policy', 'retry-after'],
  ...['x-problem-code', 'x-request-id', 'x-run-id', 'content-range', 'idempotent-replayed'],
  ...['upload-offset', 'upload-length', 'upload-defer-length', 'upload-metadata', 'upload-expires'],
  ...['tus-resumable', 'tus-max-size', ...Object.keys(TUS_CAPABILITIES)],
  ...['x-amz-request-id', 'accept-ranges', 'content-disposition', 'last-modified'],
].join(', ')

const FOR_PAGES = OPERATIONS.filter(isForPages)

const REQUEST_HEADERS = [
  ...['apikey', 'x-api-key', 'authorization', 'content-type', 'idempotency-key', 'x-request-id'],
  ...FOR_PAGES.flatMap(({ http }) => Object.values(http.headers ?? {})).filter((name) => name !== 'x-meta-*'),
]

/** No cookies are read on these routes, so any page may be let in, without `Access-Control-Allow-Credentials`. */
const ALLOWED = { 'access-control-allow-origin': '*', 'access-control-expose-headers': EXPOSED }

/** Pages use the S3 API with presigned URLs. */
const S3_ROUTES = S3_URLS.map((url) => [url, new Set(['GET', 'HEAD', 'PUT', 'POST', 'DELETE'])] as const)
const isOfS3 = ({ routeOptions: { url = '' } }: FastifyRequest): boolean => S3_URLS.includes(url)

/** Names of metadata are any, so the page may send what it asks for. */
const requestedHeaders = ({ headers }: FastifyRequest): string =>
  headers['access-control-request-headers'] ?? ''

/** Chromium keeps the answer to a preflight request no longer than this. */
const MAX_AGE_S = 7_200

/**
 * Lets pages read the replies of operations on data, errors included, and answers their preflight requests, which carry no
 * credential (Fetch §4.8). These cost nothing but this answer, and are not charged.
 */
export function allowPages(app: FastifyInstance): void {
  const methods = new Map([...methodsByPath(FOR_PAGES), ...S3_ROUTES])
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
        'access-control-allow-headers': isOfS3(request) ? requestedHeaders(request) : headers,
        'access-control-max-age': String(MAX_AGE_S),
      })
      .send()
  })
}
