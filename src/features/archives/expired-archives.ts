/** Removes archives that nobody may download any more. */

import type { AdminScope } from '../../access/scope.ts'
import type { TenantId, WorkspaceId } from '../../core/tenant.ts'
import type { Log } from '../../infra/log.ts'
import { sql } from '../../infra/postgres/sql.ts'
import type { BackgroundTask } from '../background/background-task.ts'
import { removeArchives } from './archive-files.ts'
import { ARCHIVE_LIMITS } from './limits.ts'

interface ArchiveServices {
  /** The structure of a tenant. */
  readonly openTenant: (tenantId: TenantId) => AdminScope
  readonly log: Log
}

interface ExpiredRow {
  readonly id: string
  readonly tenant_id: TenantId
  readonly workspace_id: WorkspaceId | '-'
}

const AT_ONCE = 20

/** It finds and removes by itself: the workspace of an archive may be suspended, or gone. */
export const expiredArchives = ({ openTenant, log }: ArchiveServices): BackgroundTask<never> => ({
  name: 'archives',
  pollMs: ARCHIVE_LIMITS.sweepPollMs,
  atOnce: 1,
  find: async (system) => {
    const expired = await system.rows<ExpiredRow>(sql`
      select id, tenant_id, case when target = tenant_id then '-' else target end as workspace_id from operations
      where expires_at <= now() and finished_at is not null limit ${AT_ONCE}`)
    for (const row of expired)
      await remove(openTenant(row.tenant_id), row).catch((err: unknown) =>
        log.warn({ err, ...row }, 'expired archive not removed'),
      )
    return []
  },
  run: async () => {},
})

async function remove(scope: AdminScope, { id, tenant_id, workspace_id }: ExpiredRow): Promise<void> {
  await removeArchives(scope, { tenantId: tenant_id, workspaceId: workspace_id }, id)
  await scope.batch(
    sql`update operations set expires_at = null, result = result - 'archive' where id = ${id}`,
  )
}
