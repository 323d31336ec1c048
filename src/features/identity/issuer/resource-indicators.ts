/** Resource indicators (RFC 8707): which scopes and claims a token for a resource may carry. */

import { type Client, errors, type KoaContextWithOIDC, type ResourceServer } from 'oidc-provider'
import { generationId } from '../../../access/authentication/claims.ts'
import type { ServerVersion } from '../../../access/authentication/mcp-server-registry.ts'
import {
  canonicalResource,
  PLATFORM_SCOPES,
  platformResource,
} from '../../../access/authentication/platform-resource.ts'
import { ALGORITHM } from '../../../access/authentication/signing-keys.ts'
import { ACCESS_LIMITS } from '../../../access/limits.ts'
import { PAYLOAD_READER } from '../../../core/policy.ts'
import {
  expandScopes,
  isCovered,
  type ScopedTool,
  scopeOf,
  type Umbrellas,
  umbrellasOf,
} from '../../../core/tool-access.ts'
import { publicUrl } from '../../../infra/config.ts'
import { OPERATOR_CLIENT } from '../../../infra/crypto/secrets.ts'
import { type Account, belongsTo, isWithin } from '../accounts/accounts-store.ts'
import { type OAuthClient, secretIdOf } from '../clients/oauth-clients-store.ts'
import { ISSUER_LIMITS } from '../limits.ts'
import { isUser, type UserAccount } from '../users/users-store.ts'
import type { IssuerServices } from './issuer-services.ts'
import { findPerson, isClientFor } from './subjects.ts'

/** The scope with which an account grants access to the REST API in its role. */
const API_SCOPE = 'api'

/** A token about to be signed. */
interface NewToken {
  readonly clientId: string
  /** Absent if a client acts for itself. */
  readonly accountId: string | undefined
  readonly scopes: ReadonlySet<string>
  readonly resource: string
  /** The version of a hosted server that the account's grant is for. */
  readonly consented: ServerVersion | undefined
}

/** `audience` is that of tokens for the REST API. */
type ResourceParts = IssuerServices & { readonly audience: string }

export class ResourceIndicators {
  readonly #services: ResourceParts
  /** The platform's MCP server. */
  readonly #platform: string

  constructor(parts: ResourceParts) {
    this.#services = parts
    this.#platform = platformResource(publicUrl(parts.config))
  }

