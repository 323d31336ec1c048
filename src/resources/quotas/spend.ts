/** Taking one of what a window of time bounds: events, invocations, calls. The database counts. */

import { sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'

/** The key under which a node remembers what is limited in a workspace. */
export const LIMITED = 'limited'

/**
 * Called when everything else that could refuse the request has been asked. Where nobody has limited it, the database is
 * asked once in a few seconds; so other nodes heed a limit that was not there before after `LIMITS.memoMs`.
 * @throws Problem `quota_exceeded`; 503 where the database does not answer: nothing goes uncounted
 */
export async function spend(
  scope: WorkspaceScope,
  quota: 'events_per_day' | 'invocations_per_day' | 'mcp_calls_per_minute',
): Promise<void> {
  const limited = await scope.memo(LIMITED, () => load(scope))
  if (limited.has(quota)) await scope.batch(sql`select tenon.spend(${quota})`)
}

const NAME_BYTES = 64

async function load(scope: WorkspaceScope) {
  const rows = await scope.rows<{ name: string }>(sql`select name from tenon.limited() as name`)
  return { value: new Set(rows.map(({ name }) => name)), bytes: rows.length * NAME_BYTES }
}
