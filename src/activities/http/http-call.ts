/** `call: http` of the flow language (OWS 1.0 "HTTP Call"): sends a request and returns the content, or fails with an error. */

import { isUtf8 } from 'node:buffer'
import { isTooDeep } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { redact } from '../../core/redact.ts'
import type { Inbound, Outbound } from '../../infra/http-client/egress.ts'
import type { Fields } from '../call-failure.ts'
import { callFailure } from '../call-failure.ts'
import { type CallClients, sendAuthenticated } from './authentication.ts'

/** Headers that control the connection. A flow cannot set them. */
const RESERVED_HEADERS = new Set([
  'host',
  'connection',
  'transfer-encoding',
  'content-length',
  'upgrade',
  'te',
  'expect',
])

/**
 * Sends the request once, after the requests that its authentication needs.
 * @throws ApplicationFailure (final) for a status outside 200–299, or 200–399 with `redirect: true`, and for credentials that
 *   are invalid or cannot be obtained; Problem without a response
 */
export async function callHttp(call: Fields, clients: CallClients): Promise<unknown> {
  const outbound = toRequest(call)
  const inbound = await sendAuthenticated(call['authentication'], outbound, clients)
  const last = call['redirect'] === true ? 399 : 299
  if (inbound.status < 200 || inbound.status > last) throw statusFailure(outbound, inbound)
  return toOutput(call['output'], outbound, inbound)
}

function toRequest(call: Fields): Outbound {
  const { endpoint, body } = call
  const uri = typeof endpoint === 'object' && endpoint !== null ? (endpoint as Fields)['uri'] : endpoint
  const url = toUrl(uri)
  for (const [name, value] of Object.entries((call['query'] ?? {}) as Fields))
    url.searchParams.set(name, String(value))
  const text = body === undefined || body === null || typeof body === 'string' ? body : JSON.stringify(body)
  return {
    method: String(call['method'] ?? 'GET').toUpperCase(),
    url,
    headers: headersOf(call, typeof body),
    ...(typeof text === 'string' && { body: text }),
  }
}

/** Parses a URL and rejects credentials in it, because URLs are shown and logged. */
export function toUrl(uri: unknown): URL {
  const url = URL.canParse(String(uri)) ? new URL(String(uri)) : undefined
  if (url === undefined)
    throw new Problem('validation_failed', { detail: 'endpoint is not an absolute URL.' })
  if (url.username === '' && url.password === '') return url
  const detail = 'The URI of an endpoint must hold no credentials; use `authentication`.'
  throw callFailure('configuration', detail)
}

function headersOf(call: Fields, body: string): Record<string, string> {
  const given = Object.entries((call['headers'] ?? {}) as Fields)
    .map(([name, value]) => [name.toLowerCase(), String(value)] as const)
    .filter(([name]) => !RESERVED_HEADERS.has(name))
  const type: Record<string, string> = body === 'object' ? { 'content-type': 'application/json' } : {}
  return {
    accept: 'application/json, */*;q=0.8',
    'user-agent': 'tenon-flow/1',
    ...type,
    ...Object.fromEntries(given),
  }
}

function statusFailure({ method, url }: Outbound, { status }: Inbound) {
  const detail = `${method} ${url.origin}${url.pathname} answered ${status}.`
  return callFailure('communication', detail, { status, title: 'The server responded with an error' })
}

/**
 * The output of the call: by default the content, decoded by its type; for `response` also status, headers and the redacted
 * request; for `raw` the content in base64.
 */
function toOutput(form: unknown, { method, url, headers }: Outbound, inbound: Inbound): unknown {
  if (form === 'raw') return inbound.body.toString('base64')
  const content = contentOf(inbound)
  if (form !== 'response') return content
  const request = redact({ method: method.toLowerCase(), uri: url.href, headers })
  return { request, statusCode: inbound.status, headers: inbound.headers, content }
}

const JSON_TYPE = /^[^;]*[/+]json\s*(;|$)/i
const TEXT_TYPE =
  /^\s*(text\/|application\/(xml|yaml|x-yaml|javascript|x-www-form-urlencoded|graphql|sql)\b|[^;]*\+(xml|yaml)\s*(;|$))/i

/** Decodes the body: JSON is parsed, text is decoded by its charset, other types become base64. An empty body is null. */
function contentOf({ headers, body }: Inbound): unknown {
  if (body.length === 0) return null
  const type = headers['content-type'] ?? ''
  if (JSON_TYPE.test(type)) return parseJson(body)
  const isText = type === '' ? isUtf8(body) : TEXT_TYPE.test(type)
  return isText ? decodeText(body, type) : body.toString('base64')
}

function parseJson(body: Buffer): unknown {
  const value = decodeJson(body)
  if (!isTooDeep(value)) return value
  const detail = `The response is nested deeper than ${LIMITS.runInputDepthMax} levels.`
  throw new Problem('upstream_invalid', { detail })
}

function decodeJson(body: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(body))
  } catch (cause) {
    throw new Problem('upstream_invalid', {
      detail: 'The response has a JSON content type and is not valid JSON.',
      cause,
    })
  }
}

function decodeText(body: Buffer, type: string): string {
  const charset = /;\s*charset="?([\w-]{1,40})/i.exec(type)?.[1] ?? 'utf-8'
  try {
    return new TextDecoder(charset).decode(body)
  } catch {
    return body.toString('utf8')
  }
}