  /** @throws InvalidTarget, with the same text for a resource that does not exist, is not published, or is not the client's */
  async describe(context: KoaContextWithOIDC, resource: string, client: Client): Promise<ResourceServer> {
    requireSingleResource(context)
    const forPeople = client.grantTypeAllowed('authorization_code')
    if (resource === this.#services.audience) {
      return forPeople ? this.#apiForPeople(context, client) : this.#apiForMachines(client)
    }
    if ((await this.#services.oauthClients.find(client.clientId))?.audience === 'users')
      throw new errors.InvalidTarget()
    if (this.#isPlatform(resource) && forPeople) return forServer(context, resource, PLATFORM)
    return forServer(context, resource, await this.#grantable(resource, client, forPeople))
  }

  /** The resource of a request that names none: its own server for an agent, else the API. */
  async default(clientId: string | undefined): Promise<string> {
    const { audience, mcpServers } = this.#services
    const agent = clientId === undefined ? undefined : await mcpServers.client(clientId)
    return agent === undefined ? audience : mcpServers.resource(agent.workspaceId, agent.slug)
  }

  /**
   * The claims of a token, also of a refreshed one: the current rights of its subject.
   * @throws InvalidTarget or InvalidGrant if there are none
   */
  async claims(token: NewToken): Promise<Record<string, unknown>> {
    const account = token.accountId === undefined ? undefined : await this.#requireAccount(token)
    if (this.#isPlatform(token.resource) && account !== undefined) return accountClaims(account)
    if (token.resource !== this.#services.audience) return this.#serverClaims(token, account)
    if (token.clientId === OPERATOR_CLIENT) return this.#operatorClaims()
    if (account !== undefined && isUser(account)) return userClaims(account)
    if (account !== undefined)
      return { ...(token.scopes.has(API_SCOPE) && rolesOf(account)), ...credentialOf(account) }
    // Without a cache, so that a suspended tenant gets no further token.
    const machine = await this.#services.oauthClients.findNow(token.clientId)
    if (machine?.kind !== 'machine') throw new errors.InvalidTarget()
    // A token ends with the secret that it was issued for.
    return { ...rolesOf(machine), credential: secretIdOf(machine) }
  }

  #operatorClaims() {
    const seesPayloads = this.#services.config.TENON_OPERATOR_SEES_PAYLOADS
    return { roles: ['operator', ...(seesPayloads ? [PAYLOAD_READER] : [])] }
  }

  /** True if an account may use a client for a resource. */
  async allows(account: Account, clientId: string, resource: string): Promise<boolean> {
    const client = await this.#services.oauthClients.find(clientId)
    if (client === undefined || !isWithin(account, client) || !isClientFor(client, account)) return false
    if (resource === this.#services.audience) return !client.registered
    if (this.#isPlatform(resource)) return !isUser(account)
    const server = await this.#services.mcpServers.byResource(resource)
    // The tools of a hosted server may change data, and a viewer changes nothing.
    const isUsed = !isUser(account) && account.role !== 'viewer'
    return server !== undefined && isUsed && belongsTo(account, server.ref)
  }

  /** The scopes that a resource has by itself; those of a hosted server reach its tools. */
  ownScopes(resource: string): readonly string[] {
    if (resource === this.#services.audience) return [API_SCOPE]
    return this.#isPlatform(resource) ? PLATFORM.scopes : []
  }

  /** The active version of the hosted server behind a resource, for a consent that is requested now. */
  async activeVersion(resource: string): Promise<ServerVersion | undefined> {
    const server = await this.#services.mcpServers.byResource(resource)
    return server && { serverId: server.id, version: server.version }
  }

  /**
   * Tells if scopes reach tools that a consent to an earlier version does not cover.
   * @param consented undefined if the consent names no version
   */
  async exceedsConsent(
    resource: string,
    scopes: ReadonlySet<string>,
    consented: ServerVersion | undefined,
  ): Promise<boolean> {
    const { mcpServers } = this.#services
    const server = await mcpServers.byResource(resource)
    if (server === undefined) return false
    if (consented?.serverId !== server.id) return true
    if (consented.version === server.version) return false
    const [consentedTools, activeTools] = await Promise.all([
      mcpServers.tools(server, consented.version),
      mcpServers.tools(server, server.version),
    ])
    const reached = (tools: readonly ScopedTool[]) => expandScopes(scopes, umbrellasOf(server.slug, tools))
    const [before, now] = [reached(consentedTools), reached(activeTools)]
    return activeTools.some((tool) => {
      const scope = scopeOf(server.slug, tool)
      return now.has(scope) && !(before.has(scope) && isCovered(tool, consentedTools))
    })
  }

  #isPlatform(resource: string): boolean {
    return canonicalResource(resource) === this.#platform
  }

  async #requireAccount({ accountId = '', clientId, resource }: NewToken): Promise<Account> {
    const account = await findPerson(this.#services, accountId)
    if (account === undefined || !(await this.allows(account, clientId, resource)))
      throw new errors.InvalidGrant('the account may not use this client for this resource')
    await this.#services.oauthClients.touch(clientId)
    return account
  }

  /** A machine needs no consent: an admin gave it its scopes and approved the active version. */
  async #serverClaims(
    { resource, consented }: NewToken,
    account: Account | undefined,
  ): Promise<Record<string, unknown>> {
    const server = await this.#services.mcpServers.byResource(resource)
    if (server === undefined || (account !== undefined && !belongsTo(account, server.ref)))
      throw new errors.InvalidTarget()
    if (account !== undefined && consented?.serverId !== server.id)
      throw new errors.InvalidGrant('the grant names no version of the server')
    const version = consented?.version ?? server.version
    const { tenantId, workspaceId } = server.ref
    const named = {
      tenant_id: tenantId,
      workspace_id: workspaceId,
      mcp_server: server.id,
      mcp_version: version,
    }
    return { ...named, ...(account && credentialOf(account)) }
  }

  /** The REST API has roles, not scopes: a machine's token names none. */
  async #apiForMachines({ clientId }: Client): Promise<ResourceServer> {
    const { oauthClients, audience } = this.#services
    if (clientId !== OPERATOR_CLIENT && (await oauthClients.find(clientId))?.kind !== 'machine')
      throw new errors.InvalidTarget()
    return resourceInfo(audience, '', ACCESS_LIMITS.tokenSeconds)
  }

  /** Account holders grant one scope, even if the client does not request it. */
  async #apiForPeople(context: KoaContextWithOIDC, { clientId }: Client): Promise<ResourceServer> {
    const { oauthClients, audience } = this.#services
    if ((await oauthClients.find(clientId))?.registered !== false) throw new errors.InvalidTarget()
    if (requestsScopes(context)) {
      const requested = new Set(scopesOf(context)).add(API_SCOPE)
      setScope(context, [...requested])
    }
    return resourceInfo(audience, API_SCOPE, ISSUER_LIMITS.personTokenSeconds)
  }

  async #grantable(resource: string, client: Client, forPeople: boolean): Promise<Grantable> {
    const { mcpServers } = this.#services
    const server = await mcpServers.byResource(resource)
    if (server === undefined) throw new errors.InvalidTarget()
    const umbrellas = await mcpServers.umbrellas(server, server.version)
    const scopes = [...umbrellas.keys(), ...server.scopes]
    const defaults = await mcpServers.offeredScopes(server)
    if (forPeople) return { scopes, defaults }
    if (client.clientId === OPERATOR_CLIENT) return { scopes, defaults: [] }
    const agent = await mcpServers.client(client.clientId)
    if (agent?.serverId !== server.id) throw new errors.InvalidTarget()
    return within({ scopes, defaults }, agent.scopes, umbrellas)
  }
}

interface Grantable {
  readonly scopes: readonly string[]
  /** Granted if the request names no scope. */
  readonly defaults: readonly string[]
}

/** Of the platform's MCP server, at which accounts act in their role. */
const PLATFORM: Grantable = { scopes: Object.values(PLATFORM_SCOPES), defaults: [PLATFORM_SCOPES.read] }

/** Those that an admin has given a client; all for null. An umbrella is granted as far as it stands for some of them. */
function within(
  { scopes, defaults }: Grantable,
  allowed: readonly string[] | null,
  umbrellas: Umbrellas,
): Grantable {
  if (allowed === null) return { scopes, defaults }
  const isAllowed = (scope: string) =>
    allowed.includes(scope) || umbrellas.get(scope)?.some((one) => allowed.includes(one)) === true
  const some = scopes.filter(isAllowed)
  const reading = defaults.filter(isAllowed)
  return {
    scopes: some,
    defaults: reading.length > 0 ? reading : some.filter((scope) => allowed.includes(scope)),
  }
}

/**
 * Without `scope` an agent gets the read-only scopes (RFC 6749 §3.3), and the operator's client, which may have all, gets
 * none. Unknown scopes are not granted.
 */
function forServer(context: KoaContextWithOIDC, resource: string, { scopes, defaults: unasked }: Grantable) {
  if (requestsScopes(context)) {
    const none = context.oidc.params?.['scope'] === undefined
    if (none && unasked.length > 0) setScope(context, unasked)
    const requested = scopesOf(context)
    if (requested.length > 0 && !requested.some((scope) => scopes.includes(scope)))
      throw new errors.InvalidScope('none of the requested scopes can be granted', requested.join(' '))
  }
  return resourceInfo(canonicalResource(resource), scopes.join(' '), ISSUER_LIMITS.mcpTokenSeconds)
}

/** A token ends with the generation of its account. */
const credentialOf = ({ generation }: Account) => ({ credential: generationId(generation) })

const accountClaims = (account: Account): Record<string, unknown> => ({
  ...rolesOf(account),
  ...credentialOf(account),
})

/** Of a user of a workspace. `role` is for readers of the token; the platform reads `roles`. */
const userClaims = (user: UserAccount): Record<string, unknown> => ({
  ...rolesOf(user),
  role: user.role,
  email: user.email,
  email_verified: user.emailVerified,
  claims: user.claims,
  ...credentialOf(user),
})

function rolesOf({
  role,
  seesPayloads,
  tenantId,
  workspaceId,
}: Account | OAuthClient): Record<string, unknown> {
  return {
    roles: [role, ...(seesPayloads === true ? [PAYLOAD_READER] : [])],
    ...(tenantId !== null && { tenant_id: tenantId }),
    ...(workspaceId !== null && { workspace_id: workspaceId }),
  }
}

/** True if the request may name scopes: those of a code or refresh token were requested before. */
function requestsScopes({ oidc }: KoaContextWithOIDC): boolean {
  return oidc.route !== 'token' || oidc.params?.['grant_type'] === 'client_credentials'
}

const scopesOf = ({ oidc }: KoaContextWithOIDC): string[] =>
  String(oidc.params?.['scope'] ?? '')
    .split(' ')
    .filter(Boolean)

function setScope({ oidc }: KoaContextWithOIDC, scopes: readonly string[]): void {
  if (oidc.params === undefined) throw new errors.InvalidRequest('the request has no parameters')
  oidc.params['scope'] = scopes.join(' ')
}

/** A token is for exactly one resource. */
function requireSingleResource({ oidc }: KoaContextWithOIDC): void {
  const resource: unknown = oidc.params?.['resource']
  if (Array.isArray(resource) && resource.length > 1)
    throw new errors.InvalidTarget('the request must name exactly one resource')
}

function resourceInfo(audience: string, scope: string, accessTokenTTL: number): ResourceServer {
  const jwt = { sign: { alg: ALGORITHM } } as const
  return { scope, audience, accessTokenFormat: 'jwt', accessTokenTTL, jwt }
}
