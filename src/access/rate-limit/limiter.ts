/** Rate limiter: charges every request from outside once, before its body is read, and grants leases for event streams. */

import { createHash } from 'node:crypto'
import type { RateClass } from '../../core/operation.ts'
import { type DataRole, domainOf, type Principal, type Role } from '../../core/policy.ts'
import type { TenantId } from '../../core/tenant.ts'
import { parseRate, type Rate } from '../../core/units.ts'
import type { Config } from '../../infra/config.ts'
import { unavailable } from '../../infra/unavailable.ts'
import type { AuthFailureLimiter } from '../authentication/authenticator.ts'
import type { McpPrincipal } from '../authentication/mcp-clients.ts'
import {
  type BucketCharge,
  decide,
  type Limit,
  limitOf,
  MemoryBuckets,
  networkOf,
  type RateLimitDecision,
  rateOf,
} from './memory-buckets.ts'
import { StreamLeases, type StreamLimit } from './stream-leases.ts'
import { ValkeyBuckets } from './valkey-buckets.ts'

export class Limiter {
  readonly #rates: Rates
  readonly #shared: ValkeyBuckets
  readonly #streams: StreamLeases
  /** Stands in while Valkey is unavailable. */
  readonly #local = new MemoryBuckets()
  /** Failed authentications: each process protects its own database. */
  readonly #authFailures = new MemoryBuckets()

  constructor(config: Config, onError: (error: Error) => void) {
    this.#rates = new Rates(config)
    this.#shared = new ValkeyBuckets(config.VALKEY, onError)
    this.#streams = new StreamLeases(config.VALKEY, onError)
  }

  /**
   * Charges one request of an authenticated principal.
   * @param role that the request needs; if undefined, the principal's first role is charged
   * @param rateClass of the operation, if it has a rate limit of its own
   * @throws Problem `dependency_unavailable` for an administrative role while Valkey is unavailable; data requests and requests
   *   about the caller (`/v1/me`) go on
   */
  limitPrincipal(
    principal: Principal,
    role: Role | undefined,
    address: string,
    rateClass?: RateClass,
  ): Promise<RateLimitDecision> {
    const charged = role ?? principal.roles[0] ?? 'anon'
    const charges = this.#rates.ofPrincipal(principal, charged, networkOf(address), rateClass)
    return this.#charge(charges, role !== undefined && domainOf(role) === 'structural_admin')
  }

  /** Charges one message to a hosted MCP server. */
  limitMcpClient(client: McpPrincipal): Promise<RateLimitDecision> {
    return this.#charge(this.#rates.ofMcpClient(client))
  }

  /** Charges one call of a tool of a hosted MCP server, by any caller. */
  limitMcpTool(call: McpToolCall): Promise<RateLimitDecision> {
    return this.#charge([this.#rates.ofMcpTool(call)])
  }

  /** Charges one request that needs no credential: sign-in, documentation, readiness. */
  limitAnonymous(address: string): Promise<RateLimitDecision> {
    return this.#charge([this.#rates.ofAnonymous(networkOf(address))])
  }

