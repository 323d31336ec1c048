/**
 * Sends the requests of `fetch` of functions: checks each hop against the function's `egress` and the egress guard, and follows
 * redirects as the Fetch standard says.
 */

import { promisify } from 'node:util'
import { brotliDecompress, unzip } from 'node:zlib'
import { CHAIN_DEPTH_HEADER } from '../../core/execution.ts'
import { shortQuote } from '../../core/json.ts'
import { Problem } from '../../core/problem.ts'
import type { FunctionEgress } from '../../features/functions/egress.ts'
import { FUNCTION_LIMITS } from '../../features/functions/limits.ts'
import type { GuestRequest, GuestResponse } from '../../features/functions/sandbox/invocation.ts'
import { SHARED_LIMITS } from '../../features/limits.ts'
import { nextChainDepth } from '../../features/operation-helpers.ts'
import {
  type Bounds,
  hostAndPort,
  type Inbound,
  type Outbound,
  type Sender,
} from '../../infra/http-client/egress.ts'
import { belongsToConnection, isFieldValue, isToken } from '../../infra/http-client/header-fields.ts'

const { redirectsMax, urlCharsMax, bytesMax } = FUNCTION_LIMITS.fetch

/** The checks, the chain depth and the sender that all requests of a run share. */
export interface FetchRoute {
  readonly egress: FunctionEgress
  /** Non-public addresses that the workspace may reach; the second, without a cache. */
  readonly allowed: () => Promise<readonly string[]>
  readonly allowedNow: () => Promise<readonly string[]>
  /** The number of runs and executions that started one another, up to this one. */
  readonly chainDepth: number
  readonly send: (outbound: Outbound, sender: Omit<Sender, 'owner'>, bounds: Bounds) => Promise<Inbound>
}

/**
 * @param bounds.timeoutMs for all hops together
 * @throws Problem `egress_refused`, `upstream_timeout`, `upstream_unavailable`, `upstream_invalid`; `validation_failed` for a
 *   request that is no valid HTTP; `state_conflict` if runs that start one another are too deep
 */
export async function guardedFetch(
  request: GuestRequest,
  route: FetchRoute,
  { timeoutMs, signal }: Pick<Bounds, 'timeoutMs' | 'signal'>,
): Promise<GuestResponse> {
  const untilMs = performance.now() + timeoutMs
  const depth = nextDepth(route)
  let hop = firstHop(request)
  for (let followed = 0; ; followed += 1) {
    const sender = await senderFor(hop.url, route)
    const headers = { ...hop.headers, [CHAIN_DEPTH_HEADER]: depth }
    const leftMs = Math.max(1, untilMs - performance.now())
    const bounds = { timeoutMs: leftMs, bytesMax, ...(signal !== undefined && { signal }) }
    const inbound = await route.send({ ...hop, headers }, sender, bounds).catch((error: unknown) => {
      throw sender.publicOnly === true ? withServerNamed(error, hop.url) : error
    })
    const next = request.redirect === 'manual' ? undefined : redirectOf(hop, inbound)
    if (next === undefined) {
      const response = await decodeResponse(hop, inbound)
      return followed === 0 ? response : { ...response, url: withoutFragment(hop.url) }
    }
    if (request.redirect === 'error') throw redirects(hop.url)
    if (followed === redirectsMax)
      throw new Problem('upstream_invalid', {
        detail: `${hostAndPort(hop.url)} redirects further: at most ${redirectsMax} redirects are followed.`,
      })
    hop = next
  }
}

const redirects = (url: URL) =>
  new Problem('upstream_invalid', {
    detail: `${hostAndPort(url)} redirects, and the request has \`redirect: "error"\`.`,
  })

function withoutFragment({ href }: URL): string {
  return href.split('#', 1)[0] ?? href
}

/** The API and the hosted MCP servers of this platform read it if the request comes back to them. */
function nextDepth({ chainDepth }: FetchRoute): string {
  const detail = `${SHARED_LIMITS.chainDepthMax} runs have started one another, which is the maximum; this one sends no requests.`
  return String(nextChainDepth(chainDepth, detail))
}

const IS_HTTP = /^https?:$/

/** @throws Problem `egress_refused` before the name of the server is resolved */
async function senderFor(url: URL, route: FetchRoute): Promise<Omit<Sender, 'owner'>> {
  const { egress } = route
  if (!IS_HTTP.test(url.protocol))
    throw new Problem('egress_refused', {
      detail: `A URL with \`${url.protocol.slice(0, 20)}\` is not sent: only http: and https: are.`,
    })
  const admitted = egress.admits(url)
  if (admitted === undefined) throw notAdmitted(url)
  if (admitted === 'public') return { allowed: [], publicOnly: true }
  const both = async (list: () => Promise<readonly string[]>) =>
    (await list()).filter((server) => egress.names(server))
  return { allowed: await both(route.allowed), allowedNow: () => both(route.allowedNow) }
}

function notAdmitted(url: URL): Problem {
  const server = hostAndPort(url)
  return new Problem('egress_refused', {
    detail: `The function may not send requests to ${server}. Add "${server}" to \`egress\` in its configuration.`,
  })
}

/** `*` admits no address that is not public, so the function has to name the server, too. */
function withServerNamed(error: unknown, url: URL): unknown {
  if (!(error instanceof Problem) || error.code !== 'egress_refused') return error
  const server = hostAndPort(url)
  return new Problem('egress_refused', {
    detail: `${server} is not a public address: \`*\` does not admit it. Add "${server}" to \`egress\` of the function; an operator opens it for the workspace: npx tenon workspace egress allow ${server}.`,
  })
}

