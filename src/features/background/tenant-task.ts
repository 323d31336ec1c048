/** Background work on tenants as a whole, which goes on while a workspace is suspended or gone. */

import type { AdminScope } from '../../access/scope.ts'
import type { TenantId } from '../../core/tenant.ts'
import type { Log } from '../../infra/log.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import type { SystemScope } from '../../infra/postgres/system-scope.ts'
import type { BackgroundTask } from './background-task.ts'

export interface TenantServices {
  /** The structure of a tenant. */
  readonly openTenant: (tenantId: TenantId) => AdminScope
  readonly log: Log
}

interface TenantRow {
  readonly tenant_id: TenantId
}

interface TenantWork<Row extends TenantRow> extends Pick<BackgroundTask, 'name' | 'pollMs' | 'atOnce'> {
  /** A query of what is due, of all tenants; `atOnce` of its rows are served beside each other. */
  readonly due: Sql
  /** Serves one row; idempotent. If it throws, that is logged, and the row is found again. */
  serve(scope: AdminScope, row: Row, system: SystemScope): Promise<void>
  /** The log line of a row that could not be served, such as `job not started`. */
  readonly failure: string
}

/** A task that serves in its `find`: its items belong to no workspace in which `run` could be called. */
export const tenantTask = <Row extends TenantRow>(
  { openTenant, log }: TenantServices,
  { name, pollMs, atOnce, due, serve, failure }: TenantWork<Row>,
): BackgroundTask<never> => ({
  name,
  pollMs,
  atOnce: 1,
  find: async (system) => {
    // At random, so that rows which cannot be served for now do not keep the others from their turn.
    const rows = await system.rows<Row>(sql`select * from (${due}) due order by random() limit ${atOnce}`)
    // One whose servers are slow does not keep others from being served.
    await Promise.all(
      rows.map((row) =>
        serve(openTenant(row.tenant_id), row, system).catch((err: unknown) =>
          log.warn({ err, ...(row as object) }, failure),
        ),
      ),
    )
    return []
  },
  run: async () => {},
})
