/** The workspaces of a tenant that is being imported: made one after the other, and shown together with the tenant. */

import { ENVIRONMENT_DEFAULT, type Environment } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { checkBucket } from '../../core/object-key.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { BUCKET } from './resources/bucket.ts'
import { HOST_ROUTES } from './resources/host-resources.ts'

interface ImportedWorkspace {
  readonly name: string
  readonly slug: string
  readonly bucket: string | null
  /** Absent in archives of builds that knew none. */
  readonly environment?: Environment
}

/**
 * Makes a workspace with its bucket, which nobody can use yet. It may be repeated.
 * @throws Problem `quota_exceeded`, `dependency_unavailable`
 */
export async function makeImportedWorkspace(
  scope: AdminScope,
  ref: WorkspaceRef,
  { name, slug, bucket, environment = ENVIRONMENT_DEFAULT }: ImportedWorkspace,
): Promise<void> {
  const { tenantId, workspaceId } = ref
  const own = bucket === null ? null : checkBucket(`${slug}-${workspaceId.slice(-12)}`)
  await scope.batch(sql`
    insert into workspaces (id, tenant_id, name, slug, bucket, environment, state)
    values (${workspaceId}, ${tenantId}, ${name}, ${slug}, ${own}, ${environment}, 'provisioning') on conflict (id) do nothing`)
  if (own !== null) await BUCKET.apply(scope, ref)
  if (HOST_ROUTES.isConfigured(scope)) await HOST_ROUTES.apply(scope, ref)
}

/** Shows a tenant with all of its workspaces, in one transaction. */
export const activateImported = (tenantId: string): Sql[] => [
  sql`update workspaces set state = 'active', updated_at = now() where tenant_id = ${tenantId} and state = 'provisioning'
    and exists (select from tenants where id = ${tenantId} and state = 'provisioning')`,
  sql`update tenants set state = 'active', updated_at = now() where id = ${tenantId} and state = 'provisioning'`,
]
