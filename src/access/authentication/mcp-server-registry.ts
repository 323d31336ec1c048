/** The registry of published MCP servers: maps resource URLs to servers and clients to their server. */

import { idPattern } from '../../core/ids.ts'
import { isWorkspaceId, type TenantId, type WorkspaceId, type WorkspaceRef } from '../../core/tenant.ts'
import type { ScopedTool } from '../../core/tool-access.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { SystemScope } from '../../infra/postgres/system-scope.ts'
import { TtlCache } from '../../infra/ttl-cache.ts'

/** A server that answers on the wire: published, its workspace and tenant active. */
export interface PublishedServer {
  readonly ref: WorkspaceRef
  readonly id: string
  readonly slug: string
  readonly name: string
  readonly version: number
  /** Every scope of the active version, in full (`mcp:<slug>:<tool>`). */
  readonly scopes: readonly string[]
  /** The scopes that only read; all of them where none does. */
  readonly baseline: readonly string[]
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
  /** What it may ask for; null: whatever the server has. */
  readonly scopes: readonly string[] | null
}

interface HostedRow {
  readonly tenant_id: TenantId
  readonly workspace_id: WorkspaceId
  readonly id: string
  readonly slug: string
  readonly name: string
  readonly active_version: number
  readonly scopes: readonly string[]
  readonly baseline: readonly string[]
}

export class McpServerRegistry {
  readonly #system: SystemScope
  readonly #base: string
  readonly #clients = new TtlCache<AgentClient | null>()

  /** @param base the public base URL as configured, never what a request says */
  constructor(database: Database, base: string) {
    this.#system = new SystemScope('hosted-servers', database)
    this.#base = base
  }

  /** @param server id or slug. Asked anew each time: a publication is seen by the next request. */
  async find(ws: string, server: string): Promise<PublishedServer | undefined> {
    if (!isWorkspaceId(ws)) return undefined
    const row = await this.#system.row<HostedRow>(sql`
      select s.tenant_id, s.workspace_id, s.id, s.slug, s.name, s.active_version, v.scopes, v.baseline
      from mcp_servers s
        join mcp_server_versions v on v.tenant_id = s.tenant_id and v.workspace_id = s.workspace_id
          and v.server_id = s.id and v.version = s.active_version
        join workspaces w on w.id = s.workspace_id and w.state = 'active'
        join tenants t on t.id = s.tenant_id and t.state = 'active'
      where s.workspace_id = ${ws} and (s.id = ${server} or s.slug = ${server}) and s.state = 'published'`)
    if (row === undefined) return undefined
    const { tenant_id: tenantId, workspace_id: workspaceId, active_version: version, ...rest } = row
    return { ...rest, ref: { tenantId, workspaceId }, version }
  }

  /** The tools of a version, with what consent needs to know of them; empty if there is no such version. */
  async tools({ ref, id }: Pick<PublishedServer, 'ref' | 'id'>, version: number): Promise<ScopedTool[]> {
    return this.#system.rows<ScopedTool>(sql`
      select tool ->> 'name' as name, tool ->> 'title' as title, tool ->> 'scope' as scope,
        tool ->> 'candidate' as candidate, tool -> 'annotations' as annotations
      from mcp_server_versions v, jsonb_array_elements(v.manifest -> 'tools') as tools (tool)
      where v.tenant_id = ${ref.tenantId} and v.workspace_id = ${ref.workspaceId} and v.server_id = ${id}
        and v.version = ${version}`)
  }

  /** The resource indicator (RFC 8707) and the address of the wire, with the spelling of the caller. */
  resource(ws: string, server: string): string {
    return `${this.#base}${mcpPath(ws, server)}`
  }

  /** Where the protected-resource metadata stands (RFC 9728 §3.1). */
  metadataUrl(ws: string, server: string): string {
    return `${this.#base}/.well-known/oauth-protected-resource${mcpPath(ws, server)}`
  }

  /** The server that a resource indicator names, byte for byte. */
  async byResource(resource: string): Promise<PublishedServer | undefined> {
    if (!resource.startsWith(this.#base)) return undefined
    const path = resource.slice(this.#base.length)
    const [, ws, server] =
      /^\/v1\/mcp\/workspaces\/([a-z0-9_]+)\/servers\/([a-z0-9_-]+)\/mcp$/.exec(path) ?? []
    return ws === undefined || server === undefined ? undefined : this.find(ws, server)
  }

  /**
   * Remembered for a few seconds: that long a deleted client lives on. Anybody may ask the issuer for any id, so what
   * is none of ours is neither looked up nor remembered.
   */
  async client(id: string): Promise<AgentClient | undefined> {
    if (!AGENT_ID.test(id)) return undefined
    const known = this.#clients.get(id)
    if (known !== undefined) return known ?? undefined
    const row = await this.#system.row<AgentClient>(sql`
      select c.id, c.server_id as "serverId", s.slug, c.tenant_id as "tenantId",
        c.workspace_id as "workspaceId",
        c.secret_hash as "secretHash", c.scopes
      from mcp_clients c join mcp_servers s
        on s.tenant_id = c.tenant_id and s.workspace_id = c.workspace_id and s.id = c.server_id
      where c.id = ${id}`)
    this.#clients.set(id, row ?? null)
    return row
  }
}

const AGENT_ID = new RegExp(idPattern('agent'))

const mcpPath = (ws: string, server: string) => `/v1/mcp/workspaces/${ws}/servers/${server}/mcp`
