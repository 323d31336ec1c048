/** Resource indicators (RFC 8707): which scopes and claims a token for a resource may carry. */

import { type Client, errors, type KoaContextWithOIDC, type ResourceServer } from 'oidc-provider'
import { LIMITS } from '../../core/limits.ts'
import { isCovered, scopeOf } from '../../core/tool-access.ts'
import { OPERATOR_CLIENT } from '../../infra/crypto/secrets.ts'
import type { McpServerRegistry, PublishedServer } from '../authentication/mcp-server-registry.ts'
import { type Account, type AccountsStore, belongsTo, generationId, isWithin } from './accounts-store.ts'
import { type OAuthClient, type OAuthClients, secretIdOf } from './oauth-clients-store.ts'
import { ALGORITHM } from './signing-keys.ts'

/** What a person grants with the REST API: to act there in her role. */
export const API_SCOPE = 'api'

export interface TargetParts {
  /** Audience of tokens for the REST API. */
  readonly audience: string
  readonly hosted: McpServerRegistry
  readonly people: AccountsStore
  readonly clients: OAuthClients
}

/** A token about to be signed. */
export interface NewToken {
  readonly clientId: string
  /** Absent where a client acts for itself. */
  readonly accountId: string | undefined
  readonly scopes: ReadonlySet<string>
  readonly resource: string
  /** The version of a hosted server that the person's grant is for. */
  readonly consentedVersion: number | undefined
}

export class ResourceIndicators {
  readonly #parts: TargetParts

  constructor(parts: TargetParts) {
    this.#parts = parts
  }

  /** @throws InvalidTarget, with the same words for what is not there, not published, or not the client's */
  async describe(context: KoaContextWithOIDC, resource: string, client: Client): Promise<ResourceServer> {
    requireSingleResource(context)
    const forPeople = client.grantTypeAllowed('authorization_code')
    if (resource === this.#parts.audience) {
      return forPeople ? this.#apiForPeople(context, client) : this.#apiForMachines(client)
    }
    return forServer(context, resource, await this.#grantable(resource, client, forPeople))
  }

  /** What a client means that names no resource: its own server for an agent, the API for everybody else. */
  async default(clientId: string | undefined): Promise<string> {
    const { audience, hosted } = this.#parts
    const agent = clientId === undefined ? undefined : await hosted.client(clientId)
    return agent === undefined ? audience : hosted.resource(agent.workspaceId, agent.slug)
  }

  /**
   * Asked for each token, refreshed ones too: what its holder may by now is what it says.
   * @throws InvalidTarget or InvalidGrant where that is nothing
   */
  async claims(token: NewToken): Promise<Record<string, unknown>> {
    const person = token.accountId === undefined ? undefined : await this.#personOf(token)
    if (token.resource !== this.#parts.audience) return this.#serverClaims(token, person)
    if (token.clientId === OPERATOR_CLIENT) return { roles: ['operator'] }
    if (person !== undefined)
      return { ...(token.scopes.has(API_SCOPE) && rolesOf(person)), ...credentialOf(person) }
    // Nothing is remembered here: a suspended tenant gets no token from the moment of its suspension.
    const machine = await this.#parts.clients.findNow(token.clientId)
    if (machine?.kind !== 'machine') throw new errors.InvalidTarget()
    // A token ends with the secret that it was given for.
    return { ...rolesOf(machine), credential: secretIdOf(machine) }
  }

  /** Whether a person may use a client for a resource at all: for the page that asks her. */
  async allows(person: Account, clientId: string, resource: string): Promise<boolean> {
    const client = await this.#parts.clients.find(clientId)
    if (client === undefined || !isWithin(person, client)) return false
    if (resource === this.#parts.audience) return !client.registered
    const server = await this.#parts.hosted.byResource(resource)
    return server !== undefined && belongsTo(person, server.ref)
  }

  /** The active version of the hosted server behind a resource: what a consent that is asked for now is about. */
  async activeVersion(resource: string): Promise<number | undefined> {
    return (await this.#parts.hosted.byResource(resource))?.version
  }

  /**
   * Tells if scopes reach tools that a consent to an earlier version does not cover.
   * @param version undefined if the consent names none
   */
  async exceedsConsent(resource: string, scopes: ReadonlySet<string>, version?: number): Promise<boolean> {
    const { hosted } = this.#parts
    const server = await hosted.byResource(resource)
    if (server === undefined || server.version === version) return false
    if (version === undefined) return true
    const [consented, active] = await Promise.all([
      hosted.tools(server, version),
      hosted.tools(server, server.version),
    ])
    return active.some((tool) => scopes.has(scopeOf(server.slug, tool)) && !isCovered(tool, consented))
  }

  async #personOf({ accountId = '', clientId, resource }: NewToken): Promise<Account> {
    const person = await this.#parts.people.find(accountId)
    if (person === undefined || !(await this.allows(person, clientId, resource)))
      throw new errors.InvalidGrant('the account may not use this client for this resource')
    await this.#parts.clients.touch(clientId)
    return person
  }

  /** A machine has its scopes from an admin, and admins approve versions: it consents to the active one. */
  async #serverClaims(
    { resource, consentedVersion }: NewToken,
    person: Account | undefined,
  ): Promise<Record<string, unknown>> {
    const server = await this.#parts.hosted.byResource(resource)
    if (server === undefined || (person !== undefined && !belongsTo(person, server.ref)))
      throw new errors.InvalidTarget()
    const version = person === undefined ? server.version : consentedVersion
    if (version === undefined) throw new errors.InvalidGrant('the grant names no version of the server')
    const { tenantId, workspaceId } = server.ref
    const named = {
      tenant_id: tenantId,
      workspace_id: workspaceId,
      mcp_server: server.id,
      mcp_version: version,
    }
    return { ...named, ...(person && credentialOf(person)) }
  }

  /** The REST API has roles, not scopes: a machine's token names none. */
  async #apiForMachines({ clientId }: Client): Promise<ResourceServer> {
    const { clients, audience } = this.#parts
    if (clientId !== OPERATOR_CLIENT && (await clients.find(clientId))?.kind !== 'machine')
      throw new errors.InvalidTarget()
    return resourceInfo(audience, '', LIMITS.tokenSeconds)
  }

  /** People are asked for one scope, whether or not the client names it. */
  async #apiForPeople(context: KoaContextWithOIDC, { clientId }: Client): Promise<ResourceServer> {
    const { clients, audience } = this.#parts
    if ((await clients.find(clientId))?.registered !== false) throw new errors.InvalidTarget()
    if (requestsScopes(context)) {
      const asked = new Set(scopesOf(context)).add(API_SCOPE)
      setScope(context, [...asked])
    }
    return resourceInfo(audience, API_SCOPE, LIMITS.personTokenSeconds)
  }

