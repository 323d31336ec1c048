/** The registry of published MCP servers: maps resource URLs to servers and clients to their server. */

import { LRUCache } from 'lru-cache'
import { idPattern } from '../../core/ids.ts'
import { isWorkspaceId, type TenantId, type WorkspaceId, type WorkspaceRef } from '../../core/tenant.ts'
import { type ScopedTool, type Umbrellas, umbrellasOf } from '../../core/tool-access.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { SystemScope } from '../../infra/postgres/system-scope.ts'
import { TtlCache } from '../../infra/ttl-cache.ts'
import { ACCESS_LIMITS } from '../limits.ts'
import { canonicalResource } from './platform-resource.ts'

/** A server that is published, in an active workspace and tenant. */
export interface PublishedServer {
  readonly ref: WorkspaceRef
  readonly id: string
  readonly slug: string
  readonly name: string
  readonly version: number
  /** SHA-256 of its manifest, hex. */
  readonly versionHash: string
  /** Every scope of the active version, in full (`mcp:<slug>:<tool>`). */
  readonly scopes: readonly string[]
  /** The read-only scopes; all of them if none is. */
  readonly baseline: readonly string[]
  /** Which tools clients are shown; `auto`: people all that they may be granted, others those that are granted. */
  readonly list: 'auto' | 'granted' | 'grantable'
  /** How a call without the scope is answered: HTTP 403, or a tool error. */
  readonly challenge: 'auto' | 'http' | 'tool_error'
  /** `on`: clients are shown the search of tools in place of all tools; `auto`: above 40 tools. */
  readonly search: 'auto' | 'on' | 'off'
  /** How results of tools with an output schema are sent (features/mcp-servers/calls/result-form.ts). */
  readonly results: 'both' | 'text' | 'structured'
  /** The `iss` of the external issuer of its tokens; null: the embedded one. */
  readonly authorizationServer: string | null
}

/** A version of a server, by the id of the server: another one may be published later at the same URL. */
export interface ServerVersion {
  readonly serverId: string
  readonly version: number
}

/** An agent's client, bound to one server. */
export interface AgentClient {
  readonly id: string
  readonly serverId: string
  readonly slug: string
  readonly tenantId: string
  readonly workspaceId: string
  /** SHA-256 of the secret, hex. */
  readonly secretHash: string
  /** The scopes that it may request; null: all of the server. */
  readonly scopes: readonly string[] | null
}

type ServerRow = Omit<PublishedServer, 'ref'> & {
  readonly tenantId: TenantId
  readonly workspaceId: WorkspaceId
}

export class McpServerRegistry {
  readonly #system: SystemScope
  readonly #base: string
  readonly #clients = new TtlCache<AgentClient | null>()
  readonly #published: TtlCache<PublishedServer | undefined>
  /** By server and version, which is immutable. */
  readonly #umbrellas = new LRUCache<string, Umbrellas>({ max: ACCESS_LIMITS.mcpUmbrellasCachedMax })

  /**
   * @param base the public base URL as configured, never what a request says
   * @param published the cache that operations on servers invalidate
   */
  constructor(database: Database, base: string, published: TtlCache<PublishedServer | undefined>) {
    this.#system = new SystemScope('hosted-servers', database)
    this.#base = base
    this.#published = published
  }

  /**
   * Cached as credentials are: a change takes effect at once on the node that makes it, elsewhere within `INFRA_LIMITS.credentialCacheMs`.
   * @param server id or slug
   */
  async find(ws: string, server: string): Promise<PublishedServer | undefined> {
    return this.#published.load(`${ws}/${server}`, () => this.#read(ws, server))
  }

