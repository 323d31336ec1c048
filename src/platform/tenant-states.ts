/** Whether tenants and workspaces are active. Every door asks: credentials and runs live longer than a state. */

import { Problem } from '../core/problem.ts'
import type { TenantId, WorkspaceId, WorkspaceRef } from '../core/tenant.ts'
import type { Database } from './pg/database.ts'
import { sql } from './pg/sql.ts'
import { SystemScope } from './system.ts'
import { TtlCache } from './ttl-cache.ts'

/** The states of a tenant and, where one is meant, of its workspace. */
export interface States {
  readonly tenantId: TenantId
  readonly tenant: string
  /** Null where the tenant has no such workspace. */
  readonly workspace?: string | null
  /** Of the tenant's last change of these states: a greater number is the later one. */
  readonly seq: number
}

/** Where nothing goes on until it is resumed; `seq` tells when that was so. */
export class Suspended extends Problem {
  declare readonly code: SuspendedCode
  readonly seq: number

  constructor(code: SuspendedCode, seq: number) {
    super(code)
    this.seq = seq
  }
}

export type SuspendedCode = 'tenant_suspended' | 'workspace_suspended'

/** What keeps its holders out; undefined where both are active. */
export function suspensionOf(tenant: string, workspace: string | null = 'active'): SuspendedCode | undefined {
  if (tenant !== 'active') return 'tenant_suspended'
  if (workspace === 'active') return undefined
  return workspace === 'suspended' ? 'workspace_suspended' : 'tenant_suspended'
}

export class TenantStates {
  readonly #system: SystemScope
  readonly #known = new TtlCache<States | undefined>()
  readonly #active = new TtlCache<States>()

  constructor(database: Database) {
    this.#system = new SystemScope('tenant-states', database)
  }

  /** As remembered for a few seconds, or asked. Undefined where there is no such tenant. */
  of(tenantId: TenantId, workspaceId?: WorkspaceId): Promise<States | undefined> {
    return this.#known.load(`${tenantId}/${workspaceId ?? ''}`, () => this.#ofTenant(tenantId, workspaceId))
  }

  /** How many streams it may have, where an operator has said so. */
  async streamsMax(tenantId: TenantId): Promise<number | undefined> {
    const row = await this.#system.row<{ max: number }>(
      sql`select max from quotas where tenant_id = ${tenantId} and workspace_id = '' and name = 'sse_streams'`,
    )
    return row?.max
  }

  /**
   * For runs, which wait for their tenant to be resumed: only that it is active is remembered, so that who is refused
   * is refused by what stands now.
   * @returns undefined where the workspace is not that tenant's
   */
  async ofRun({ tenantId, workspaceId }: WorkspaceRef): Promise<States | undefined> {
    const name = `${tenantId}/${workspaceId}`
    const known = this.#active.get(name)
    if (known !== undefined) return known
    const states = await this.#ofTenant(tenantId, workspaceId)
    if (typeof states?.workspace !== 'string') return undefined
    return this.#rememberActive(name, states)
  }

  /** Whose a workspace is, and how the two stand; that both are active is remembered for a few seconds. */
  async ofWorkspace(workspaceId: WorkspaceId): Promise<States | undefined> {
    const known = this.#active.get(workspaceId)
    if (known !== undefined) return known
    const states = await this.#system.row<States>(sql`
      select t.id as "tenantId", t.state as tenant, w.state as workspace, t.suspensions as seq
      from workspaces w join tenants t on t.id = w.tenant_id where w.id = ${workspaceId}`)
    return states && this.#rememberActive(workspaceId, states)
  }

  #rememberActive(name: string, states: States): States {
    if (suspensionOf(states.tenant, states.workspace) === undefined) this.#active.set(name, states)
    return states
  }

  /** Makes this node ask again at once; others do within the cache's few seconds. */
  forget(tenantId: TenantId): void {
    this.#known.forget((states) => states?.tenantId === tenantId)
    this.#active.forget((states) => states.tenantId === tenantId)
  }

  async #ofTenant(tenantId: TenantId, workspaceId: WorkspaceId | undefined): Promise<States | undefined> {
    const row = await this.#system.row<States>(sql`
      select t.id as "tenantId", t.state as tenant, w.state as workspace, t.suspensions as seq
      from tenants t left join workspaces w on w.tenant_id = t.id and w.id = ${workspaceId ?? null}
      where t.id = ${tenantId}`)
    if (row === undefined || workspaceId !== undefined) return row
    const { workspace: _none, ...states } = row
    return states
  }
}
