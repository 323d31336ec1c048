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
import { LIMITS } from '../core/limits.ts'
import { Problem } from '../core/problem.ts'

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

/** What an answer may come to, in time and in bytes. */
export interface Bounds {
  readonly timeoutMs: number
  readonly bytesMax: number
}

/** Who sends. */
export interface Sender {
  /** `host:port` texts that he may reach besides those of the public Internet. */
  readonly allowed: readonly string[]
  /** The same as it is now, where `allowed` may be out of date: asked before he is refused. */
  readonly allowedNow?: () => Promise<readonly string[]>
  /** Connections are kept for him, and for nobody else; where absent, each is closed after its answer. */
  readonly owner?: string
}

/** They change nothing (RFC 9110 §9.2.1): sent again where a connection was kept that the other side had given up. */
const SAFE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

const NOBODY: Sender = { allowed: [] }
const FLOW_BOUNDS: Bounds = { timeoutMs: LIMITS.httpCallTimeoutMs, bytesMax: LIMITS.httpCallBytesMax }

/** All addresses of a name. */
type Find = (hostname: string, options: LookupAllOptions) => Promise<LookupAddress[]>

export class Egress {
  readonly #allowed: ReadonlySet<string>
  readonly #addresses: PublicAddresses
  readonly #guard: LookupFunction
  readonly #connections = new Connections()

  /**
   * @param allowed `host:port` texts that are reached whatever their address
   * @param find looks names up; by default the system does
   * @param addresses decides which addresses are public
   */
  constructor(allowed: readonly string[], find: Find = lookup, addresses = new PublicAddresses()) {
    this.#allowed = new Set(allowed)
    this.#addresses = addresses
    this.#guard = guardedBy(find, addresses)
  }

  /**
   * Sends one request. Redirects are answers, not followed.
   * @throws Problem `egress_refused` for an address that is not public, `upstream_unavailable` without an answer
   */
  async send(outbound: Outbound, sender: Sender = NOBODY, bounds: Bounds = FLOW_BOUNDS): Promise<Inbound> {
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
    const place = placeOf(url)
    const trusted = this.#allowed.has(place) || allowed.includes(place)
    const host = url.hostname.replace(/^\[|\]$/g, '')
    if (!trusted && isIP(host) !== 0) judge(host, this.#addresses)
    const guard = trusted ? undefined : this.#guard
    const way = { agent: false, ...(guard && { lookup: guard }) } as const
    if (owner === undefined || !SAFE.has(method)) return exchange(outbound, bounds, way)
    const agent = this.#connections.agentOf(owner, url.protocol, guard)
    return exchange(outbound, bounds, { ...way, agent }, way)
  }
}

/** `host:port`, whether the URL says its port or not. */
export const placeOf = (url: URL): string =>
  `${url.hostname}:${url.port || (url.protocol === 'https:' ? '443' : '80')}`

/** @throws Problem `egress_refused` if the address is not one of the public Internet */
function judge(address: string, addresses: PublicAddresses): void {
  if (!addresses.isPublic(address)) throw refused('the address is not a public one')
}

const refused = (why: string) =>
  new Problem('egress_refused', { detail: `The request was not sent: ${why}.` })

/** Every address that the name has must be public; the socket then connects to one of those, not to a second answer. */
function guardedBy(find: Find, addresses: PublicAddresses): LookupFunction {
  return (hostname, options, callback) => {
    find(hostname, { ...options, all: true }).then(
      (found) => {
        try {
          for (const { address } of found) judge(address, addresses)
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

type Connecting = Pick<RequestOptions, 'agent' | 'lookup'>

/** @param fresh how to send it once more, where the connection had been kept and led nowhere any more */
async function exchange(
  outbound: Outbound,
  { timeoutMs, bytesMax }: Bounds,
  way: Connecting,
  fresh?: Connecting,
): Promise<Inbound> {
  const untilMs = performance.now() + timeoutMs
  try {
    const response = await answerTo(outbound, timeoutMs, way)
    return await read(response, bytesMax)
  } catch (cause) {
    if (cause instanceof Problem) throw cause
    const leftMs = untilMs - performance.now()
    if (fresh === undefined || !(cause instanceof GivenUp) || leftMs <= 0) throw noAnswer(cause)
    return exchange(outbound, { timeoutMs: leftMs, bytesMax }, fresh)
  }
}

/** The other side had closed a connection that was kept. */
class GivenUp extends Error {}

function answerTo(
  { url, method, headers, body }: Outbound,
  timeoutMs: number,
  way: Connecting,
): Promise<IncomingMessage> {
  const open = url.protocol === 'https:' ? tlsRequest : plainRequest
  return new Promise((resolve, reject) => {
    const sent = begin(() => open(url, { method, headers, ...way }, resolve))
    // What it has of the answer by then fails, too.
    const late = setTimeout(() => sent.destroy(new Error('It took too long.')), timeoutMs)
    sent.on('close', () => clearTimeout(late))
    sent.on('error', (cause: NodeJS.ErrnoException) => {
      const isStale = sent.reusedSocket && (cause.code === 'ECONNRESET' || cause.code === 'EPIPE')
      reject(isStale ? new GivenUp(cause.message, { cause }) : cause)
    })
    sent.end(body)
  })
}

/** Node refuses at once what cannot be said in HTTP: a line break in a header, a method with a space. */
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
      throw new Problem('upstream_invalid', {
        detail: `The answer has more than ${bytesMax} bytes.`,
      })
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

const noAnswer = (cause: unknown) =>
  new Problem('upstream_unavailable', { detail: 'The other side did not answer.', cause })

/** For how many milliseconds the host's interfaces are taken to be as they were read. */
const INTERFACES_CACHE_MS = 5_000

/** All that IANA gives out as global unicast IPv6 (RFC 4291 §2.4); the rest of the space is special or unassigned. */
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
   * 6to4, Teredo, RFC 6145) is refused, whatever it leads to.
   * @param text an address in any spelling; false for what is none
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

/**
 * What a server leaves behind on a connection meets whoever has it next, so nobody has one of another. Nor is one
 * that leads anywhere taken for one that leads to a public address.
 */
export class Connections {
  /** By owner, protocol and guard. Connections of one that is forgotten are closed when they have been idle for a moment. */
  readonly #agents = new LRUCache<string, Agent>({ max: ownersMax })

  /** @param guard judges the addresses that connections are made to; where absent, any will do */
  agentOf(owner: string, protocol: string, guard: LookupFunction | undefined): Agent {
    const key = `${owner} ${protocol} ${guard === undefined}`
    const agent = this.#agents.get(key) ?? agentFor(protocol)
    this.#agents.set(key, agent)
    return agent
  }
}

function agentFor(protocol: string): Agent {
  const options = { keepAlive: true, timeout: idleMs, maxFreeSockets: perServer, scheduling: 'lifo' } as const
  return protocol === 'https:' ? new TlsAgent(options) : new PlainAgent(options)
}
