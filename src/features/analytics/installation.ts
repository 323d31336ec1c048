/** Reads figures of the whole installation for metrics: what waits or has failed. It reads counts and times, and nothing of the content. */

import { sql } from '../../infra/postgres/sql.ts'
import type { SystemScope } from '../../infra/postgres/system-scope.ts'
import type { RunKind } from '../runs/run-kind.ts'
import { ANALYTICS_LIMITS } from './limits.ts'

export interface InstallationFigures {
  /** Changes that are not in their event stream, and the age of the oldest. */
  readonly outbox: { readonly rows: number; readonly lagSeconds: number }
  /** Tenants and workspaces whose creation has failed, and creations that last for longer than `provisioningLateSeconds`. */
  readonly provisioning: { readonly failed: number; readonly late: number }
  /** Runs that wait for a concurrency slot, by kind. */
  readonly queued: Readonly<Record<string, number>>
  /** Approvals whose approvers were to be mailed by now. */
  readonly approvalMails: number
}

const { rowsCountedMax, provisioningLateSeconds } = ANALYTICS_LIMITS.installation

/**
 * One round trip. Counts stop above `rowsCountedMax`, so that a backlog makes no scrape slow.
 * @param system with the reason `metrics` @param kinds of runs
 */
export async function readWaitingWork(
  system: SystemScope,
  kinds: readonly RunKind[],
): Promise<InstallationFigures> {
  const [[outbox] = [], [provisioning] = [], queued = [], [mails] = []] = await system.batch(
    OUTBOX,
    PROVISIONING,
    QUEUED,
    MAILS,
  )
  const counted = Object.fromEntries(queued.map(({ kind, rows }) => [String(kind), Number(rows)]))
  return {
    outbox: { rows: Number(outbox?.['rows']), lagSeconds: Number(outbox?.['lag']) },
    provisioning: { failed: Number(provisioning?.['failed']), late: Number(provisioning?.['late']) },
    queued: { ...Object.fromEntries(kinds.map(({ name }) => [name, 0])), ...counted },
    approvalMails: Number(mails?.['rows']),
  }
}

/** The oldest change of each tenant is found by one probe of the primary key; the oldest of all is one of these. */
const OUTBOX = sql`
  with recursive first as (
    (select tenant_id, seq, at, 1 as n from outbox order by tenant_id, seq limit 1)
    union all
    select next.tenant_id, next.seq, next.at, n + 1 from first cross join lateral (
      select tenant_id, seq, at from outbox o where o.tenant_id > first.tenant_id order by tenant_id, seq limit 1) next
    where n < ${rowsCountedMax}
  )
  select (select count(*)::integer from (select from outbox limit ${rowsCountedMax + 1}) counted) as rows,
    coalesce((select greatest(0, extract(epoch from clock_timestamp() - min(at))) from first), 0)::float8 as lag`

const PROVISIONING = sql`
  select (select count(*) from tenants where state = 'provisioning_failed')
      + (select count(*) from workspaces where state = 'provisioning_failed') as failed,
    (select count(*) from operations where finished_at is null and type in ('tenant.create', 'workspace.create')
      and created_at < now() - make_interval(secs => ${provisioningLateSeconds}::integer)) as late`

const QUEUED = sql`
  select kind, count(*)::integer as rows from (
    select kind from run_slots where state in ('queued', 'requeued') limit ${rowsCountedMax + 1}) counted group by kind`

const MAILS = sql`
  select count(*)::integer as rows from (
    select from approvals where mail_due_at is not null and mail_due_at <= now() limit ${rowsCountedMax + 1}) counted`
