/** Outbound HTTP behind one guard: addresses are checked after DNS resolution, and the checked address is the one connected to. */

import type { LookupAddress, LookupAllOptions } from 'node:dns'
import { lookup } from 'node:dns/promises'
import {
  type Agent,
  type ClientRequest,
  type IncomingMessage,
  Agent as PlainAgent,
  request as plainRequest,
  type RequestOptions,
} from 'node:http'
import { Agent as TlsAgent, request as tlsRequest } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os'
import ipaddr from 'ipaddr.js'
import { LRUCache } from 'lru-cache'
import { Problem } from '../../core/problem.ts'
import { TRACEPARENT } from '../../core/trace.ts'
import { INFRA_LIMITS } from '../limits.ts'
import { inSpan, outgoingTraceparent } from '../tracing.ts'

export interface Outbound {
  readonly method: string
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
  /**
   * Takes the body of a response as it comes, however long it is; it is empty in the {@link Inbound} then. Undefined: the body is read
   * as usual.
   */
  readonly bodyTo?: (response: Pick<Inbound, 'status' | 'headers'>) => BodySink | undefined
}

/** Reads the body of a response to its end, or fails. */
type BodySink = (chunks: AsyncIterable<Uint8Array>) => Promise<void>

export interface Inbound {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** Each `set-cookie` header, if there are any; joined, they cannot be told apart. */
  readonly cookies?: readonly string[]
  /** The body is only the beginning of what the server sent ({@link Bounds.excerptBytes}). */
  readonly isExcerpt?: true
}

/** Limits of a response. */
export interface Bounds {
  readonly timeoutMs: number
  readonly bytesMax: number
  /** For a status of which only the beginning of the body is wanted: its length. A longer body is no error then. */
  readonly excerptBytes?: (status: number) => number | undefined
  /**
   * For a response that its server may keep open after the part that is wanted. Gets the headers; returns a function that gets
   * each chunk, and returns true at the end of that part. Undefined: the whole response is wanted.
   */
  readonly wantedPart?: (headers: Inbound['headers']) => ((chunk: Buffer) => boolean) | undefined
  /** Ends the request; it fails with the reason of the signal. */
  readonly signal?: AbortSignal
}

export interface Sender {
  /** `host:port` texts that may be reached besides the public Internet. */
  readonly allowed: readonly string[]
  /** The current list, read before a request is refused; `allowed` may be stale. */
  readonly allowedNow?: () => Promise<readonly string[]>
  /** Connections are reused for this owner only; without one, each is closed after its response. */
  readonly owner?: string
  /**
   * Reuses connections for unsafe methods as well. If the server has closed one meanwhile, such a request fails, since it may
   * have arrived. Default: for safe methods alone.
   */
  readonly reusesAlways?: boolean
  /** Reaches public addresses alone, whatever the platform allows to all workspaces. */
  readonly publicOnly?: boolean
}

/** Safe methods (RFC 9110 §9.2.1): repeated if the server had closed a reused connection. */
const SAFE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

export const isSafe = (method: string): boolean => SAFE.has(method)

const ANONYMOUS: Sender = { allowed: [] }
const FLOW_BOUNDS: Bounds = {
  timeoutMs: INFRA_LIMITS.httpCallTimeoutMs,
  bytesMax: INFRA_LIMITS.httpCallBytesMax,
}

/** All addresses of a name. */
type Find = (hostname: string, options: LookupAllOptions) => Promise<LookupAddress[]>

export class Egress {
  readonly #allowed: ReadonlySet<string>
  readonly #addresses: PublicAddresses
  readonly #find: Find
  /**
   * By owner, protocol and guard: owners share no connection, since a server may leave state on it, and a connection to any
   * address is not used for public ones. Those of an evicted owner close when they are idle.
   */
  readonly #agents = new LRUCache<string, Agent>({ max: ownersMax })

  /**
   * @param allowed `host:port` texts that may be reached at any address; `host:*` for all ports of a host
   * @param find resolves names; the system's resolver by default
   * @param addresses decides which addresses are public
   */
  constructor(allowed: readonly string[], find: Find = lookup, addresses = new PublicAddresses()) {
    this.#allowed = new Set(allowed)
    this.#addresses = addresses
    this.#find = find
  }

  /**
   * Sends one request. Redirects are not followed.
   * @throws Problem `egress_refused` for an address that is not public, `upstream_timeout` and `upstream_unavailable` without a
   *   response, `upstream_invalid` for one that is too large
   */
  async send(outbound: Outbound, sender: Sender = ANONYMOUS, bounds: Bounds = FLOW_BOUNDS): Promise<Inbound> {
    const { method, url } = outbound
    const description = {
      name: `${method} ${url.host}`,
      kind: 'client',
      attributes: spanAttributes(outbound),
    } as const
    return inSpan(
      description,
      () => this.#sendOnce(outbound, sender, bounds),
      ({ status }) => ({
        'http.response.status_code': status,
      }),
    )
  }

