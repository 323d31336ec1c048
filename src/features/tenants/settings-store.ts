/** Reads and writes the settings of a workspace, and the retention of its tenant, in the database. */

import type { AdminScope } from '../../access/scope.ts'
import type { TenantId, WorkspaceId, WorkspaceRef } from '../../core/tenant.ts'
import type { Statements } from '../../infra/postgres/database.ts'
import { Sql, sql } from '../../infra/postgres/sql.ts'
import type { StoredAuth } from '../identity/users/auth-settings.ts'
import { findRow } from '../operation-helpers.ts'
import type { TenantRetention, WorkspaceRetention } from '../retention/retention-settings.ts'
import type { ImageSettings } from './image-settings.ts'
import type { Operators } from './operator-access.ts'
import type { Anon, UserObjects, UserTopics } from './public-access.ts'

/** By the names of the columns. Absent members of objects have their default. */
export interface StoredSettings {
  readonly experimental: string[]
  readonly egress_allow: string[]
  readonly anon: Partial<Anon>
  readonly public_read: string[]
  readonly user_objects: Partial<UserObjects>
  readonly user_topics: Partial<UserTopics>
  readonly image_settings: Partial<ImageSettings>
  readonly cors_origins: string[]
  readonly operators: Partial<Operators>
  readonly auth: Partial<StoredAuth>
  readonly retention: WorkspaceRetention
  /** Of the tenant, for all of its workspaces. */
  readonly tenant_retention: TenantRetention
}

export interface Settings {
  readonly ref: WorkspaceRef
  readonly stored: StoredSettings
  /** 0: nothing was ever set. */
  readonly version: number
  readonly retention_failure: { at: string; detail: string } | null
  readonly updated_at: string | null
}

/** Columns of `services` with their defaults. */
const COLUMNS = {
  experimental: '[]',
  egress_allow: '[]',
  anon: '{}',
  public_read: '[]',
  user_objects: '{}',
  user_topics: '{}',
  image_settings: '{}',
  cors_origins: '["*"]',
  operators: '{}',
  auth: '{}',
  retention: '{}',
} as const satisfies Partial<Record<keyof StoredSettings, string>>

interface Row extends StoredSettings, Pick<Settings, 'version' | 'retention_failure' | 'updated_at'> {
  readonly tenant_id: TenantId
}

/** @throws Problem `not_found` */
export async function readSettings(scope: Statements, workspaceId: string): Promise<Settings> {
  const columns = Object.entries(COLUMNS).map(
    ([name, byDefault]) =>
      sql`coalesce(s.${Sql.identifier(name)}, ${byDefault}::jsonb) as ${Sql.identifier(name)}`,
  )
  const row = await findRow<Row>(
    scope,
    'workspace',
    sql`select w.tenant_id, ${Sql.joined(columns, ', ')}, t.retention as tenant_retention,
        coalesce(s.version, 0) as version, s.retention_failure, s.updated_at
      from workspaces w join tenants t on t.id = w.tenant_id
        left join services s on s.tenant_id = w.tenant_id and s.workspace_id = w.id
      where w.id = ${workspaceId} and w.state <> 'deleted'`,
  )
  const { tenant_id: tenantId, version, retention_failure, updated_at, ...stored } = row
  const ref = { tenantId, workspaceId: workspaceId as WorkspaceId }
  return { ref, stored, version, retention_failure, updated_at }
}

/**
 * Changes what was read. A changed period counts at once, not at the next look of the retention; that of a hash chain within an hour.
 * @returns false if the settings have changed since they were read; then nothing is written
 */
export async function writeSettings(
  scope: AdminScope,
  { ref, version, stored }: Settings,
  { tenant_retention, ...changed }: Partial<StoredSettings>,
): Promise<boolean> {
  const names = Object.keys(changed).map((name) => Sql.identifier(name))
  const values = Object.values(changed).map((value) => sql`${JSON.stringify(value)}::jsonb`)
  // A rotation of the master key encrypts them again, which is no change of a setting.
  const isAsRead =
    changed.auth === undefined
      ? sql`true`
      : sql`coalesce(s.auth, ${COLUMNS.auth}::jsonb) = ${JSON.stringify(stored.auth)}::jsonb`
  const isPeriod = changed.retention !== undefined || tenant_retention !== undefined
  const written = await scope.row(sql`
    with changed as (
      insert into services as s (${Sql.joined([sql`tenant_id`, sql`workspace_id`, ...names], ', ')})
      select ${Sql.joined([sql`tenant_id`, sql`id`, ...values], ', ')} from workspaces
      where id = ${ref.workspaceId} and state <> 'deleted' and (
        select t.retention from tenants t where t.id = tenant_id for update) = ${JSON.stringify(stored.tenant_retention)}::jsonb
      on conflict (tenant_id, workspace_id) do update set
        ${Sql.joined([...names.map((name) => sql`${name} = excluded.${name}`), sql`version = s.version + 1`, sql`updated_at = now()`], ', ')}
      where s.version = ${version} and ${isAsRead}
      returning s.tenant_id, s.workspace_id
    ), of_tenant as (
      update tenants t set retention = ${JSON.stringify(tenant_retention ?? {})}::jsonb, updated_at = now()
      from changed where t.id = changed.tenant_id and ${tenant_retention !== undefined}::boolean
    ), due as (
      update workspaces w set retention_due_at = now() from changed where w.id = changed.workspace_id and ${isPeriod}::boolean
    )
    select from changed`)
  return written !== undefined
}
