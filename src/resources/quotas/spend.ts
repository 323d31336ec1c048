/** Taking one of what a window of time bounds: events, invocations, calls. The database counts. */

import { isLimited } from '../../platform/node-memory.ts'
import { sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'

/**
 * Called when everything else that could refuse the request has been asked.
 * @throws Problem `quota_exceeded`; 503 where the database does not answer: nothing goes uncounted
 */
export async function spend(
  scope: WorkspaceScope,
  quota: 'events_per_day' | 'invocations_per_day' | 'mcp_calls_per_minute',
): Promise<void> {
  if (await isLimited(scope, quota)) await scope.batch(sql`select tenon.spend(${quota})`)
}
