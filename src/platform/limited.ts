/** What is limited in a workspace, as a node remembers it: where nothing is, a request pays nothing for quotas. */

import { type Sql, sql } from './pg/sql.ts'
import type { Sized } from './ttl-cache.ts'

/** The key under which it is remembered. */
export const LIMITED = 'limited'
const NAME_BYTES = 64

/** What of a workspace's scope is needed for it. */
export interface Asking {
  rows<T extends object>(statement: Sql): Promise<T[]>
  memo<T>(key: string, load: () => Promise<Sized<T>>): Promise<T>
}

/** Asked once in a few seconds, so other nodes heed a limit that was not there before after `LIMITS.memoMs`. */
export async function isLimited(scope: Asking, quota: string): Promise<boolean> {
  const limited = await scope.memo(LIMITED, async () => {
    const rows = await scope.rows<{ name: string }>(sql`select name from tenon.limited() as name`)
    return { value: new Set(rows.map(({ name }) => name)), bytes: rows.length * NAME_BYTES }
  })
  return limited.has(quota)
}
