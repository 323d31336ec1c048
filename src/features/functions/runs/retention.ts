/** Removes runs that ended longer ago than the workspace keeps them (features/runs/retention.ts), with their lines. */

import { durationMs } from '../../../core/units.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { TaskContext } from '../../background/background-task.ts'
import type { Retention } from '../../tenants/workspace-settings.ts'
import { FUNCTION_LIMITS } from '../limits.ts'

const {
  runsKept: DEFAULT,
  deadLettersKept: DEFAULT_OF_LETTERS,
  runsMax: batchMax,
} = FUNCTION_LIMITS.retention

/**
 * Removes one batch. Dead letters are kept at least 30 days: they wait for a person.
 * @returns true if more may have expired
 */
export async function removeExpired({ scope }: TaskContext, retention: Retention): Promise<boolean> {
  const runsMs = durationMs(retention.function_runs ?? DEFAULT)
  const lettersMs = Math.max(runsMs, durationMs(DEFAULT_OF_LETTERS))
  const before = (ms: number) => sql`ended_at < ${new Date(Date.now() - ms)}`
  const removed = await scope.rows(sql`
    delete from function_runs where ctid = any(array(
      select ctid from function_runs where ended_at is not null
        and (not is_dead_letter and ${before(runsMs)} or is_dead_letter and ${before(lettersMs)})
      limit ${batchMax})) returning id`)
  return removed.length === batchMax
}
