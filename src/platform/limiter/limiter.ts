/** Rate limiter: charges every request from outside once, before its body is read, and leases slots for event streams. */

import { createHash } from 'node:crypto'
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { domainOf, type Principal, type Role } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import type { TenantId } from '../../core/tenant.ts'
import type { Config } from '../config.ts'
import type { Visitor } from '../identity/auth.ts'
import type { Guest } from '../identity/guests.ts'
import {
  type Charge,
  type Limit,
  LocalLedger,
  limitOf,
  type Passage,
  parseRate,
  passageOf,
  type Rate,
  rateOf,
} from './limit.ts'
import { PlaceKeeper, type Places } from './places.ts'
import { SharedLedger } from './shared-ledger.ts'

export class Limiter {
  readonly #rates: Rates
  readonly #shared: SharedLedger
  readonly #places: PlaceKeeper
  /** Stands in for the shared one (decisions §5). */
  readonly #local = new LocalLedger()
  /** Refused credentials: a process defends its own database. */
  readonly #refused = new LocalLedger()

  constructor(config: Config, onError: (error: Error) => void) {
    this.#rates = new Rates(config)
    this.#shared = new SharedLedger(config.REDIS_URL, onError)
    this.#places = new PlaceKeeper(config.REDIS_URL, onError)
  }

  /**
   * One request of somebody who is known by now.
   * @param role that it needs; undefined where it needs none, and the highest is counted
   * @throws Problem `dependency_unavailable` for an admin where Valkey does not answer: data goes on, structure waits
   */
  admit(principal: Principal, role: Role | undefined, address: string): Promise<Passage> {
    const counted = role ?? principal.roles[0] ?? 'anon'
    const charges = this.#rates.ofPrincipal(principal, counted, networkOf(address))
    return this.#charge(charges, role !== undefined && domainOf(role) === 'structural_admin')
  }

  /** One message to a hosted MCP server. */
  admitGuest(guest: Guest): Promise<Passage> {
    return this.#charge(this.#rates.ofGuest(guest), false)
  }

  /** One request for what needs no credential: sign-in, documentation, readiness. */
  admitStranger(address: string): Promise<Passage> {
    return this.#charge([this.#rates.ofStranger(networkOf(address))], false)
  }

  /** One delivery to a webhook. */
  admitSender(webhook: string, address: string): Promise<Passage> {
    return this.#charge([this.#rates.ofSender(webhook, networkOf(address))], false)
  }

  /**
   * A place for a stream that goes on.
   * @param max of the tenant, where it has a number of its own
   * @returns how to give it back
   * @throws Problem `quota_exceeded` where there is none, `dependency_unavailable`
   */
  takePlace(principal: Principal, role: Role, address: string, max?: number): Promise<() => void> {
    return this.#places.take(this.#rates.placesOf(principal, role, networkOf(address), max))
  }

  /** The streams of a tenant: how many each may have, and how many are open; null where Valkey does not say. */
  async streamsOf(tenantId: TenantId): Promise<{ usual: number; open: number | null }> {
    const { key, max: usual } = this.#rates.placesOfTenant(tenantId)
    return { usual, open: await this.#places.taken(key) }
  }

  /** Whoever shows keys from this address: too many that are nobody's, and the database is not asked any more. */
  visitor(address: string): Visitor {
    const charge = () => this.#rates.ofRefused(networkOf(address))
    return {
      tolerate: () => {
        const asked = [charge()]
        const { refused } = passageOf(asked, this.#refused.look(asked))
        if (refused !== undefined) throw refused
      },
      refuse: () => void this.#refused.charge([charge()]),
    }
  }

  close(): void {
    this.#shared.close()
    this.#places.close()
  }

  async #charge(charges: readonly Charge[], must: boolean): Promise<Passage> {
    const found = await this.#shared.charge(charges, must)
    if (found !== undefined) return passageOf(charges, found.aheadUs)
    if (must) throw new Problem('dependency_unavailable', { detail: 'What counts requests does not answer.' })
    return passageOf(charges, this.#local.charge(charges))
  }
}

export class Rates {
  readonly #service: Rate
  readonly #anon: Rate
  readonly #admin: Rate
  readonly #streams: { readonly ofTenant: number; readonly ofAddress: number }
  readonly #limits: Readonly<
    Record<'anonAddress' | 'guest' | 'tenant' | 'public' | 'refused' | 'sender', Limit>
  >

  constructor(config: Config) {
    this.#service = parseRate(config.TENON_RATE_SERVICE)
    this.#anon = parseRate(config.TENON_RATE_ANON)
    this.#admin = parseRate(config.TENON_RATE_ADMIN)
    this.#streams = {
      ofTenant: config.TENON_STREAMS_PER_TENANT,
      ofAddress: config.TENON_STREAMS_PER_ADDRESS,
    }
    this.#limits = {
      anonAddress: limitOf('address', parseRate(config.TENON_RATE_ANON_ADDRESS)),
      guest: limitOf('subject', parseRate(config.TENON_RATE_MCP)),
      tenant: limitOf('tenant', parseRate(config.TENON_RATE_TENANT)),
      public: limitOf('address', parseRate(config.TENON_RATE_PUBLIC)),
      refused: limitOf('address', parseRate(config.TENON_RATE_REFUSED)),
      sender: limitOf('address', parseRate(config.TENON_RATE_WEBHOOK)),
    }
  }

