/** Access that account holders have given to clients: what it covers, and how it is taken back. */

import type { Grant } from 'oidc-provider'
import type { PublishedServer, ServerVersion } from '../../../access/authentication/mcp-server-registry.ts'
import { type ScopedTool, scopeOf, umbrellasOf } from '../../../core/tool-access.ts'
import type { Account } from '../accounts/accounts-store.ts'
import { destinationOf } from '../clients/redirect-uris.ts'
import { ISSUER_LIMITS } from '../limits.ts'
import type { EndedGrant } from './audit-events.ts'
import type { IssuerServices } from './issuer-services.ts'
import type { StoredGrant } from './issuer-state.ts'

/** A scope, and the tools that it reaches at a hosted server. */
export interface ScopeAccess {
  readonly scope: string
  readonly tools: readonly ScopedTool[]
}

/**
 * One that stands for many comes once for each of them.
 * @param tools of one version of the server; scopes of other resources have none
 */
export function accessWithTools(
  scopes: readonly string[],
  server: PublishedServer | undefined,
  tools: readonly ScopedTool[],
): ScopeAccess[] {
  if (server === undefined) return scopes.map((scope) => ({ scope, tools: [] }))
  const byScope = Map.groupBy(tools, (tool) => scopeOf(server.slug, tool))
  const umbrellas = umbrellasOf(server.slug, tools)
  return scopes.flatMap((scope) =>
    (umbrellas.get(scope) ?? [scope]).map((one) => ({ scope, tools: byScope.get(one) ?? [] })),
  )
}

/** A grant stores scopes only, so the version is one: of a resource with a fragment, which no request can name (RFC 8707 §2). */
export const versionKey = (resource: string) => `${resource}#version`

export const versionScope = ({ serverId, version }: ServerVersion) => `${serverId}@${version}`

/** The version of a hosted server whose tools were consented to; undefined for other resources. */
export function consentedVersion(
  grant: Pick<Grant, 'getResourceScope'> | undefined,
  resource: string,
): ServerVersion | undefined {
  const [serverId = '', version] = (grant?.getResourceScope(versionKey(resource)) ?? '').split('@')
  return version === undefined ? undefined : { serverId, version: Number(version) }
}

/** A grant, as the holder of the account sees it. Times are RFC 3339. */
export interface GivenAccess {
  /** The public id of the grant. */
  readonly id: string
  readonly clientName: string
  /** True if the client registered itself: its name is not verified. */
  readonly registered: boolean
  readonly clientId: string
  /** Hosts and schemes of the redirect URIs of the client. */
  readonly destinations: readonly string[]
  readonly resource: string
  /** Empty if a hosted server is not published. */
  readonly resourceName: string
  readonly access: readonly ScopeAccess[]
  readonly givenAt: string
  readonly endsAt: string
  /** When the client last used a refresh token; null if it has used none. */
  readonly renewedAt: string | null
}

/** `hasMore`: there are older grants. */
export interface GivenAccessList {
  readonly grants: readonly GivenAccess[]
  readonly hasMore: boolean
}

/** `audience` is that of tokens for the REST API. */
type GrantParts = Pick<IssuerServices, 'issuerState' | 'mcpServers' | 'oauthClients'> & {
  readonly audience: string
}

export class Grants {
  readonly #services: GrantParts

  constructor(parts: GrantParts) {
    this.#services = parts
  }

  /** The newest grants of an account. */
  async list({ id }: Pick<Account, 'id'>): Promise<GivenAccessList> {
    const { issuerState, mcpServers } = this.#services
    const max = ISSUER_LIMITS.grantsShownMax
    const stored = await issuerState.readGrants(id, max + 1)
    // Many grants may be for the same server.
    const servers = remember((resource: string) => mcpServers.byResource(resource))
    const grants = stored.slice(0, max).map((one) => this.#describe(one, servers))
    return { grants: await Promise.all(grants), hasMore: stored.length > max }
  }

  /** Takes one grant of the account back. @returns what has ended: nothing if it has no such grant */
  async end({ id }: Pick<Account, 'id'>, grantId: string): Promise<readonly EndedGrant[]> {
    return this.#describeEnded(await this.#services.issuerState.endGrants(id, grantId))
  }

  /** Takes all grants of the account back. @returns what has ended */
  async endAll({ id }: Pick<Account, 'id'>): Promise<readonly EndedGrant[]> {
    return this.#describeEnded(await this.#services.issuerState.endGrants(id))
  }

  #describeEnded(ended: readonly Ended[]): Promise<EndedGrant[]> {
    return Promise.all(
      ended.map(async (one) => {
        const { clientId, resource } = readGrant(one)
        const server = await this.#services.mcpServers.byResource(resource)
        return { id: one.id, clientId, resource, workspaceId: server?.ref.workspaceId }
      }),
    )
  }

  async #describe(stored: StoredGrant, servers: Servers): Promise<GivenAccess> {
    const { audience, mcpServers, oauthClients } = this.#services
    const { id, expiresAt: endsAt, renewedAt } = stored
    const { clientId, resource, scopes, consented, givenAt } = readGrant(stored)
    const [client, found] = await Promise.all([oauthClients.find(clientId), servers(resource)])
    const server = found?.id === consented?.serverId ? found : undefined
    const tools = server && consented ? await mcpServers.tools(server, consented.version) : []
    return {
      ...{ id, clientId, resource, givenAt, endsAt, renewedAt },
      clientName: client?.name ?? clientId,
      registered: client?.registered === true,
      destinations: [...new Set(client?.redirectUris.map(destinationOf))],
      resourceName: resource === audience ? 'The REST API' : (server?.name ?? ''),
      access: accessWithTools(scopes, server, tools),
    }
  }
}

type Ended = Pick<StoredGrant, 'id' | 'payload'>
type Servers = (resource: string) => Promise<PublishedServer | undefined>

/** Calls `load` once for each key. */
function remember<T>(load: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const loaded = new Map<string, Promise<T>>()
  return (key) => {
    const value = loaded.get(key) ?? load(key)
    loaded.set(key, value)
    return value
  }
}

/** The part of a stored grant that is read here. `iat` is in seconds since 1970. */
interface GrantPayload {
  readonly clientId?: string
  readonly iat?: number
  readonly openid?: { readonly scope?: string }
  readonly resources?: Readonly<Record<string, string>>
}

/** A grant of an account is for one resource. */
function readGrant({ payload }: Ended) {
  const { clientId = '', iat = 0, openid, resources = {} } = payload as unknown as GrantPayload
  const resource = Object.keys(resources).find((name) => !name.includes('#')) ?? ''
  const scopeAt = (name: string) => resources[name] ?? ''
  return {
    clientId,
    resource,
    scopes: `${openid?.scope ?? ''} ${scopeAt(resource)}`.split(' ').filter(Boolean),
    consented: consentedVersion({ getResourceScope: scopeAt }, resource),
    givenAt: new Date(iat * 1_000).toISOString(),
  }
}