  async #grantable(resource: string, client: Client, forPeople: boolean): Promise<Grantable> {
    const { hosted } = this.#parts
    const server = await hosted.byResource(resource)
    if (server === undefined) throw new errors.InvalidTarget()
    if (forPeople) return grantable(server, server.scopes)
    if (client.clientId === OPERATOR_CLIENT) return { scopes: server.scopes, defaults: [] }
    const agent = await hosted.client(client.clientId)
    if (agent?.serverId !== server.id) throw new errors.InvalidTarget()
    return grantable(server, agent.scopes ?? server.scopes)
  }
}

interface Grantable {
  readonly scopes: readonly string[]
  /** What is given where no scope is asked for. */
  readonly defaults: readonly string[]
}

function grantable(server: PublishedServer, allowed: readonly string[]): Grantable {
  const within = (scopes: readonly string[]) => scopes.filter((scope) => allowed.includes(scope))
  const scopes = within(server.scopes)
  const reading = within(server.baseline)
  return { scopes, defaults: reading.length > 0 ? reading : scopes }
}

/**
 * Without `scope` an agent gets what only reads (RFC 6749 §3.3); the operator's client, to which all is open, gets
 * nothing that it does not name. What is unknown is not granted.
 */
function forServer(context: KoaContextWithOIDC, resource: string, { scopes, defaults: unasked }: Grantable) {
  if (requestsScopes(context)) {
    const none = context.oidc.params?.['scope'] === undefined
    if (none && unasked.length > 0) setScope(context, unasked)
    const asked = scopesOf(context)
    if (asked.length > 0 && !asked.some((scope) => scopes.includes(scope)))
      throw new errors.InvalidScope('none of the requested scopes can be granted', asked.join(' '))
  }
  return resourceInfo(resource, scopes.join(' '), LIMITS.mcpTokenSeconds)
}

/** A token ends with the generation of its account. */
const credentialOf = ({ generation }: Account) => ({ credential: generationId(generation) })

function rolesOf({ role, tenantId, workspaceId }: Account | OAuthClient): Record<string, unknown> {
  return {
    roles: [role],
    ...(tenantId !== null && { tenant_id: tenantId }),
    ...(workspaceId !== null && { workspace_id: workspaceId }),
  }
}

/** Where scopes are asked for; whoever brings a code or a refresh token has asked before. */
function requestsScopes({ oidc }: KoaContextWithOIDC): boolean {
  return oidc.route !== 'token' || oidc.params?.['grant_type'] === 'client_credentials'
}

const scopesOf = ({ oidc }: KoaContextWithOIDC): string[] =>
  String(oidc.params?.['scope'] ?? '')
    .split(' ')
    .filter(Boolean)

function setScope({ oidc }: KoaContextWithOIDC, scopes: readonly string[]): void {
  if (oidc.params === undefined) throw new errors.InvalidRequest('no parameters')
  oidc.params['scope'] = scopes.join(' ')
}

/** A token is for exactly one resource. */
function requireSingleResource({ oidc }: KoaContextWithOIDC): void {
  const resource: unknown = oidc.params?.['resource']
  if (Array.isArray(resource) && resource.length > 1) throw new errors.InvalidTarget('one resource, please')
}

function resourceInfo(audience: string, scope: string, accessTokenTTL: number): ResourceServer {
  const jwt = { sign: { alg: ALGORITHM } } as const
  return { scope, audience, accessTokenFormat: 'jwt', accessTokenTTL, jwt }
}