  async #sendOnce(outbound: Outbound, sender: Sender, bounds: Bounds): Promise<Inbound> {
    try {
      return await this.#send(outbound, sender, bounds)
    } catch (error) {
      const isRefused = error instanceof Problem && error.code === 'egress_refused'
      if (!isRefused || sender.allowedNow === undefined) throw error
      return this.#send(outbound, { ...sender, allowed: await sender.allowedNow() }, bounds)
    }
  }

  async #send(outbound: Outbound, sender: Sender, bounds: Bounds): Promise<Inbound> {
    const { url, method } = outbound
    const traced = withTraceparent(outbound)
    const { owner, reusesAlways = false } = sender
    if (url.protocol !== 'http:' && url.protocol !== 'https:') throw notHttp(url)
    const isAllowlisted = this.#isAllowlisted(url, sender)
    const refusal = () => notPublic(url, sender)
    const host = url.hostname.replace(/^\[|\]$/g, '')
    if (!isAllowlisted && isIP(host) !== 0 && !this.#addresses.isPublic(host)) throw refusal()
    const lookupPublic = publicLookup(this.#find, this.#addresses, refusal)
    const connection = { agent: false, ...(!isAllowlisted && { lookup: lookupPublic }) } as const
    if (owner === undefined || !(reusesAlways || isSafe(method))) return exchange(traced, bounds, connection)
    const key = `${owner} ${url.protocol} ${isAllowlisted}`
    const agent = this.#agents.get(key) ?? agentFor(url.protocol)
    this.#agents.set(key, agent)
    return exchange(traced, bounds, { ...connection, agent }, isSafe(method) ? connection : undefined)
  }

  #isAllowlisted(url: URL, { allowed, publicOnly = false }: Sender): boolean {
    if (publicOnly) return false
    const server = hostAndPort(url)
    return this.#allowed.has(server) || this.#allowed.has(`${url.hostname}:*`) || allowed.includes(server)
  }
}

/** Of the URL only the server: paths and queries are data of the tenant. */
const spanAttributes = ({ method, url }: Outbound) => ({
  'http.request.method': method,
  'server.address': url.hostname,
})

/**
 * The request with the `traceparent` of the work in progress, unless the code of a tenant sets one of its own. It is the only id
 * that other servers get.
 */
function withTraceparent(outbound: Outbound): Outbound {
  const traceparent = outgoingTraceparent()
  if (traceparent === undefined) return outbound
  if (Object.keys(outbound.headers).some((name) => name.toLowerCase() === TRACEPARENT)) return outbound
  return { ...outbound, headers: { ...outbound.headers, [TRACEPARENT]: traceparent } }
}

/** `host:port`, with the default port of the protocol. */
export const hostAndPort = (url: URL): string =>
  `${url.hostname}:${url.port || (url.protocol === 'https:' ? '443' : '80')}`

function notHttp({ protocol }: URL): Problem {
  return new Problem('egress_refused', { detail: `The request was not sent: ${protocol} is not HTTP.` })
}

const LOOPBACK = /^(localhost|127\.[\d.]+|\[::1\])$/

function notPublic(url: URL, { owner }: Sender): Problem {
  const { hostname } = url
  const server = hostAndPort(url)
  const workspace = /ws_\w+$/.exec(owner ?? '')?.[0]
  const option = workspace === undefined ? '' : ` --workspace ${workspace}`
  const all = LOOPBACK.test(hostname)
    ? 'for all workspaces: TENON_EGRESS_ALLOWLIST, or in development npm start -- --allow-loopback'
    : 'for all workspaces: TENON_EGRESS_ALLOWLIST'
  const detail = `${server} is not a public address. An operator opens it for this workspace: npx tenon workspace egress allow ${server}${option}; or ${all}.`
  return new Problem('egress_refused', { detail })
}

/** Requires every address of the name to be public; the socket connects to one of them, without a second resolution. */
function publicLookup(find: Find, addresses: PublicAddresses, refusal: () => Problem): LookupFunction {
  return (hostname, options, callback) => {
    find(hostname, { ...options, all: true }).then(
      (found) => {
        if (!found.every(({ address }) => addresses.isPublic(address))) return callback(refusal(), '')
        const [first] = found
        if (options.all) return callback(null, found)
        return callback(null, first?.address ?? '', first?.family ?? 4)
      },
      (error: Error) => callback(error as NodeJS.ErrnoException, ''),
    )
  }
}

