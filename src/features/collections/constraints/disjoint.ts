/** Compares the documents of a collection with exclusions that its declaration gets. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { tableName } from '../postgres/collection-table.ts'
import { overlapping } from '../postgres/table-constraints.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import type { DeclaredExclusion } from './constraint.ts'

/**
 * @param documents scope with the rights of a service key, in the transaction that has locked the table against writers
 * @throws Problem `exclusion_violation` with some documents whose ranges overlap; `state_conflict` if there are so many documents that others
 *   would wait for long
 */
export async function requireDisjoint(
  documents: WorkspaceScope,
  { relation }: { readonly relation: string },
  {
    exclusions,
    declared,
  }: { readonly exclusions: readonly DeclaredExclusion[]; readonly declared: Declaration },
): Promise<void> {
  if (exclusions.length === 0) return
  const table = tableName({ relation })
  const limit = COLLECTION_LIMITS.exclusionDocumentsMax
  const counted = await documents.row<{ n: string }>(
    sql`select count(*) as n from (select from ${table} limit ${limit + 1}) found`,
  )
  if (Number(counted?.n) > limit) throw tooMany(limit)
  for (const exclusion of exclusions) {
    const pairs = await documents.rows<{ id: string; next_id: string }>(
      overlapping(table, exclusion, declared),
    )
    if (pairs.length > 0) throw overlaps(exclusion, pairs)
  }
}

const tooMany = (limit: number) =>
  new Problem('state_conflict', {
    detail: `The collection has more than ${limit} documents: others would wait too long for the index of a new member of exclude.`,
    hint: 'Declare another collection with it, and import the documents there.',
  })

function overlaps(
  { range }: DeclaredExclusion,
  pairs: readonly { readonly id: string; readonly next_id: string }[],
): Problem {
  const ids = pairs.map(({ id, next_id }) => [id, next_id])
  return new Problem('exclusion_violation', {
    detail: `The ranges ${range.join(' to ')} of documents overlap: ${ids.map((pair) => pair.join(' and ')).join('; ')}.`,
    members: { fields: range, overlapping: ids },
  })
}
