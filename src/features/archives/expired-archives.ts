/** Removes archives whose time to be downloaded is over. */

import type { AdminScope } from '../../access/scope.ts'
import type { TenantId, WorkspaceId } from '../../core/tenant.ts'
import { sql } from '../../infra/postgres/sql.ts'
import type { BackgroundTask } from '../background/background-task.ts'
import { type TenantServices, tenantTask } from '../background/tenant-task.ts'
import { removeArchives } from './archive-files.ts'
import { ARCHIVE_LIMITS } from './limits.ts'

interface ExpiredRow {
  readonly id: string
  readonly tenant_id: TenantId
  readonly workspace_id: WorkspaceId | '-'
}

export const expiredArchives = (services: TenantServices): BackgroundTask<never> =>
  tenantTask<ExpiredRow>(services, {
    name: 'archives',
    pollMs: ARCHIVE_LIMITS.sweepPollMs,
    atOnce: 20,
    due: sql`
      select id, tenant_id, case when target = tenant_id then '-' else target end as workspace_id from operations
      where expires_at <= now() and finished_at is not null`,
    serve: remove,
    failure: 'expired archive not removed',
  })

async function remove(scope: AdminScope, { id, tenant_id, workspace_id }: ExpiredRow): Promise<void> {
  await removeArchives(scope, { tenantId: tenant_id, workspaceId: workspace_id }, id)
  await scope.batch(
    sql`update operations set expires_at = null, result = result - 'archive' where id = ${id}`,
  )
}