  async #read(ws: string, server: string): Promise<PublishedServer | undefined> {
    if (!isWorkspaceId(ws)) return undefined
    const row = await this.#system.row<ServerRow>(sql`
      select s.tenant_id as "tenantId", s.workspace_id as "workspaceId", s.id, s.slug, s.name,
        s.active_version as version, v.hash as "versionHash", v.scopes, v.baseline, s.list, s.challenge, s.search, s.results,
        s.authorization_server as "authorizationServer"
      from mcp_servers s
        join mcp_server_versions v on v.tenant_id = s.tenant_id and v.workspace_id = s.workspace_id
          and v.server_id = s.id and v.version = s.active_version
        join workspaces w on w.id = s.workspace_id and w.state = 'active'
        join tenants t on t.id = s.tenant_id and t.state = 'active'
      where s.workspace_id = ${ws} and (s.id = ${server} or s.slug = ${server}) and s.state = 'published'`)
    if (row === undefined) return undefined
    const { tenantId, workspaceId, ...published } = row
    return { ...published, ref: { tenantId, workspaceId } }
  }

  /** The tools of a version, as consent needs them; empty if there is no such version. */
  async tools({ ref, id }: Pick<PublishedServer, 'ref' | 'id'>, version: number): Promise<ScopedTool[]> {
    return this.#system.rows<ScopedTool>(sql`
      select tool ->> 'name' as name, tool ->> 'title' as title, tool ->> 'scope' as scope,
        tool ->> 'candidate' as candidate, tool -> 'annotations' as annotations,
        (select one ->> 'title' from jsonb_array_elements(v.manifest -> 'groups') as groups (one)
          where one ->> 'name' = tool ->> 'group') as "groupTitle"
      from mcp_server_versions v, jsonb_array_elements(v.manifest -> 'tools') as tools (tool)
      where v.tenant_id = ${ref.tenantId} and v.workspace_id = ${ref.workspaceId} and v.server_id = ${id}
        and v.version = ${version}`)
  }

  /** Returns the scopes that each umbrella scope of a version stands for. */
  async umbrellas(server: PublishedServer, version: number): Promise<Umbrellas> {
    const key = `${server.id}@${version}`
    const known = this.#umbrellas.get(key)
    if (known !== undefined) return known
    const umbrellas = umbrellasOf(server.slug, await this.tools(server, version))
    this.#umbrellas.set(key, umbrellas)
    return umbrellas
  }

  /**
   * The scopes that a client is told to ask for first: those that only read. If their list is long, one that stands for them, or
   * none if the issuer is another, which does not know what it would stand for.
   */
  async offeredScopes(server: PublishedServer): Promise<readonly string[]> {
    if (server.baseline.join(' ').length <= ACCESS_LIMITS.mcpScopesOfferedCharsMax) return server.baseline
    if (server.authorizationServer !== null) return []
    const names = [...(await this.umbrellas(server, server.version)).keys()]
    return names.toSorted().slice(0, 1)
  }

  /** The description in the active version; may be empty. */
  async description({ ref, id, version }: PublishedServer): Promise<string> {
    const row = await this.#system.row<{ description: string }>(sql`
      select v.manifest ->> 'description' as description from mcp_server_versions v
      where v.tenant_id = ${ref.tenantId} and v.workspace_id = ${ref.workspaceId} and v.server_id = ${id}
        and v.version = ${version}`)
    return row?.description ?? ''
  }

  /** The resource indicator (RFC 8707), which is also the URL of the endpoint, in the caller's spelling. */
  resource(ws: string, server: string): string {
    return `${this.#base}${mcpPath(ws, server)}`
  }

  /** The URL of the protected-resource metadata (RFC 9728 §3.1). */
  metadataUrl(ws: string, server: string): string {
    return `${this.#base}/.well-known/oauth-protected-resource${mcpPath(ws, server)}`
  }

  /**
   * The server that a resource indicator names, byte for byte but for a slash at its end, if the embedded issuer gives tokens for
   * it. It is not cached: a token is for what is published now.
   */
  async byResource(resource: string): Promise<PublishedServer | undefined> {
    if (!resource.startsWith(this.#base)) return undefined
    const path = canonicalResource(resource).slice(this.#base.length)
    const [, ws, server] =
      /^\/v1\/mcp\/workspaces\/([a-z0-9_]+)\/servers\/([a-z0-9_-]+)\/mcp$/.exec(path) ?? []
    if (ws === undefined || server === undefined) return undefined
    const found = await this.#read(ws, server)
    return found?.authorizationServer === null ? found : undefined
  }

  /**
   * The client of an agent, cached for a few seconds, for which a deleted one stays valid. Anonymous callers of the issuer
   * choose the id, so one of another form is neither looked up nor cached.
   */
  async client(id: string): Promise<AgentClient | undefined> {
    if (!AGENT_ID.test(id)) return undefined
    const client = await this.#clients.load(id, async () => {
      const row = await this.#system.row<AgentClient>(sql`
        select c.id, c.server_id as "serverId", s.slug, c.tenant_id as "tenantId",
          c.workspace_id as "workspaceId", c.secret_hash as "secretHash", c.scopes
        from mcp_clients c join mcp_servers s
          on s.tenant_id = c.tenant_id and s.workspace_id = c.workspace_id and s.id = c.server_id
        where c.id = ${id}`)
      return row ?? null
    })
    return client ?? undefined
  }
}

const AGENT_ID = new RegExp(idPattern('agent'))

const mcpPath = (ws: string, server: string) => `/v1/mcp/workspaces/${ws}/servers/${server}/mcp`
