/** Links to approvals for the account of the caller, such as the user of an agent. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { linkTo } from './approval-links.ts'
import { accountsNamed, mayDecide } from './deciders.ts'

/**
 * The links to the open approvals of an execution that the account of the caller may decide, by approval. A link works only
 * for this account, signed in, so it grants nothing to others who read it.
 */
export async function ownLinks(
  scope: WorkspaceScope,
  executionId: string,
): Promise<ReadonlyMap<string, string>> {
  const { subject } = scope.actor
  const [account] = await accountsNamed(scope, [subject])
  if (account?.id !== subject || !account.active) return new Map()
  const rows = await scope.rows<{ id: string; round: number; deadline_at: string | null }>(sql`
    select a.id, a.round, a.deadline_at from approvals a
    where a.execution_id = ${executionId} and a.status = 'open' ${mayDecide({ by: subject, as: account.known_as })}`)
  const links = rows.map(async (row) => [row.id, await linkTo(scope, row, subject)] as const)
  return new Map(await Promise.all(links))
}
