/** `call: http` of the flow language (OWS 1.0 "HTTP Call"): sends a request and returns the content, or fails with an error. */

import { OUTCOME_UNKNOWN } from '../../../flows-dsl/errors.ts'
import { Problem } from '../../core/problem.ts'
import { redact } from '../../core/redact.ts'
import { sentences } from '../../core/text/sentences.ts'
import { type Inbound, isSafe, type Outbound } from '../../infra/http-client/egress.ts'
import { callFailure, type Fields, fieldsOf } from '../call-failure.ts'
import { type CallClients, sendAuthenticated } from './authentication.ts'
import { encodeBody, pairsOf } from './request-body.ts'
import { contentOf, errorResponseOf } from './response-content.ts'

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
 * Sends the request once per attempt, after those that its authentication needs; workflows/flow/calls.ts decides on attempts.
 * @throws ApplicationFailure (final) with the response for a status outside 200–299, or 200–399 with `redirect: true`, unless
 *   `errors: data`; and for credentials that are invalid or cannot be obtained. @throws Problem without a response
 */
export async function callHttp(call: Fields, clients: CallClients): Promise<unknown> {
  const outbound = toRequest(call, clients)
  const isFailure = failureTest(call)
  const excerpting = { ...clients, http: clients.http.withExcerptsOf(isFailure) }
  const storage = storageFor(call['output'], isFailure, clients)
  const request = storage === undefined ? outbound : { ...outbound, bodyTo: storage.bodyTo }
  const inbound = await sendOnce(call['authentication'], request, excerpting)
  if (isFailure(inbound.status)) throw statusFailure(outbound, inbound, clients)
  return storage === undefined ? toOutput(call['output'], outbound, inbound) : storage.stored()
}

/**
 * Stores the response as an object, if the call wants that.
 * @throws Problem `validation_failed` for a call that cannot: an expression has made its `output`
 */
function storageFor(output: unknown, isFailure: (status: number) => boolean, { store }: CallClients) {
  if (typeof output !== 'object' || output === null) return undefined
  if (store === undefined)
    throw new Problem('validation_failed', {
      detail: '`output` of `call: http` names an object in an expression. Write it as a mapping in the flow.',
    })
  const target = fieldsOf((output as Fields)['object'])
  let stored: unknown
  const bodyTo: Outbound['bodyTo'] = ({ status, headers }) =>
    isFailure(status)
      ? undefined
      : async (chunks) => {
          const content = { chunks, ...lengthOf(headers) }
          const type = target['content_type'] ?? headers['content-type']
          stored = await store({
            ...target,
            content,
            ...(type !== undefined && { content_type: type }),
            ...(headers['content-encoding'] && { content_encoding: headers['content-encoding'] }),
          })
        }
  return { bodyTo, stored: () => stored }
}

function lengthOf({ 'content-length': text = '' }: Inbound['headers']): { length?: number } {
  return /^\d{1,15}$/.test(text) ? { length: Number(text) } : {}
}

/** Tests if a status fails the call. */
function failureTest({ errors, redirect }: Fields): (status: number) => boolean {
  if (errors === 'data') return () => false
  const last = redirect === true ? 399 : 299
  return (status) => status < 200 || status > last
}

/** @throws ApplicationFailure that says so if a request that is not safe may have arrived, and got no response */
async function sendOnce(authentication: unknown, outbound: Outbound, clients: CallClients): Promise<Inbound> {
  try {
    return await sendAuthenticated(authentication, outbound, clients)
  } catch (error) {
    const isUnknown = error instanceof Problem && error.members['may_have_arrived'] === true
    if (!isUnknown || isSafe(outbound.method)) throw error
    const detail = sentences(error.message, `The ${outbound.method} request may have arrived.`)
    const kind = error.code === 'upstream_timeout' ? 'timeout' : 'communication'
    throw callFailure(kind, detail, { code: OUTCOME_UNKNOWN })
  }
}

function toRequest(call: Fields, { idempotencyKey }: CallClients): Outbound {
  const { endpoint } = call
  const uri = typeof endpoint === 'object' && endpoint !== null ? (endpoint as Fields)['uri'] : endpoint
  const url = toUrl(uri)
  const query = pairsOf(fieldsOf(call['query']), 'query')
  for (const [name] of query) url.searchParams.delete(name)
  for (const [name, value] of query) url.searchParams.append(name, value)
  const method = String(call['method'] ?? 'GET').toUpperCase()
  const given = headersOf(call)
  const { body, contentType } = encodeBody(call['body'], given['content-type'] ?? '')
  const headers = {
    ...(idempotencyKey !== undefined && !isSafe(method) && { 'idempotency-key': idempotencyKey }),
    ...given,
    ...(contentType !== undefined && { 'content-type': contentType }),
  }
  return { method, url, headers, ...(body !== undefined && { body }) }
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

/** The headers that the author gives, without nulls, after our own. */
function headersOf(call: Fields): Record<string, string> {
  const given = Object.entries(fieldsOf(call['headers']))
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => [name.toLowerCase(), String(value)] as const)
    .filter(([name]) => !RESERVED_HEADERS.has(name))
  return { accept: 'application/json, */*;q=0.8', 'user-agent': 'tenon-flow/1', ...Object.fromEntries(given) }
}

function statusFailure(
  { method, url }: Outbound,
  inbound: Inbound,
  { redactExcerpt = (text: string) => text }: CallClients,
) {
  const { status } = inbound
  const detail = `${method} ${url.origin}${url.pathname} answered ${status}.`
  const response = errorResponseOf(inbound, redactExcerpt)
  return callFailure('communication', detail, {
    status,
    title: 'The server responded with an error',
    response,
  })
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
