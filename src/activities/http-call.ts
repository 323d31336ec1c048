/** `call: http` of the flow language (OWS 1.0, "HTTP Call"): arguments in, content or a fault out. */

import { ApplicationFailure } from '@temporalio/common'
import { Problem } from '../core/problem.ts'
import type { Egress, Inbound, Outbound } from '../platform/egress.ts'

type Fields = Readonly<Record<string, unknown>>

/** Headers that would change what the connection itself means. */
const OURS = new Set(['host', 'connection', 'transfer-encoding', 'content-length', 'upgrade', 'te', 'expect'])

/**
 * Sends the request once.
 * @param allowed addresses that the workspace may reach although they are not public
 * @throws ApplicationFailure (final) for a status outside 200–299, or 200–399 with `redirect: true`; Problem where
 *   no answer came
 */
export async function callHttp(egress: Egress, call: Fields, allowed: readonly string[]): Promise<unknown> {
  const outbound = toRequest(call)
  const inbound = await egress.send(outbound, allowed)
  const last = call['redirect'] === true ? 399 : 299
  if (inbound.status < 200 || inbound.status > last) throw statusFailure(outbound, inbound)
  return toOutput(call['output'], outbound, inbound)
}

function toRequest(call: Fields): Outbound {
  const { endpoint, body } = call
  const uri = typeof endpoint === 'object' && endpoint !== null ? (endpoint as Fields)['uri'] : endpoint
  const url = URL.canParse(String(uri)) ? new URL(String(uri)) : undefined
  if (url === undefined)
    throw new Problem('validation_failed', { detail: 'endpoint is not an absolute URL.' })
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

function headersOf(call: Fields, body: string): Record<string, string> {
  const given = Object.entries((call['headers'] ?? {}) as Fields)
    .map(([name, value]) => [name.toLowerCase(), String(value)] as const)
    .filter(([name]) => !OURS.has(name))
  const type: Record<string, string> = body === 'object' ? { 'content-type': 'application/json' } : {}
  return {
    accept: 'application/json, */*;q=0.8',
    'user-agent': 'tenon-flow/1',
    ...type,
    ...Object.fromEntries(given),
    ...authorization(call['authentication'] as Fields | undefined),
  }
}

/** The header of the schemes that need no other request (RFC 7617, RFC 6750). What is not there is never left out. */
function authorization(authentication: Fields | undefined): Record<string, string> {
  if (authentication === undefined) return {}
  const { scheme } = authentication
  const { username, password, token } = (authentication['properties'] ?? {}) as Fields
  if (scheme === 'bearer' && typeof token === 'string') return { authorization: `Bearer ${token}` }
  if (scheme === 'basic' && typeof username === 'string' && typeof password === 'string') {
    return { authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}` }
  }
  const detail = `The call cannot be authenticated: \`${String(scheme)}\` lacks what it needs, or is not there yet.`
  const type = 'https://serverlessworkflow.io/spec/1.0.0/errors/authentication'
  const failure = { type, status: 401, title: 'Authentication error', detail }
  throw ApplicationFailure.nonRetryable(detail, 'authentication', failure)
}

function statusFailure({ method, url }: Outbound, { status }: Inbound): ApplicationFailure {
  const detail = `${method} ${url.origin}${url.pathname} answered ${status}.`
  const type = 'https://serverlessworkflow.io/spec/1.0.0/errors/communication'
  return ApplicationFailure.nonRetryable(detail, 'http_status', {
    type,
    status,
    title: 'The other side answered with an error',
    detail,
  })
}

/** `content` (the default) is the parsed body; `response` also has status and headers; `raw` is base64. */
function toOutput(form: unknown, { method, url, headers }: Outbound, inbound: Inbound): unknown {
  if (form === 'raw') return inbound.body.toString('base64')
  const content = parse(inbound)
  if (form !== 'response') return content
  const response = { statusCode: inbound.status, headers: inbound.headers, content }
  return { request: { method: method.toLowerCase(), uri: url.href, headers }, ...response }
}

function parse({ headers, body }: Inbound): unknown {
  const text = body.toString('utf8')
  if (!/[/+]json\b/i.test(headers['content-type'] ?? '')) return text === '' ? null : text
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new Problem('upstream_invalid', { detail: 'The answer says it is JSON and is not.', cause })
  }
}