  /**
   * A key is counted by its id, so in all of its presentations; whoever else by subject and role. An anon key is public:
   * its users are told apart by their addresses, or one of them could use up what is there for all.
   * @param network what platform/limiter/address makes of the client's address
   */
  ofPrincipal(principal: Principal, role: Role, network: string): Charge[] {
    const { tenantId } = principal
    const charges = [this.#own(principal, role)]
    if (isPublicKey(principal, role))
      charges.push({ bucket: `${roomOf(tenantId)}address:${network}`, limit: this.#limits.anonAddress })
    if (tenantId !== undefined) charges.push(this.#tenant(tenantId))
    return charges
  }

  /** The caller of a hosted MCP server. */
  ofGuest({ subject, server }: Guest): Charge[] {
    const { tenantId } = server.ref
    return [
      { bucket: `${roomOf(tenantId)}guest:${digest(subject)}`, limit: this.#limits.guest },
      this.#tenant(tenantId),
    ]
  }

  /** Somebody who asks for what needs no credential, or for one. */
  ofStranger(network: string): Charge {
    return { bucket: `${roomOf(undefined)}address:${network}`, limit: this.#limits.public }
  }

  /**
   * Somebody who sends to a webhook. Whether there is such a one is not known yet.
   * @param address the webhook's, as the sender spells it
   */
  ofSender(address: string, network: string): Charge {
    const bucket = `${roomOf(undefined)}webhook:${digest(address)}:${network}`
    return { bucket, limit: this.#limits.sender }
  }

  /** Somebody whose credential was refused. */
  ofRefused(network: string): Charge {
    return { bucket: network, limit: this.#limits.refused }
  }

  placesOfTenant(tenantId: TenantId | undefined, max = this.#streams.ofTenant): Places {
    return { key: `${roomOf(tenantId)}streams`, max, quota: 'sse_streams' }
  }

  /** Where a stream that goes on takes a place. */
  placesOf(principal: Principal, role: Role, network: string, max?: number): Places[] {
    const room = roomOf(principal.tenantId)
    const ofTenant = this.placesOfTenant(principal.tenantId, max)
    if (!isPublicKey(principal, role)) return [ofTenant]
    const key = `${room}streams:address:${network}`
    return [{ key, max: this.#streams.ofAddress, quota: 'sse_streams_per_address' }, ofTenant]
  }

  #own({ kind, subject, tenantId, rateLimit }: Principal, role: Role): Charge {
    const usual = this.#usual(role)
    const rate = rateLimit === undefined ? usual : rateOf(rateLimit, usual)
    if (kind === 'api_key')
      return { bucket: `${roomOf(tenantId)}key:${subject}`, limit: limitOf('key', rate) }
    const bucket = `${roomOf(tenantId)}${kind}:${role}:${digest(subject)}`
    return { bucket, limit: limitOf('subject', rate) }
  }

  #usual(role: Role): Rate {
    if (role === 'anon') return this.#anon
    return role === 'service' ? this.#service : this.#admin
  }

  #tenant(tenantId: TenantId): Charge {
    return { bucket: `${roomOf(tenantId)}tenant`, limit: this.#limits.tenant }
  }
}

/** Many share it, so it does not say who it is. */
const isPublicKey = ({ kind }: Principal, role: Role) => kind === 'api_key' && role === 'anon'

/** No bucket of one tenant is another's. The braces keep those of a request on one node of a cluster. */
const roomOf = (tenantId: TenantId | undefined) => `tenon:{${tenantId ?? 'platform'}}:rate:`

/** A subject is any text that an issuer likes: it must not look like something else, nor take much memory. */
const digest = (subject: string) => createHash('sha256').update(subject).digest('base64url')

/** Of 16 bits: so many name a network. */
const GROUPS = 4

/**
 * @param address as the socket or a trusted proxy names it
 * @returns IPv4 in dots, also where it comes in IPv6 clothes; IPv6 as its /64, since a client has all of that
 */
export function networkOf(address: string): string {
  // As most are.
  if (/^[0-9.]+$/.test(address)) return address
  // Some proxies write the port as well, and each connection has another one.
  const [, host = address] = /^([0-9.]+|\[.*\]):\d+$/.exec(address) ?? []
  const bare = host.replace(/^\[|\]$/g, '').split('%')[0] ?? ''
  if (isIP(bare) === 0) return bare
  const parsed = ipaddr.process(bare)
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString()
  const groups = parsed.parts.slice(0, GROUPS).map((group) => group.toString(16))
  return `${groups.join(':')}::/${GROUPS * 16}`
}
