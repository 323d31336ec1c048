/** Which buckets a request is charged to, by who asks: the one builder of their names. */

import { createHash } from 'node:crypto'
import type { Principal, Role } from '../../core/policy.ts'
import type { TenantId } from '../../core/tenant.ts'
import type { Config } from '../config.ts'
import type { McpPrincipal } from '../identity/holders.ts'
import { type Limit, limitOf, parseRate, type Rate, rateOf } from './limit.ts'
import type { Charge } from './local-ledger.ts'
import type { Places } from './places.ts'

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
  ofGuest({ subject, server }: McpPrincipal): Charge[] {
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
