/** What is limited in a workspace, as a node remembers it: where nothing is, a request pays nothing for quotas. */

import { memo } from './node-memory.ts'
import { sql } from './pg/sql.ts'
import type { WorkspaceScope } from './scope.ts'

/** The key under which it is remembered. */
export const LIMITED = 'limited'
const NAME_BYTES = 64

/** Asked once in a few seconds, so other nodes heed a limit that was not there before after `LIMITS.memoMs`. */
export async function isLimited(scope: WorkspaceScope, quota: string): Promise<boolean> {
  const limited = await memo(scope, LIMITED, async () => {
    const rows = await scope.rows<{ name: string }>(sql`select name from tenon.limited() as name`)
    return { value: new Set(rows.map(({ name }) => name)), bytes: rows.length * NAME_BYTES }
  })
  return limited.has(quota)
}
