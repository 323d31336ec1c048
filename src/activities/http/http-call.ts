/** `call: http` of the flow language (OWS 1.0, "HTTP Call"): arguments in, content or a fault out. */

import { Problem } from '../../core/problem.ts'
import type { Inbound, Outbound } from '../../infra/http-client/egress.ts'
import { callFailure } from '../call-failure.ts'
import { sendAs, type Way } from './authentication.ts'
import type { Fields } from './fields.ts'
import { toOutput } from './response-output.ts'

/** Headers that would change what the connection itself means. */
const OURS = new Set(['host', 'connection', 'transfer-encoding', 'content-length', 'upgrade', 'te', 'expect'])

/**
 * Sends the request once, and what its authentication needs before it.
 * @throws ApplicationFailure (final) for a status outside 200–299, or 200–399 with `redirect: true`, and where the
 *   credentials cannot be given; Problem where no answer came
 */
export async function callHttp(call: Fields, way: Way): Promise<unknown> {
  const outbound = toRequest(call)
  const inbound = await sendAs(call['authentication'], outbound, way)
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

/** A URL is shown and logged, so nobody's name and password may stand in it. */
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
    .filter(([name]) => !OURS.has(name))
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
  return callFailure('communication', detail, { status, title: 'The other side answered with an error' })
}
