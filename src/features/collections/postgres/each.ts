/** Statements that find, for each of some ids, the documents that refer to it, or their number. */

import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import type { Filter } from '../query/filter.ts'
import type { BranchFound, By, Collection, Query } from '../store.ts'
import { compileOrder } from './compile.ts'
import { matching } from './condition.ts'
import { type TableRow, tableOf, toStored } from './table.ts'

/** The field to compare, and the values: an array as a text. */
interface Each {
  readonly by: Pick<By, 'path' | 'as'>
  readonly values: Sql
}

export interface EachRow extends TableRow {
  readonly value_of_each: string
  /** The number of documents. */
  readonly n?: string
}

/** @param most of all rows together */
export function eachStatement(
  collection: Collection,
  { filter, order, limit }: Pick<Query, 'filter' | 'order' | 'limit'>,
  { most, row = tableOf(collection).row, ...each }: Each & { readonly most: number; readonly row?: Sql },
): Sql {
  const table = tableOf(collection)
  const sorted = compileOrder(order, table.resolve)
  return sql`select each_value as value_of_each, found.* from ${valuesOf(each)} cross join lateral (
      select ${row}, row_number() over (order by ${sorted}) as row_of_each from ${table.name}
      where ${matchingEach(collection, filter, each)} order by ${sorted} limit ${limit}) found
    order by number_of_each, row_of_each limit ${most}`
}

export const countStatement = (collection: Collection, filter: Filter, each: Each): Sql =>
  sql`select each_value as value_of_each, n from ${valuesOf(each)} cross join lateral
    (select count(*) as n from ${tableOf(collection).name} where ${matchingEach(collection, filter, each)}) found`

const valuesOf = ({ values }: Each): Sql =>
  sql`unnest(${values}::text[]) with ordinality as each (each_value, number_of_each)`

/** The condition of those documents of the caller that have the value. */
function matchingEach(collection: Collection, filter: Filter, { by: { path, as } }: Each): Sql {
  const column = tableOf(collection).resolve(path, as)
  const value = column.type === 'uuid' ? sql`each_value::uuid` : sql`each_value`
  return sql`${column.sql} = ${value} and ${matching(collection, filter)}`
}

export const toEach = (collection: Collection, row: EachRow): BranchFound['documents'][number] => ({
  value: row.value_of_each,
  stored: toStored(tableOf(collection), row),
})

export const toCounts = (rows: readonly EachRow[]): ReadonlyMap<string, number> =>
  new Map(rows.map((row) => [row.value_of_each, Number(row.n)]))
