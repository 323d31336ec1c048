/** Statements of a deletion that takes along the documents that refer to those deleted. */

import { commas, Sql, sql, textArray } from '../../../infra/postgres/sql.ts'
import type { Filter } from '../query/filter.ts'
import type { Collection } from '../store.ts'
import { matching } from './condition.ts'
import { tableOf } from './table.ts'
import { keptOfDeleted, outboxRow } from './write-statements.ts'

/** A column of ids: documents of one collection refer by it to documents of the collection with the name `to`. */
export interface ReferenceColumn {
  readonly from: Collection
  readonly to: string
  readonly column: Sql
}

/** Ids of documents by the name of their collection. */
export type IdsByName = ReadonlyMap<string, ReadonlySet<string>>

const uuids = (ids: Iterable<string>): Sql => sql`${textArray([...ids])}::uuid[]`

/**
 * Finds the documents that refer to some by these columns, those that refer to them, and so on, through circles as well.
 * @param names of all collections: each row has the index of its collection
 * @param limit of rows, the first documents among them
 */
export function doomedStatement(
  names: readonly string[],
  columns: readonly ReferenceColumn[],
  { roots, limit }: { readonly roots: IdsByName; readonly limit: number },
): Sql {
  const rows = [...roots].flatMap(([name, ids]) => [...ids].map((id) => [names.indexOf(name), id] as const))
  const children = columns.map(
    ({ from, to, column }) => sql`select ${names.indexOf(from.name)}::integer as n, child.id
      from ${tableOf(from).name} child where doomed.n = ${names.indexOf(to)}::integer and child.${column} = doomed.id`,
  )
  return sql`with recursive doomed (n, id) as (
      select root.n, root.id from unnest(${textArray(rows.map(([n]) => String(n)))}::integer[], ${uuids(rows.map(([, id]) => id))}) root (n, id)
      union select found.n, found.id from doomed cross join lateral (${Sql.joined(children, ' union all ')}) found)
    select n, id from doomed limit ${limit}`
}

/** Locks documents in the order of their ids: nothing can be written that refers to them until the transaction ends. */
export const lockStatement = (collection: Collection, ids: Iterable<string>): Sql =>
  sql`select from ${tableOf(collection).name} where id = any(${uuids(ids)}) order by id for update`

/** The versions of locked documents. @param which those that requests find, or those that have expired */
export function versionsStatement(
  collection: Collection,
  ids: Iterable<string>,
  which: 'own' | 'expired',
): Sql {
  const table = tableOf(collection)
  return sql`select id, version from ${table.name} where ${table[which]} and id = any(${uuids(ids)})`
}

/** The next expired documents in the order of their ids. */
export function expiredStatement(
  collection: Collection,
  { after, limit }: { after: string; limit: number },
): Sql {
  const { name, expired } = tableOf(collection)
  return sql`select id from ${name} where ${expired} and id > ${after}::uuid order by id limit ${limit}`
}

/** The first documents that match a filter. */
export const matchingStatement = (collection: Collection, filter: Filter, limit: number): Sql =>
  sql`select id from ${tableOf(collection).name} where ${matching(collection, filter)} order by id limit ${limit}`

/**
 * Documents that refer to some. The limit within makes the planner use the index of the column for each of these.
 * @param lock true if they are to be changed
 */
export function referringStatement(
  { from, column }: ReferenceColumn,
  ids: Iterable<string>,
  { limit, lock }: { readonly limit: number; readonly lock: boolean },
): Sql {
  return sql`select found.id from unnest(${uuids(ids)}) target (id) cross join lateral (
      select id from ${tableOf(from).name} child where child.${column} = target.id limit ${limit} ${lock ? sql`for no key update` : sql``}
    ) found limit ${limit}`
}

/** One statement, so that documents may refer to one another: foreign keys are compared at its end. Each has its event. */
export function deleteAllStatement(
  doomed: readonly { readonly collection: Collection; readonly ids: Iterable<string> }[],
  verb: 'deleted' | 'expired',
): Sql {
  const parts = doomed.map(({ collection, ids }, index) => {
    const target = { collection, oneOfMany: true }
    const { row, deleted } = keptOfDeleted(target)
    const [gone, event] = [Sql.identifier(`gone_${index}`), Sql.identifier(`event_${index}`)]
    const reason = verb === 'expired' ? sql`, 'expired'::text as reason` : sql``
    const told = sql`, ${event} as (${outboxRow(
      target,
      verb,
      sql`select id, version, owner, null::json as document, ${deleted} as deleted, created_at${reason} from ${gone}`,
    )})`
    return sql`${gone} as (delete from ${tableOf(collection).name} where id = any(${uuids(ids)}) returning ${row})
      ${collection.isQuiet === true ? sql`` : told}`
  })
  return sql`with ${commas(parts)} select`
}
