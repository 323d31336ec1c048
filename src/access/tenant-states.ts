/** States of tenants and workspaces, cached. Every entry point checks them: credentials and executions outlive a state. */

import { Problem } from '../core/problem.ts'
import type { TenantId, WorkspaceId, WorkspaceRef } from '../core/tenant.ts'
import type { Database } from '../infra/postgres/database.ts'
import { sql } from '../infra/postgres/sql.ts'
import { SystemScope } from '../infra/postgres/system-scope.ts'
import { TtlCache } from '../infra/ttl-cache.ts'
import { ORIGINS_COLUMN } from './browser-origins.ts'
import { REFUSES_OPERATORS_COLUMN } from './operator-refusal.ts'

/** The state of a tenant and, if requested, of one workspace. */
export interface TenantState {
  readonly tenantId: TenantId
  readonly tenant: string
  /** Undefined if no workspace was requested, null if the tenant has no such workspace. */
  readonly workspace?: string | null | undefined
  /** Number of the tenant's last change of these states; a greater one is later. */
  readonly seq: number
  /** Origins of the pages that may use the workspace's credentials; absent if no workspace was requested. */
  readonly origins?: readonly string[]
  /** The bucket of the workspace, if it has one and was requested. */
  readonly bucket?: string | null
  /** Operators get no data token for the workspace. */
  readonly refusesOperators?: boolean
}

/** Nothing runs until the tenant or workspace is resumed; `seq` is that of the state. */
export class Suspended extends Problem {
  declare readonly code: SuspendedCode
  readonly seq: number

  constructor(code: SuspendedCode, seq: number) {
    super(code)
    this.seq = seq
  }
}

export type SuspendedCode = 'tenant_suspended' | 'workspace_suspended'

/** What is being deleted can be restored until its purge begins, so it is suspended until then. */
const IS_HELD: ReadonlySet<string> = new Set(['suspended', 'deleting'])

/** Why credentials are rejected; undefined if both are active. */
export function suspensionOf(tenant: string, workspace: string | null = 'active'): SuspendedCode | undefined {
  if (tenant !== 'active') return 'tenant_suspended'
  if (workspace === 'active') return undefined
  return IS_HELD.has(workspace ?? '') ? 'workspace_suspended' : 'tenant_suspended'
}

export const isSuspended = ({ tenant, workspace }: TenantState): boolean =>
  IS_HELD.has(tenant) || (tenant === 'active' && IS_HELD.has(workspace ?? ''))

/** @throws Suspended; Problem `state_conflict` in any other state but active */
export function refuseUnlessActive(states: TenantState): void {
  const { tenant, workspace, seq } = states
  const state = tenant === 'active' ? workspace : tenant
  if (state === 'active') return
  if (!isSuspended(states)) throw new Problem('state_conflict', { detail: `The workspace is ${state}.` })
  throw new Suspended(suspensionOf(tenant, workspace) ?? 'tenant_suspended', seq)
}

export class TenantStates {
  readonly #system: SystemScope
  readonly #known = new TtlCache<TenantState | undefined>()
  readonly #active = new TtlCache<TenantState>()

  constructor(database: Database) {
    this.#system = new SystemScope('tenant-states', database)
  }

  /** Cached for a few seconds. Undefined if there is no such tenant. */
  of(tenantId: TenantId, workspaceId?: WorkspaceId): Promise<TenantState | undefined> {
    return this.#known.load(`${tenantId}/${workspaceId ?? ''}`, async () => {
      const row = await this.#system.row<TenantState>(sql`
        select t.id as "tenantId", t.state as tenant, w.state as workspace, t.suspension_seq as seq,
          ${ORIGINS_COLUMN}, w.bucket, ${REFUSES_OPERATORS_COLUMN}
        from tenants t left join workspaces w on w.tenant_id = t.id and w.id = ${workspaceId ?? null}
          left join services s on s.tenant_id = t.id and s.workspace_id = w.id
        where t.id = ${tenantId}`)
      return row && { ...row, workspace: workspaceId && row.workspace }
    })
  }

  /** The quota of event streams, if an operator has set one. */
  async streamsMax(tenantId: TenantId): Promise<number | undefined> {
    const row = await this.#system.row<{ max: number }>(
      sql`select max from quotas where tenant_id = ${tenantId} and workspace_id = '' and name = 'sse_streams'`,
    )
    return row?.max
  }

  /**
   * For executions, which wait for their tenant to be resumed: only active states are cached, so that a refusal is current.
   * @returns undefined if the workspace is not that tenant's
   */
  async forExecution({ tenantId, workspaceId }: WorkspaceRef): Promise<TenantState | undefined> {
    const state = await this.ofWorkspace(workspaceId)
    return state?.tenantId === tenantId ? state : undefined
  }

  /** The tenant of a workspace, and the states of both; cached for a few seconds if both are active. */
  async ofWorkspace(workspaceId: WorkspaceId): Promise<TenantState | undefined> {
    const known = this.#active.get(workspaceId)
    if (known !== undefined) return known
    const state = await this.#system.row<TenantState>(sql`
      select t.id as "tenantId", t.state as tenant, w.state as workspace, t.suspension_seq as seq
      from workspaces w join tenants t on t.id = w.tenant_id where w.id = ${workspaceId}`)
    if (state !== undefined && suspensionOf(state.tenant, state.workspace) === undefined)
      this.#active.set(workspaceId, state)
    return state
  }

  /** Invalidates the cache of this node; other nodes read the state again after a few seconds. */
  forget(tenantId: TenantId): void {
    this.#known.forget((state) => state?.tenantId === tenantId)
    this.#active.forget((state) => state.tenantId === tenantId)
  }
}