type ConnectionOptions = Pick<RequestOptions, 'agent' | 'lookup'>

/** @param fresh how to repeat the request if a reused connection turned out to be closed */
async function exchange(
  outbound: Outbound,
  bounds: Bounds,
  connection: ConnectionOptions,
  fresh?: ConnectionOptions,
): Promise<Inbound> {
  const { timeoutMs, signal } = bounds
  const untilMs = performance.now() + timeoutMs
  try {
    return await read(await request(outbound, bounds, connection), outbound, bounds)
  } catch (cause) {
    if (cause instanceof Problem) throw cause
    if (signal?.aborted) throw signal.reason
    const leftMs = untilMs - performance.now()
    // A response in progress fails with an error of its own when its time is up. Timers may fire 1 ms early.
    if (leftMs <= 1) throw transportProblem(hostAndPort(outbound.url), new TimedOut(), timeoutMs)
    if (fresh === undefined || !(cause instanceof StaleConnection))
      throw transportProblem(hostAndPort(outbound.url), cause, timeoutMs)
    return exchange(outbound, { ...bounds, timeoutMs: leftMs }, fresh)
  }
}

/** The server had closed a reused connection. */
class StaleConnection extends Error {}

function request(
  { url, method, headers, body }: Outbound,
  { timeoutMs, signal }: Bounds,
  connection: ConnectionOptions,
): Promise<IncomingMessage> {
  const open = url.protocol === 'https:' ? tlsRequest : plainRequest
  const options = { method, headers, ...connection, ...(signal !== undefined && { signal }) }
  return new Promise((resolve, reject) => {
    const sent = begin(() => open(url, options, resolve))
    // Also fails a response in progress.
    const late = setTimeout(() => sent.destroy(new TimedOut()), timeoutMs)
    sent.on('close', () => clearTimeout(late))
    sent.on('error', (cause: NodeJS.ErrnoException) => {
      const isStale = sent.reusedSocket && (cause.code === 'ECONNRESET' || cause.code === 'EPIPE')
      reject(isStale ? new StaleConnection(cause.message, { cause }) : cause)
    })
    sent.end(body)
  })
}

/** Node throws for what HTTP cannot express: a line break in a header, a method with a space. */
function begin(open: () => ClientRequest): ClientRequest {
  try {
    return open()
  } catch (cause) {
    throw new Problem('validation_failed', { detail: 'The method or a header is not valid HTTP.', cause })
  }
}

async function read(
  response: IncomingMessage,
  { bodyTo }: Outbound,
  { bytesMax, excerptBytes, wantedPart }: Bounds,
): Promise<Inbound> {
  const { statusCode: status = 0 } = response
  const headers = Object.fromEntries(
    Object.entries(response.headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(', ') : String(value),
    ]),
  )
  const cookies = response.headers['set-cookie']
  const take = bodyTo?.({ status, headers })
  if (take !== undefined) {
    await take(response).finally(() => response.destroy())
    return { status, headers, body: Buffer.alloc(0) }
  }
  const excerptMax = excerptBytes?.(status)
  const max = excerptMax ?? bytesMax
  const { body, isTooLong } = await readBody(response, max, wantedPart?.(headers))
  if (!isTooLong) return { status, headers, body, ...(cookies !== undefined && { cookies }) }
  if (excerptMax === undefined) throw tooLarge(response, bytesMax)
  return { status, headers, body: body.subarray(0, max), isExcerpt: true }
}

/** The body, or its beginning: more than `max` bytes, after which the connection is closed. */
async function readBody(
  response: IncomingMessage,
  max: number,
  isEnd: (chunk: Buffer) => boolean = () => false,
): Promise<{ readonly body: Buffer; readonly isTooLong: boolean }> {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of response.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes > max || isEnd(chunk)) break
    }
  } catch (error) {
    response.destroy()
    throw error
  }
  if (bytes > max) response.destroy()
  else discardRest(response)
  return { body: Buffer.concat(chunks), isTooLong: bytes > max }
}

/** Leaves a server a moment to end its response, after which the connection can be reused. */
function discardRest(response: IncomingMessage): void {
  if (response.readableEnded) return
  const late = setTimeout(() => response.destroy(), INFRA_LIMITS.keptConnections.discardMs)
  response.on('error', () => {}).once('close', () => clearTimeout(late))
  response.resume()
}

function tooLarge({ headers }: IncomingMessage, bytesMax: number): Problem {
  const length = headers['content-length']
  const size = length === undefined ? `more than ${bytesMax}` : length
  return new Problem('upstream_invalid', {
    detail: `The response has ${size} bytes; the maximum is ${bytesMax}. Request less at once, such as a page.`,
  })
}

