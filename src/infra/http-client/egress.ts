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
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'

export interface Outbound {
  readonly method: string
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

export interface Inbound {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** Limits of a response. */
export interface Bounds {
  readonly timeoutMs: number
  readonly bytesMax: number
}

export interface Sender {
  /** `host:port` texts that may be reached besides the public Internet. */
  readonly allowed: readonly string[]
  /** The current list, read before a request is refused; `allowed` may be stale. */
  readonly allowedNow?: () => Promise<readonly string[]>
  /** Connections are reused for this owner only; without one, each is closed after its response. */
  readonly owner?: string
}

/** Safe methods (RFC 9110 §9.2.1): repeated if the server had closed a reused connection. */
const SAFE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

const ANONYMOUS: Sender = { allowed: [] }
const FLOW_BOUNDS: Bounds = { timeoutMs: LIMITS.httpCallTimeoutMs, bytesMax: LIMITS.httpCallBytesMax }

/** All addresses of a name. */
type Find = (hostname: string, options: LookupAllOptions) => Promise<LookupAddress[]>

export class Egress {
  readonly #allowed: ReadonlySet<string>
  readonly #addresses: PublicAddresses
  readonly #guard: LookupFunction
  /**
   * By owner, protocol and guard: owners share no connection, since a server may leave state on it, and a connection to any
   * address is not used for public ones. Those of an evicted owner close when they are idle.
   */
  readonly #agents = new LRUCache<string, Agent>({ max: ownersMax })

  /**
   * @param allowed `host:port` texts that may be reached at any address
   * @param find resolves names; the system's resolver by default
   * @param addresses decides which addresses are public
   */
  constructor(allowed: readonly string[], find: Find = lookup, addresses = new PublicAddresses()) {
    this.#allowed = new Set(allowed)
    this.#addresses = addresses
    this.#guard = guardedBy(find, addresses)
  }

  /**
   * Sends one request. Redirects are not followed.
   * @throws Problem `egress_refused` for an address that is not public, `upstream_unavailable` without a response
   */
  async send(outbound: Outbound, sender: Sender = ANONYMOUS, bounds: Bounds = FLOW_BOUNDS): Promise<Inbound> {
    try {
      return await this.#send(outbound, sender, bounds)
    } catch (error) {
      const isRefused = error instanceof Problem && error.code === 'egress_refused'
      if (!isRefused || sender.allowedNow === undefined) throw error
      return this.#send(outbound, { ...sender, allowed: await sender.allowedNow() }, bounds)
    }
  }

  async #send(outbound: Outbound, { allowed, owner }: Sender, bounds: Bounds): Promise<Inbound> {
    const { url, method } = outbound
    if (url.protocol !== 'http:' && url.protocol !== 'https:') throw refused(`${url.protocol} is not HTTP`)
    const server = hostAndPort(url)
    const trusted = this.#allowed.has(server) || allowed.includes(server)
    const host = url.hostname.replace(/^\[|\]$/g, '')
    if (!trusted && isIP(host) !== 0) requirePublic(host, this.#addresses)
    const connection = { agent: false, ...(!trusted && { lookup: this.#guard }) } as const
    if (owner === undefined || !SAFE.has(method)) return exchange(outbound, bounds, connection)
    const key = `${owner} ${url.protocol} ${trusted}`
    const agent = this.#agents.get(key) ?? agentFor(url.protocol)
    this.#agents.set(key, agent)
    return exchange(outbound, bounds, { ...connection, agent }, connection)
  }
}

/** `host:port`, with the default port of the protocol. */
export const hostAndPort = (url: URL): string =>
  `${url.hostname}:${url.port || (url.protocol === 'https:' ? '443' : '80')}`

/** @throws Problem `egress_refused` if the address is not one of the public Internet */
function requirePublic(address: string, addresses: PublicAddresses): void {
  if (!addresses.isPublic(address)) throw refused('the address is not a public one')
}

const refused = (why: string) =>
  new Problem('egress_refused', { detail: `The request was not sent: ${why}.` })

/** Requires every address of the name to be public; the socket connects to one of them, without a second resolution. */
function guardedBy(find: Find, addresses: PublicAddresses): LookupFunction {
  return (hostname, options, callback) => {
    find(hostname, { ...options, all: true }).then(
      (found) => {
        try {
          for (const { address } of found) requirePublic(address, addresses)
        } catch (error) {
          return callback(error as Error, '')
        }
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
  { timeoutMs, bytesMax }: Bounds,
  connection: ConnectionOptions,
  fresh?: ConnectionOptions,
): Promise<Inbound> {
  const untilMs = performance.now() + timeoutMs
  try {
    return await read(await request(outbound, timeoutMs, connection), bytesMax)
  } catch (cause) {
    if (cause instanceof Problem) throw cause
    const leftMs = untilMs - performance.now()
    if (fresh === undefined || !(cause instanceof StaleConnection) || leftMs <= 0)
      throw new Problem('upstream_unavailable', { detail: 'The other side did not answer.', cause })
    return exchange(outbound, { timeoutMs: leftMs, bytesMax }, fresh)
  }
}

/** The server had closed a reused connection. */
class StaleConnection extends Error {}

function request(
  { url, method, headers, body }: Outbound,
  timeoutMs: number,
  connection: ConnectionOptions,
): Promise<IncomingMessage> {
  const open = url.protocol === 'https:' ? tlsRequest : plainRequest
  return new Promise((resolve, reject) => {
    const sent = begin(() => open(url, { method, headers, ...connection }, resolve))
    // Also fails a response in progress.
    const late = setTimeout(() => sent.destroy(new Error('It took too long.')), timeoutMs)
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

async function read(response: IncomingMessage, bytesMax: number): Promise<Inbound> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > bytesMax) {
      response.destroy()
      throw new Problem('upstream_invalid', { detail: `The answer has more than ${bytesMax} bytes.` })
    }
    chunks.push(chunk)
  }
  const headers = Object.fromEntries(
    Object.entries(response.headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(', ') : String(value),
    ]),
  )
  return { status: response.statusCode ?? 0, headers, body: Buffer.concat(chunks) }
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

const { idleMs, perServer, ownersMax } = LIMITS.keptConnections

/** Keep-alive connections to other servers. */
function agentFor(protocol: string): Agent {
  const options = { keepAlive: true, timeout: idleMs, maxFreeSockets: perServer, scheduling: 'lifo' } as const
  return protocol === 'https:' ? new TlsAgent(options) : new PlainAgent(options)
}
