/** Deletes expired documents of a table, but for those that others refer to. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { refusal, violated } from '../../../infra/postgres/errors.ts'
import { commas, Sql, sql, textArray } from '../../../infra/postgres/sql.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { columnOf, isHeld } from '../references/reference.ts'
import { DECLARATION, type DeclarationRow } from '../schemas/declaration-cache.ts'
import type { Collection, Expired } from '../store.ts'
import { tableOf } from './table.ts'
import { keptOfDeleted, outboxRow } from './write-statements.ts'

const NONE: Expired = { removed: 0, kept: 0 }

/** A column of ids of documents of a collection. */
interface Referring {
  readonly table: Sql
  readonly column: Sql
  /** True if it is of the same collection. */
  readonly isOwn: boolean
}

/** @param scope with the rights of a service key. @returns none removed if writers were in the way */
export async function removeExpired(
  scope: WorkspaceScope,
  collection: Collection,
  limit: number,
): Promise<Expired> {
  if (collection.declared?.expiry === undefined) return NONE
  const referring = await findReferring(scope, collection.name)
  const own = referring.filter(({ isOwn }) => isOwn)
  try {
    let removed = await removeDoomed(scope, collection, unreferred(collection, referring, limit))
    // Expired documents that remain may refer to one another in a circle.
    if (removed < limit && own.length > 0)
      removed += await removeDoomed(scope, collection, inCircles(collection, referring, own))
    return { removed, kept: await countKept(scope, collection, referring) }
  } catch (error) {
    // A document was written meanwhile that refers to one of these.
    if (violated(error) === undefined && refusal(error) !== 'deadlock') throw error
    return NONE
  }
}

async function removeDoomed(scope: WorkspaceScope, collection: Collection, doomed: Sql): Promise<number> {
  const row = await scope.row<{ removed: string }>(expireStatement(collection, doomed))
  return Number(row?.removed)
}

/** True for a row `candidate` that documents refer to. @param which of these: by default all */
function isReferred(referring: readonly Referring[], which = sql`true`): Sql {
  const tests = referring.map(
    ({ table, column }) =>
      sql`exists (select from ${table} other where other.${column} = candidate.id and ${which})`,
  )
  return tests.length === 0 ? sql`false` : sql`(${Sql.joined(tests, ' or ')})`
}

function unreferred(collection: Collection, referring: readonly Referring[], limit: number): Sql {
  const { name, expired } = tableOf(collection)
  return sql`doomed as (select id from ${name} candidate where ${expired} and not ${isReferred(referring)}
    limit ${limit} for update skip locked)`
}

/** Documents to which only others lead that are deleted with them: not those that stay, and what these refer to. */
function inCircles(collection: Collection, referring: readonly Referring[], own: readonly Referring[]): Sql {
  const { name, expired } = tableOf(collection)
  const others = referring.filter(({ isOwn }) => !isOwn)
  const columns = commas(own.map(({ column }) => column))
  const targets = commas(own.map(({ column }) => sql`source.${column}`))
  return sql`candidates as materialized (select id, ${columns} from ${name} candidate
      where ${expired} and ${isReferred(own)} and not ${isReferred(others)}
        and not ${isReferred(own, sql`(${expired}) is not true`)}
      limit ${COLLECTION_LIMITS.expiry.keptMax} for update skip locked),
    staying as (
      select id from candidates candidate where ${isReferred(own, sql`other.id not in (select id from candidates)`)}
      union select target.id from staying join candidates source on source.id = staying.id
        join candidates target on target.id in (${targets})),
    doomed as (select id from candidates where id not in (select id from staying))`
}

async function countKept(
  scope: WorkspaceScope,
  collection: Collection,
  referring: readonly Referring[],
): Promise<number> {
  if (referring.length === 0) return 0
  const { name, expired } = tableOf(collection)
  const row = await scope.row<{ kept: string }>(sql`
    select count(*) as kept from (select from ${name} candidate where ${expired} and ${isReferred(referring)}
      limit ${COLLECTION_LIMITS.expiry.keptMax}) stay`)
  return Number(row?.kept)
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
  return rows.flatMap(({ collection: own, relation, relations, columns }) =>
    relations.flatMap((reference) => {
      const isLeading = reference.collection === name && isHeld(reference)
      const column = isLeading ? columnOf(reference, columns) : undefined
      return column === undefined
        ? []
        : [
            {
              table: sql`tenon_data.${Sql.identifier(relation)}`,
              column: Sql.identifier(column),
              isOwn: own === name,
            },
          ]
    }),
  )
}

/**
 * Deletes some expired documents, each with its event.
 * @param doomed common table expressions, one of them `doomed` with the ids
 */
function expireStatement(collection: Collection, doomed: Sql): Sql {
  const target = { collection, oneOfMany: true }
  const { row, deleted } = keptOfDeleted(target)
  const event = outboxRow(
    target,
    'expired',
    sql`select id, version, owner, null::json as document, ${deleted} as deleted, created_at, 'expired'::text as reason from written`,
  )
  return sql`with recursive ${doomed},
    written as (delete from ${tableOf(collection).name} where id in (select id from doomed) returning ${row}),
    event as (${event})
    select count(*) as removed from written`
}
