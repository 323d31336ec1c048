/** The heads of an HTTP request and of its response, without what the code of a function may neither know nor decide. */

import type { RawRequest } from '../../../core/bytes.ts'
import { shortQuote } from '../../../core/json.ts'
import { Problem } from '../../../core/problem.ts'
import { belongsToConnection, isFieldValue, isToken } from '../../../infra/http-client/header-fields.ts'
import { FUNCTION_LIMITS } from '../limits.ts'
import type { HttpRequestHead, HttpResponseHead } from '../sandbox/invocation.ts'

const { http: limits } = FUNCTION_LIMITS

type Headers = HttpRequestHead['headers']

/** Credentials of the platform, and headers that it sets. */
const KEPT_FROM_CODE = new Set([
  ...['expect', 'http2-settings'],
  ...['apikey', 'x-api-key', 'authorization', 'cookie', 'cookie2'],
  ...['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-prefix', 'x-forwarded-proto'],
  ...['host', 'x-real-ip', 'x-request-id'],
])

/** A header that a proxy has added may hold the URL with its key. */
const HOLDS_KEY = /svc_(?:anon|service|storage)_/

/** Segments of `/v1/functions/{id}/http`, and the empty one before the first slash. */
const PREFIX_SEGMENTS = 5

/**
 * The head that the code gets. Its URL has the path below `/http`; `x-forwarded-prefix` has what comes before.
 * @param origin of the platform's public URL
 */
export function requestHead(request: RawRequest, origin: string): HttpRequestHead {
  const [path = '', query] = (request.target.split('#')[0] ?? '').split(/\?(.*)/s)
  const segments = path.split('/')
  const { host, protocol } = new URL(origin)
  return {
    method: request.method,
    url: `${origin}/${segments.slice(PREFIX_SEGMENTS).join('/')}${withoutKey(query)}`,
    headers: [
      ...passed(request.headers),
      ['host', host],
      ['x-forwarded-for', request.address],
      ['x-forwarded-host', host],
      ['x-forwarded-prefix', segments.slice(0, PREFIX_SEGMENTS).join('/')],
      ['x-forwarded-proto', protocol.slice(0, -1)],
      ['x-request-id', request.id],
    ],
  }
}

function passed(headers: Headers): Headers {
  const named = new Set(connectionOptions(headers))
  return headers.filter(([name, value]) => {
    const lower = name.toLowerCase()
    const isWithheld = KEPT_FROM_CODE.has(lower) || belongsToConnection(lower) || named.has(lower)
    return !isWithheld && !HOLDS_KEY.test(value)
  })
}

/** Headers that `Connection` lists belong to the connection, too. */
const connectionOptions = (headers: Headers): string[] =>
  headers
    .filter(([name]) => name.toLowerCase() === 'connection')
    .flatMap(([, value]) =>
      value
        .toLowerCase()
        .split(',')
        .map((option) => option.trim()),
    )

/** The query as it was sent, without the parameters that are read as `apikey`. */
function withoutKey(query = ''): string {
  const kept = query.split('&').filter((pair) => !new URLSearchParams(pair).has('apikey'))
  return query === '' || kept.length === 0 ? '' : `?${kept.join('&')}`
}

/**
 * Headers of responses that the platform sets, or that have an effect beyond the response: on the connection, on other
 * requests to the origin, on proxies before the platform.
 */
const KEPT_FROM_CLIENT = new Set([
  ...['content-length', 'set-cookie', 'set-cookie2', 'timing-allow-origin'],
  ...['x-request-id', 'x-run-id', 'x-problem-code', 'x-stability', 'idempotent-replayed'],
  ...['content-security-policy', 'content-security-policy-report-only', 'x-content-type-options'],
  ...['strict-transport-security', 'public-key-pins', 'public-key-pins-report-only', 'expect-ct', 'alt-svc'],
  ...['clear-site-data', 'service-worker-allowed', 'origin-agent-cluster', 'accept-ch', 'critical-ch'],
  ...['nel', 'report-to', 'reporting-endpoints', 'x-sendfile', 'x-reproxy-url'],
  ...['www-authenticate', 'authentication-info', 'x-lighttpd-send-file'],
  ...['use-as-dictionary', 'set-login', 'observe-browsing-topics', 'activate-storage-access'],
  ...['attribution-reporting-register-source', 'attribution-reporting-register-trigger'],
  ...['age', 'date', 'server', 'via', 'surrogate-control'],
])
const KEPT_FROM_CLIENT_PREFIX = /^(?:access-control-|cross-origin-|ratelimit|x-ratelimit-|x-accel-)/

/** Of every response. A page of a function runs no scripts, since it would run them in the origin of the platform. */
const OWN_HEADERS = {
  'cache-control': 'private, no-store',
  // nginx passes chunks on as they come.
  'x-accel-buffering': 'no',
}
const SANDBOX = { 'content-security-policy': 'sandbox' }

/**
 * Checks the head that the code gives. @returns it without the headers that are not the code's
 * @throws Problem `function_error`
 */
export function responseHead({ status, headers }: HttpResponseHead): HttpResponseHead {
  if (!Number.isInteger(status) || status < 200 || status > 599)
    throw invalid('A Response needs a status from 200 to 599.')
  const bytes = headers.reduce((sum, [name, value]) => sum + name.length + value.length, 0)
  if (headers.length > limits.headersMax || bytes > limits.headBytesMax)
    throw invalid(`A Response has at most ${limits.headersMax} headers with ${limits.headBytesMax} bytes.`)
  for (const [name, value] of headers)
    if (!isToken(name) || !isFieldValue(value))
      throw invalid(`The Response has an invalid header: ${shortQuote(name)}.`)
  const named = new Set(connectionOptions(headers))
  const kept = headers.filter(([name]) => {
    const lower = name.toLowerCase()
    const isWithheld = KEPT_FROM_CLIENT.has(lower) || KEPT_FROM_CLIENT_PREFIX.test(lower)
    return !isWithheld && !belongsToConnection(lower) && !named.has(lower)
  })
  return { status, headers: kept }
}

/** The headers of the response to the client. Repeated ones are joined (RFC 9110 §5.3). */
export function replyHeaders({ headers }: HttpResponseHead): Record<string, string> {
  const joined = new Map<string, string>()
  for (const [name, value] of headers) {
    const lower = name.toLowerCase()
    const before = joined.get(lower)
    joined.set(lower, before === undefined ? value : `${before}, ${value}`)
  }
  return { ...OWN_HEADERS, ...Object.fromEntries(joined), ...SANDBOX }
}

/** True if the response has no body, whatever the code sends (RFC 9110 §6.4.1). */
export const isBodiless = (method: string, status: number): boolean =>
  method === 'HEAD' || status === 204 || status === 205 || status === 304

const invalid = (detail: string) => new Problem('function_error', { detail })
