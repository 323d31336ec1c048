/** How many hosted servers a workspace may have: what is set, else the default. */

import { Problem } from '../../core/problem.ts'
import { sql } from '../../platform/pg/sql.ts'
import { DEFAULT_QUOTAS } from '../quotas.ts'

const NAME = 'mcp_servers'

/** In the workspace of the statement; a scalar for its `where`. */
export const serversAllowed = sql`coalesce(
  (select max from quotas where workspace_id = tenon.workspace() and name = ${NAME}), ${DEFAULT_QUOTAS[NAME]}::bigint)`

export function overQuota({ used, limit }: Readonly<Record<string, unknown>>): Problem {
  return new Problem('quota_exceeded', {
    detail: `The quota ${NAME} is ${limit}, and ${used} are in use.`,
    members: { quota: NAME, limit, used },
  })
}
