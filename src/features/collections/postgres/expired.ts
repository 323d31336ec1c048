/** Deletes expired documents of a table, but for those that others refer to. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { refusal, violated } from '../../../infra/postgres/errors.ts'
import { Sql, sql, textArray } from '../../../infra/postgres/sql.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { columnOf } from '../references/reference.ts'
import { DECLARATION, type DeclarationRow } from '../schemas/declaration-cache.ts'
import type { Collection, Expired } from '../store.ts'
import { tableOf } from './table.ts'
import { keptOfDeleted, outboxRow } from './write-statements.ts'

const NONE: Expired = { removed: 0, kept: 0 }

/** @param scope with the rights of a service key. @returns none removed if writers were in the way */
export async function removeExpired(
  scope: WorkspaceScope,
  collection: Collection,
  limit: number,
): Promise<Expired> {
  if (collection.declared?.expiry === undefined) return NONE
  const statement = expireStatement(collection, await findReferring(scope, collection.name), limit)
  try {
    const row = await scope.row<{ removed: string; kept: string }>(statement)
    return { removed: Number(row?.removed), kept: Number(row?.kept) }
  } catch (error) {
    // A document was written meanwhile that refers to one of these.
    if (violated(error) === undefined && refusal(error) !== 'deadlock') throw error
    return NONE
  }
}

/** Those of some ids whose documents have expired. */
export async function expiredAmong(
  scope: WorkspaceScope,
  collection: Collection,
  ids: readonly string[],
): Promise<ReadonlySet<string>> {
  const { name, expired } = tableOf(collection)
  const rows = await scope.rows<{ id: string }>(
    sql`select id from ${name} where id = any(${textArray(ids)}::uuid[]) and ${expired}`,
  )
  return new Set(rows.map(({ id }) => id))
}

/** The columns of all collections that hold ids of documents of one. */
async function findReferring(scope: WorkspaceScope, name: string): Promise<Referring[]> {
  const rows = await scope.rows<DeclarationRow>(sql`
    select ${DECLARATION} from schemas where relations @> ${JSON.stringify([{ collection: name }])}::jsonb`)
  return rows.flatMap(({ relation, relations, columns }) =>
    relations.flatMap((reference) => {
      const column = reference.collection === name ? columnOf(reference, columns) : undefined
      return column === undefined
        ? []
        : [{ table: sql`tenon_data.${Sql.identifier(relation)}`, column: Sql.identifier(column) }]
    }),
  )
}

/** A column of ids of documents of another collection. */
interface Referring {
  readonly table: Sql
  readonly column: Sql
}

/**
 * Deletes some expired documents, each with its event, but for those that others refer to.
 * @returns how many it deletes, and how many stay
 */
function expireStatement(collection: Collection, referring: readonly Referring[], limit: number): Sql {
  const target = { collection, oneOfMany: true }
  const table = tableOf(collection)
  const tests = referring.map(
    ({ table: other, column }) => sql`exists (select from ${other} other where other.${column} = doomed.id)`,
  )
  const isReferred = tests.length === 0 ? sql`false` : sql`(${Sql.joined(tests, ' or ')})`
  const { row, deleted } = keptOfDeleted(target)
  const event = outboxRow(
    target,
    'expired',
    sql`select id, version, owner, null::json as document, ${deleted} as deleted, created_at, 'expired'::text as reason from written`,
  )
  return sql`with doomed as (select id from ${table.name} doomed where ${table.expired} and not ${isReferred} limit ${limit}
      for update skip locked),
    written as (delete from ${table.name} where id in (select id from doomed) returning ${row}),
    event as (${event})
    select (select count(*) from written) as removed,
      (select count(*) from (select from ${table.name} doomed where ${table.expired} and ${isReferred}
        limit ${COLLECTION_LIMITS.expiry.keptMax}) stay) as kept`
}