  /** As {@link limitAnonymous}, and charges nothing: tells whether such a request would be refused now. */
  async peekAnonymous(address: string): Promise<RateLimitDecision> {
    const charges = [this.#rates.ofAnonymous(networkOf(address))]
    const seen = await this.#shared.peek(charges)
    return decide(charges, seen?.tatOffsetsUs ?? this.#local.peek(charges))
  }

  /** Charges one request without a credential for what the tenant has opened to the public. */
  limitPublicRead(tenantId: TenantId, address: string): Promise<RateLimitDecision> {
    return this.#charge(this.#rates.ofPublicRead(tenantId, networkOf(address)))
  }

  /** Charges one delivery to a webhook. */
  limitWebhook(webhook: string, address: string): Promise<RateLimitDecision> {
    return this.#charge([this.#rates.ofWebhook(webhook, networkOf(address))])
  }

  /**
   * Acquires a lease for an event stream.
   * @param max of the tenant, if it has a number of its own
   * @returns releases the lease
   * @throws Problem `quota_exceeded` if there is none, `dependency_unavailable`
   */
  acquireStream(principal: Principal, role: Role, address: string, max?: number): Promise<() => void> {
    return this.#streams.acquire(this.#rates.streamLimits(principal, role, networkOf(address), max))
  }

  /** As {@link acquireStream}, for a client of a hosted MCP server. */
  acquireMcpStream(client: McpPrincipal, max?: number): Promise<() => void> {
    return this.#streams.acquire(this.#rates.mcpStreamLimits(client, max))
  }

  /** The default number of streams of a tenant, and its open ones; null if Valkey is unavailable. */
  async countStreams(tenantId: TenantId): Promise<{ usual: number; open: number | null }> {
    const { key, max: usual } = this.#rates.streamLimit(tenantId)
    return { usual, open: await this.#streams.count(key) }
  }

  /** Limits failed authentications from this client address. */
  authFailures(address: string): AuthFailureLimiter {
    const charges = [this.#rates.ofAuthFailure(networkOf(address))]
    return {
      check: () => {
        const { refused } = decide(charges, this.#authFailures.peek(charges))
        if (refused !== undefined) throw refused
      },
      record: () => void this.#authFailures.charge(charges),
    }
  }

  close(): void {
    this.#shared.close()
    this.#streams.close()
  }

  /** @param isRequired fails while Valkey is unavailable, instead of counting in memory */
  async #charge(charges: readonly BucketCharge[], isRequired = false): Promise<RateLimitDecision> {
    const charged = await this.#shared.charge(charges, isRequired)
    if (charged !== undefined) return decide(charges, charged.tatOffsetsUs)
    if (isRequired) throw unavailable('valkey', this.#shared.failure)
    return decide(charges, this.#local.charge(charges))
  }
}

/** A call of a tool that has a rate of its own. */
export interface McpToolCall {
  readonly tenantId: TenantId
  readonly serverId: string
  readonly tool: string
  readonly callsPerMinute: number
}

/** Maps requests to the buckets that they are charged to. Names of buckets are built here only. */
export class Rates {
  readonly #rates: Readonly<Record<DataRole | 'admin' | RateClass, Rate>>
  readonly #streams: { readonly ofTenant: number; readonly ofAddress: number }
  readonly #limits: Readonly<
    Record<'anonAddress' | 'mcpClient' | 'tenant' | 'public' | 'authFailure' | 'webhook', Limit>
  >

  constructor(config: Config) {
    this.#rates = {
      service: parseRate(config.TENON_RATE_SERVICE),
      user: parseRate(config.TENON_RATE_USER),
      anon: parseRate(config.TENON_RATE_ANON),
      admin: parseRate(config.TENON_RATE_ADMIN),
      flows: parseRate(config.TENON_RATE_FLOWS),
    }
    this.#streams = {
      ofTenant: config.TENON_STREAMS_PER_TENANT,
      ofAddress: config.TENON_STREAMS_PER_ADDRESS,
    }
    this.#limits = {
      anonAddress: limitOf('address', parseRate(config.TENON_RATE_ANON_ADDRESS)),
      mcpClient: limitOf('subject', parseRate(config.TENON_RATE_MCP)),
      tenant: limitOf('tenant', parseRate(config.TENON_RATE_TENANT)),
      public: limitOf('address', parseRate(config.TENON_RATE_PUBLIC)),
      authFailure: limitOf('address', parseRate(config.TENON_RATE_AUTH_FAILURES)),
      webhook: limitOf('address', parseRate(config.TENON_RATE_WEBHOOK)),
    }
  }

  /**
   * A key is charged by its id, any other credential by subject and role. An anon key is public, so its users are also
   * charged by address: one of them alone cannot exhaust the key.
   * @param network the client's address as {@link networkOf} returns it
   */
  ofPrincipal(principal: Principal, role: Role, network: string, rateClass?: RateClass): BucketCharge[] {
    const { tenantId } = principal
    const charges = [this.#own(principal, role, rateClass)]
    if (isPublicKey(principal, role)) charges.push(this.#anonAddress(tenantId, network))
    if (tenantId !== undefined) charges.push(this.#tenant(tenantId))
    return charges
  }

  ofMcpClient({ subject, server }: McpPrincipal): BucketCharge[] {
    const { tenantId } = server.ref
    const bucket = `${bucketPrefix(tenantId)}mcp_client:${digest(subject)}`
    return [{ bucket, limit: this.#limits.mcpClient }, this.#tenant(tenantId)]
  }

  /** As many calls at once as in a minute; then they come back evenly. */
  ofMcpTool({ tenantId, serverId, tool, callsPerMinute }: McpToolCall): BucketCharge {
    const bucket = `${bucketPrefix(tenantId)}mcp_tool:${serverId}:${digest(tool)}`
    return { bucket, limit: limitOf('tool', { perMinute: callsPerMinute, burst: callsPerMinute }) }
  }

  ofAnonymous(network: string): BucketCharge {
    return { bucket: `${bucketPrefix()}address:${network}`, limit: this.#limits.public }
  }

  /** A page has many images, so the limit of an address is that of requests with an anon key, and counts them, too. */
  ofPublicRead(tenantId: TenantId, network: string): BucketCharge[] {
    return [this.#anonAddress(tenantId, network), this.#tenant(tenantId)]
  }

  /** @param address of the webhook as the sender spells it; there may be no such webhook */
  ofWebhook(address: string, network: string): BucketCharge {
    return { bucket: `${bucketPrefix()}webhook:${digest(address)}:${network}`, limit: this.#limits.webhook }
  }

  ofAuthFailure(network: string): BucketCharge {
    return { bucket: network, limit: this.#limits.authFailure }
  }

  streamLimit(tenantId: TenantId | undefined, max = this.#streams.ofTenant): StreamLimit {
    return { key: `${bucketPrefix(tenantId)}streams`, max, quota: 'sse_streams' }
  }

  /**
   * The limits of one more stream. Public callers, which are anon keys, users and MCP clients, share half of the tenant's
   * streams, so that service keys and admins always have the other half. A workspace may use nine tenths of either.
   */
  streamLimits(principal: Principal, role: Role, network: string, max?: number): StreamLimit[] {
    const ofTenant = this.streamLimit(principal.tenantId, max)
    const ofWorkspace = workspaceShare(ofTenant, principal.workspaceId)
    // One person cannot use up the streams of a tenant: users are limited as addresses are.
    const own = role === 'user' ? `user:${digest(principal.subject)}` : `address:${network}`
    if (!isPublicKey(principal, role) && role !== 'user') return [ofTenant, ...ofWorkspace]
    return [
      this.#ownStreams(ofTenant, own),
      ofTenant,
      ...publicShares(ofTenant, principal.workspaceId),
      ...ofWorkspace,
    ]
  }

  mcpStreamLimits({ subject, server }: McpPrincipal, max?: number): StreamLimit[] {
    const { tenantId, workspaceId } = server.ref
    const ofTenant = this.streamLimit(tenantId, max)
    const own = this.#ownStreams(ofTenant, `mcp:${digest(subject)}`)
    return [own, ofTenant, ...publicShares(ofTenant, workspaceId), ...workspaceShare(ofTenant, workspaceId)]
  }

  #ownStreams({ key }: StreamLimit, own: string): StreamLimit {
    return { key: `${key}:${own}`, max: this.#streams.ofAddress, quota: 'sse_streams_per_address' }
  }

  #own(
    { kind, subject, tenantId, rateLimit }: Principal,
    role: Role,
    rateClass: RateClass | undefined,
  ): BucketCharge {
    const usual = this.#rates[rateClass ?? rateClassOf(role)]
    const rate = rateLimit === undefined ? usual : rateOf(rateLimit, usual)
    const prefix = `${bucketPrefix(tenantId)}${rateClass === undefined ? '' : `${rateClass}:`}`
    if (kind === 'api_key') return { bucket: `${prefix}key:${subject}`, limit: limitOf('key', rate) }
    return { bucket: `${prefix}${kind}:${role}:${digest(subject)}`, limit: limitOf('subject', rate) }
  }

  #anonAddress(tenantId: TenantId | undefined, network: string): BucketCharge {
    return { bucket: `${bucketPrefix(tenantId)}address:${network}`, limit: this.#limits.anonAddress }
  }

  #tenant(tenantId: TenantId): BucketCharge {
    return { bucket: `${bucketPrefix(tenantId)}tenant`, limit: this.#limits.tenant }
  }
}

const rateClassOf = (role: Role): DataRole | 'admin' =>
  role === 'service' || role === 'user' || role === 'anon' ? role : 'admin'

/** Rounded up: a small limit is not divided. */
function workspaceShare({ key, max }: StreamLimit, workspaceId: string | undefined): StreamLimit[] {
  if (workspaceId === undefined) return []
  const share = Math.ceil(max * WORKSPACE_SHARE)
  return [{ key: `${key}:workspace:${workspaceId}`, max: share, quota: 'sse_streams_per_workspace' }]
}

function publicShares({ key, max }: StreamLimit, workspaceId: string | undefined): StreamLimit[] {
  const ofTenant = { key: `${key}:public`, max: Math.ceil(max * PUBLIC_SHARE), quota: 'sse_streams_public' }
  return [...workspaceShare(ofTenant, workspaceId), ofTenant]
}

const PUBLIC_SHARE = 0.5
const WORKSPACE_SHARE = 0.9

/** An anon key has many users, so it identifies none of them. */
const isPublicKey = ({ kind }: Principal, role: Role) => kind === 'api_key' && role === 'anon'

/** Separates tenants. */
const bucketPrefix = (tenantId?: TenantId) => `tenon:{${tenantId ?? 'platform'}}:rate:`

/** A subject is any text of an issuer's choice: its digest cannot imitate another name, and is short. */
const digest = (subject: string) => createHash('sha256').update(subject).digest('base64url')
