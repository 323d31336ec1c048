/** Removes runs that ended longer ago than the workspace keeps them, and their lines with them, a few at a time. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { LIMITS } from '../../../core/limits.ts'
import { durationMs } from '../../../core/units.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { Retention } from '../../tenants/workspace-settings.ts'

const { runs: DEFAULT, deadLetters: DEFAULT_OF_LETTERS, batchMax } = LIMITS.functionRetention

/** Dead letters are kept at least 30 days: they wait for a person. */
function periodsMs({ function_runs: period = DEFAULT }: Retention) {
  const runsMs = durationMs(period)
  return { runsMs, lettersMs: Math.max(runsMs, durationMs(DEFAULT_OF_LETTERS)) }
}

/** The times when the oldest ended run and the oldest dead letter of a workspace ended, RFC 3339; null if it has none. */
export interface OldestRuns {
  readonly oldest: string | null
  readonly oldest_letter: string | null
}

/** True if a run has expired. */
export function hasExpired(retention: Retention, { oldest, oldest_letter }: OldestRuns): boolean {
  const { runsMs, lettersMs } = periodsMs(retention)
  const isOlder = (time: string | null, ms: number) => time !== null && Date.parse(time) < Date.now() - ms
  return isOlder(oldest, runsMs) || isOlder(oldest_letter, lettersMs)
}

/** Removes one batch. @returns true if more may have expired */
export async function removeExpiredRuns(scope: WorkspaceScope, retention: Retention): Promise<boolean> {
  const { runsMs, lettersMs } = periodsMs(retention)
  const removed = await scope.rows(sql`
    delete from function_runs where ctid = any(array(
      select ctid from function_runs where ended_at is not null
        and ended_at < case when is_dead_letter then ${new Date(Date.now() - lettersMs)}::timestamptz
          else ${new Date(Date.now() - runsMs)}::timestamptz end
      limit ${batchMax})) returning id`)
  return removed.length === batchMax
}