interface Hop {
  readonly method: string
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Uint8Array
}

const FORBIDDEN_METHODS: readonly string[] = ['CONNECT', 'TRACE', 'TRACK']

function firstHop({ method, url, headers, body }: GuestRequest): Hop {
  if (url.length > urlCharsMax || !URL.canParse(url)) throw invalid('The URL is not valid.')
  const target = new URL(url)
  if (hasUserinfo(target)) throw invalid('A URL must not have credentials: set the header `authorization`.')
  if (!isToken(method) || FORBIDDEN_METHODS.includes(method.toUpperCase()))
    throw invalid('The method is not allowed.')
  if (body !== undefined && body.length > bytesMax) {
    const detail = `The body has ${body.length} bytes; at most ${bytesMax} are sent.`
    throw new Problem('body_too_large', { detail })
  }
  return { method, url: target, headers: ownHeaders(headers), ...(body !== undefined && { body }) }
}

const invalid = (detail: string) => new Problem('validation_failed', { detail })
const hasUserinfo = ({ username, password }: URL) => username !== '' || password !== ''

/** Headers that belong to the body as it is sent, or to the platform. */
const HOSTS_OWN = ['host', 'expect', 'content-length', 'accept-encoding', CHAIN_DEPTH_HEADER]

/** The headers that the code may set, joined by name. */
function ownHeaders(given: GuestRequest['headers']): Record<string, string> {
  const headers = new Map([
    ['accept', '*/*'],
    ['user-agent', 'tenon-function'],
    ['accept-encoding', 'identity'],
  ])
  const set = new Set<string>()
  for (const [name, value] of given) {
    const key = name.toLowerCase()
    if (!isToken(key) || !isFieldValue(value))
      throw invalid(`The header ${shortQuote(name)} is not valid HTTP.`)
    if (belongsToConnection(key) || HOSTS_OWN.includes(key)) continue
    const before = set.has(key) ? `${headers.get(key)}${key === 'cookie' ? '; ' : ', '}` : ''
    headers.set(key, `${before}${value}`)
    set.add(key)
  }
  return Object.fromEntries(headers)
}

const REDIRECTS: readonly number[] = [301, 302, 303, 307, 308]
const OF_BODY = ['content-encoding', 'content-language', 'content-location', 'content-type']
const OF_ORIGIN = ['authorization', 'cookie']

/** The request that follows a redirect (Fetch standard, "HTTP-redirect fetch"); undefined for any other response. */
function redirectOf({ method, url, headers, body }: Hop, { status, headers: got }: Inbound): Hop | undefined {
  const { location } = got
  if (!REDIRECTS.includes(status) || location === undefined) return undefined
  if (location.length > urlCharsMax || !URL.canParse(location, url.href))
    throw new Problem('upstream_invalid', {
      detail: `${hostAndPort(url)} redirects to a location that is not a URL.`,
    })
  const to = new URL(location, url)
  if (hasUserinfo(to)) {
    const detail = `${hostAndPort(url)} redirects to a URL with credentials, which is not followed.`
    throw new Problem('egress_refused', { detail })
  }
  const becomesGet =
    ((status === 301 || status === 302) && method === 'POST') ||
    (status === 303 && method !== 'GET' && method !== 'HEAD')
  const dropped = [...(becomesGet ? OF_BODY : []), ...(to.origin === url.origin ? [] : OF_ORIGIN)]
  const kept = Object.fromEntries(Object.entries(headers).filter(([name]) => !dropped.includes(name)))
  if (becomesGet) return { method: 'GET', url: to, headers: kept }
  return { method, url: to, headers: kept, ...(body !== undefined && { body }) }
}

const DECODERS = {
  gzip: promisify(unzip),
  'x-gzip': promisify(unzip),
  deflate: promisify(unzip),
  br: promisify(brotliDecompress),
} as const

/** The response with its body decoded: some servers encode what was asked for as it is. */
async function decodeResponse(
  { url }: Hop,
  { status, headers, cookies = [], body }: Inbound,
): Promise<GuestResponse> {
  if (status < 200 || status > 599) {
    const detail = `${hostAndPort(url)} answers with the status ${status}; 200 to 599 are valid.`
    throw new Problem('upstream_invalid', { detail })
  }
  const coding = headers['content-encoding']?.trim().toLowerCase() ?? ''
  const isEncoded = Object.hasOwn(DECODERS, coding) && body.length > 0
  // Cookies are a list of their own.
  const gone = ['set-cookie', ...(isEncoded ? ['content-encoding', 'content-length'] : [])]
  const kept = Object.entries(headers).filter(([name]) => !belongsToConnection(name) && !gone.includes(name))
  return {
    status,
    headers: [...kept, ...cookies.map((cookie) => ['set-cookie', cookie] as const)],
    body: isEncoded ? await decoded(body, coding as keyof typeof DECODERS) : body,
  }
}

async function decoded(body: Buffer, coding: keyof typeof DECODERS): Promise<Buffer> {
  try {
    return await DECODERS[coding](body, { maxOutputLength: bytesMax })
  } catch (cause) {
    const detail = `The response is not ${coding}, or has more than ${bytesMax} bytes.`
    throw new Problem('upstream_invalid', { detail, cause })
  }
}