/** How long the addresses of this host are cached. */
const INTERFACES_CACHE_MS = 5_000

/** All global unicast IPv6 that IANA assigns (RFC 4291 §2.4); the rest of the space is special or unassigned. */
const GLOBAL_UNICAST = ipaddr.parseCIDR('2000::/3')

type Interfaces = () => NodeJS.Dict<NetworkInterfaceInfo[]>

export class PublicAddresses {
  readonly #interfaces: Interfaces
  readonly #now: () => number
  #own: ReadonlySet<string> = new Set()
  #readAtMs = Number.NEGATIVE_INFINITY

  /**
   * @param interfaces of the host
   * @param now a clock in milliseconds that never goes back
   */
  constructor(interfaces: Interfaces = networkInterfaces, now: () => number = () => performance.now()) {
    this.#interfaces = interfaces
    this.#now = now
  }

  /**
   * True for a unicast address of the public Internet (IANA's special-purpose registries, RFC 6890) that no interface
   * of this host has. An IPv4-mapped address counts as the IPv4 address in it; every other translated form (NAT64,
   * 6to4, Teredo, RFC 6145) is refused.
   * @param text an address in any notation; any other text is not public
   */
  isPublic(text: string): boolean {
    if (!ipaddr.isValid(text)) return false
    const address = ipaddr.process(text)
    if (address.range() !== 'unicast') return false
    if (address.kind() === 'ipv6' && !address.match(GLOBAL_UNICAST)) return false
    return !this.#ownAddresses().has(address.toNormalizedString())
  }

  #ownAddresses(): ReadonlySet<string> {
    if (this.#now() - this.#readAtMs < INTERFACES_CACHE_MS) return this.#own
    const all = Object.values(this.#interfaces()).flatMap((each) => each ?? [])
    this.#own = new Set(all.map(({ address }) => ipaddr.process(address).toNormalizedString()))
    this.#readAtMs = this.#now()
    return this.#own
  }
}

const { idleMs, perServerMax: perServer, workspacesMax: ownersMax } = INFRA_LIMITS.keptConnections

/** Keep-alive connections to other servers. */
function agentFor(protocol: string): Agent {
  const options = { keepAlive: true, timeout: idleMs, maxFreeSockets: perServer, scheduling: 'lifo' } as const
  return protocol === 'https:' ? new TlsAgent(options) : new PlainAgent(options)
}

/** The request took longer than its limit. */
class TimedOut extends Error {}

/** Failures before a connection exists, so that the server has not got the request; by the codes of Node and OpenSSL. */
const UNSENT: Readonly<Record<string, string>> = {
  ENOTFOUND: 'the name is not known',
  EAI_AGAIN: 'the name could not be resolved',
  ECONNREFUSED: 'the connection was refused',
  EHOSTUNREACH: 'the host is not reachable',
  ENETUNREACH: 'the network is not reachable',
  ETIMEDOUT: 'the connection could not be established in time',
}

/** Failures of a TLS handshake, such as `CERT_HAS_EXPIRED` or `DEPTH_ZERO_SELF_SIGNED_CERT`. */
const TLS = /^(CERT_|ERR_TLS_|ERR_SSL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|EPROTO$)/

/**
 * @param server `host:port`
 * @param timeoutMs the limit of the request
 * @returns `upstream_timeout`, or `upstream_unavailable`; with the member `may_have_arrived` if a connection existed, so that
 *   the server may have acted on the request
 */
function transportProblem(server: string, cause: unknown, timeoutMs: number): Problem {
  if (cause instanceof TimedOut) {
    const seconds = Math.max(0.1, Math.round(timeoutMs / 100) / 10)
    const detail = `${server} has not answered within ${seconds} s.`
    return new Problem('upstream_timeout', { detail, cause, members: { may_have_arrived: true } })
  }
  const code = codeOf(cause)
  const unsent =
    UNSENT[code] ?? (TLS.test(code) ? `its TLS certificate or protocol is not accepted (${code})` : undefined)
  if (unsent !== undefined)
    return new Problem('upstream_unavailable', { detail: `${server}: ${unsent}.`, cause })
  const detail = `${server} closed the connection without a complete answer.`
  return new Problem('upstream_unavailable', { detail, cause, members: { may_have_arrived: true } })
}

/** The code of an error; of one that groups several attempts to connect, that of the first. */
function codeOf(cause: unknown): string {
  const { code, errors } = cause as { code?: unknown; errors?: readonly unknown[] }
  if (typeof code === 'string') return code
  return errors?.[0] === undefined ? '' : codeOf(errors[0])
}
