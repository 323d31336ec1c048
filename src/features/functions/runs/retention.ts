/** Finds workspaces with runs that ended longer ago than they are kept, and removes these with their lines, a few at a time. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { durationMs } from '../../../core/units.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import {
  type BackgroundTask,
  findRoundRobin,
  nextCursor,
  type TurnRow,
  workspacePage,
  workspaceWith,
} from '../../background/background-task.ts'
import { BACKGROUND_LIMITS } from '../../background/limits.ts'
import type { Retention } from '../../tenants/workspace-settings.ts'
import { FUNCTION_LIMITS } from '../limits.ts'

const {
  runsKept: DEFAULT,
  deadLettersKept: DEFAULT_OF_LETTERS,
  runsMax: batchMax,
  servedMs,
} = FUNCTION_LIMITS.retention
const { pollMs, itemsMax: atOnce } = BACKGROUND_LIMITS

/** The items are the policies of workspaces. */
export function functionRunRetention(): BackgroundTask<Retention> {
  return {
    name: 'retention of function runs',
    pollMs,
    atOnce,
    find: findRoundRobin<Retention, OldestRuns>(oldestRuns, (row) =>
      hasExpired(row.retention, row) ? row.retention : undefined,
    ),
    run: async ({ scope }, retention) => {
      const until = performance.now() + servedMs
      while (performance.now() < until && (await removeExpiredRuns(scope, retention)));
    },
  }
}

/** Dead letters are kept at least 30 days: they wait for a person. */
function periodsMs({ function_runs: period = DEFAULT }: Retention) {
  const runsMs = durationMs(period)
  return { runsMs, lettersMs: Math.max(runsMs, durationMs(DEFAULT_OF_LETTERS)) }
}

/** The times when the oldest ended run and the oldest dead letter of a workspace ended, RFC 3339; null if it has none. */
interface OldestRuns extends TurnRow {
  readonly retention: Retention
  readonly oldest: string | null
  readonly oldest_letter: string | null
}

/** True if a run has expired. */
function hasExpired(retention: Retention, { oldest, oldest_letter }: OldestRuns): boolean {
  const { runsMs, lettersMs } = periodsMs(retention)
  const isOlder = (time: string | null, ms: number) => time !== null && Date.parse(time) < Date.now() - ms
  return isOlder(oldest, runsMs) || isOlder(oldest_letter, lettersMs)
}

/** The next workspaces with ended runs, and the end of the oldest of each. */
const oldestRuns = (after: string, workspacesMax: number): Sql => sql`
  with recursive ${workspacePage(workspaceWith(sql`function_runs where ended_at is not null`), after, workspacesMax)}
  select w.tenant_id, seen.workspace_id, seen.workspace_id as id, behind,
    coalesce((select retention from services s where s.tenant_id = w.tenant_id and s.workspace_id = w.id), '{}') as retention,
    ${oldestEnd(sql`false`)} as oldest, ${oldestEnd(sql`true`)} as oldest_letter
  from (${nextCursor(workspacesMax)}) reached left join (seen join workspaces w on w.id = seen.workspace_id) on true`

const oldestEnd = (isLetter: Sql): Sql => sql`(select min(ended_at) from function_runs r
  where r.workspace_id = seen.workspace_id and r.is_dead_letter = ${isLetter} and r.ended_at is not null)`

/** Removes one batch. @returns true if more may have expired */
async function removeExpiredRuns(scope: WorkspaceScope, retention: Retention): Promise<boolean> {
  const { runsMs, lettersMs } = periodsMs(retention)
  const removed = await scope.rows(sql`
    delete from function_runs where ctid = any(array(
      select ctid from function_runs where ended_at is not null
        and ended_at < case when is_dead_letter then ${new Date(Date.now() - lettersMs)}::timestamptz
          else ${new Date(Date.now() - runsMs)}::timestamptz end
      limit ${batchMax})) returning id`)
  return removed.length === batchMax
}
