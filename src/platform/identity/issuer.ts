/** The OAuth provider behind the issuer: who its clients are, and for which resource it gives which token. */

import { createHash, timingSafeEqual } from 'node:crypto'
import type { JWK } from 'jose'
import {
  type Adapter,
  type AdapterPayload,
  type Client,
  errors,
  type KoaContextWithOIDC,
  Provider,
} from 'oidc-provider'
import { LIMITS } from '../../core/limits.ts'
import { OPERATOR_CLIENT } from '../secrets.ts'
import type { AgentClient, Hosted, HostedServers } from './hosted.ts'

export const ALGORITHM = 'ES256'

export interface IssuerSettings {
  readonly issuer: string
  /** Audience of tokens for the REST API. */
  readonly audience: string
  readonly jwk: JWK
  readonly operatorSecret: string
  readonly cookieKey: string
  readonly hosted: HostedServers
}

/** Only client credentials: there is no sign-in of people, so nothing that keeps state. */
export function openProvider(settings: IssuerSettings): Provider {
  const { issuer, audience, jwk, hosted } = settings
  const provider = new Provider(issuer, {
    adapter: (name) => (name === 'Client' ? new Clients(hosted) : new Stateless()),
    jwks: { keys: [{ ...jwk, alg: ALGORITHM, use: 'sig' }] },
    cookies: { keys: [settings.cookieKey] },
    clients: [clientOf(OPERATOR_CLIENT, sha256(settings.operatorSecret))],
    // No flow with a browser: none is announced.
    responseTypes: [],
    scopes: ['openid'],
    ttl: { ClientCredentials: LIMITS.tokenSeconds },
    extraTokenClaims: async (_context, token) =>
      'resourceServer' in token && token.clientId !== undefined
        ? claimsFor(settings, token.clientId, String(token.resourceServer?.identifier()))
        : {},
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: async (_context, client) => defaultResource(settings, client?.clientId),
        useGrantedResource: () => true,
        getResourceServerInfo: async (context, resource, client) =>
          resource === audience
            ? forApi(audience, client)
            : forServer(context, resource, await granted(hosted, resource, client)),
      },
    },
  })
  // Digests are kept instead of secrets; the request's is compared in that form.
  provider.Client.prototype.compareClientSecret = function compare(this: Client, actual: string): boolean {
    return timingSafeEqual(Buffer.from(sha256(actual)), Buffer.from(this.clientSecret ?? sha256('')))
  }
  // Endpoints in the metadata follow the address that Identity sets from the configuration.
  provider.proxy = true
  return provider
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

function clientOf(id: string, secretHash: string) {
  return {
    client_id: id,
    client_secret: secretHash,
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
    id_token_signed_response_alg: ALGORITHM,
  } satisfies AdapterPayload
}

function resourceInfo(audience: string, scope: string, accessTokenTTL: number) {
  const jwt = { sign: { alg: ALGORITHM } } as const
  return { scope, audience, accessTokenFormat: 'jwt', accessTokenTTL, jwt } as const
}

/** The REST API has roles, not scopes, and its tokens are for the operator alone. */
function forApi(audience: string, client: Client) {
  if (client.clientId !== OPERATOR_CLIENT) throw new errors.InvalidTarget()
  return resourceInfo(audience, '', LIMITS.tokenSeconds)
}

interface Grantable {
  readonly scopes: readonly string[]
  /** What is given where no scope is asked for. */
  readonly unasked: readonly string[]
}

/** @throws InvalidTarget, with the same words for what is not there, not published, or not the client's */
async function granted(hosted: HostedServers, resource: string, client: Client): Promise<Grantable> {
  const server = await hosted.byResource(resource)
  const agent = client.clientId === OPERATOR_CLIENT ? undefined : await hosted.client(client.clientId)
  if (server === undefined) throw new errors.InvalidTarget()
  if (client.clientId !== OPERATOR_CLIENT && agent?.serverId !== server.id) throw new errors.InvalidTarget()
  const allowed = agent?.scopes ?? server.scopes
  const within = (scopes: readonly string[]) => scopes.filter((scope) => allowed.includes(scope))
  const scopes = within(server.scopes)
  if (agent === undefined) return { scopes, unasked: [] }
  const reading = within(server.baseline)
  return { scopes, unasked: reading.length > 0 ? reading : scopes }
}

/**
 * Without `scope` an agent gets what only reads (RFC 6749 §3.3); the operator's client, to which all is open, gets
 * nothing that it does not name. What is unknown is not granted.
 */
function forServer(context: KoaContextWithOIDC, resource: string, { scopes, unasked }: Grantable) {
  const { params } = context.oidc
  if (params === undefined) throw new errors.InvalidRequest('no parameters')
  if (params['scope'] === undefined && unasked.length > 0) params['scope'] = unasked.join(' ')
  const asked = params['scope'] === undefined ? [] : String(params['scope']).split(' ')
  if (asked.length > 0 && !asked.some((scope) => scopes.includes(scope))) {
    throw new errors.InvalidScope('none of the requested scopes can be granted', asked.join(' '))
  }
  return resourceInfo(resource, scopes.join(' '), LIMITS.mcpTokenSeconds)
}

/** What a client means that names no resource: the API for the operator, its own server for an agent. */
async function defaultResource(
  { audience, hosted }: IssuerSettings,
  clientId: string | undefined,
): Promise<string> {
  const agent: AgentClient | undefined =
    clientId === undefined || clientId === OPERATOR_CLIENT ? undefined : await hosted.client(clientId)
  return agent === undefined ? audience : hosted.resource(agent.workspaceId, agent.slug)
}

async function claimsFor({ audience, hosted }: IssuerSettings, clientId: string, resource: string) {
  if (resource === audience) return clientId === OPERATOR_CLIENT ? { roles: ['operator'] } : {}
  const server: Hosted | undefined = await hosted.byResource(resource)
  if (server === undefined) throw new errors.InvalidTarget()
  const { tenantId, workspaceId } = server.ref
  return { tenant_id: tenantId, workspace_id: workspaceId, mcp_server: server.id }
}

/** Client credentials give self-contained tokens: there is nothing to keep, and nothing that could be found. */
class Stateless implements Adapter {
  async upsert(): Promise<void> {
    throw new TypeError('the issuer offers no grant that keeps state')
  }
  async find(_id: string): Promise<AdapterPayload | undefined> {
    return undefined
  }
  async findByUserCode(): Promise<undefined> {}
  async findByUid(): Promise<undefined> {}
  async consume(): Promise<void> {}
  async destroy(): Promise<void> {}
  async revokeByGrantId(): Promise<void> {}
}

/** Agents' clients are made through the API and read here. */
class Clients extends Stateless {
  readonly #hosted: HostedServers

  constructor(hosted: HostedServers) {
    super()
    this.#hosted = hosted
  }

  override async find(id: string): Promise<AdapterPayload | undefined> {
    const agent = await this.#hosted.client(id)
    return agent === undefined ? undefined : clientOf(agent.id, agent.secretHash)
  }
}
