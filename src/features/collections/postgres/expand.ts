/**
 * Reads the branches of `expand` in the round trip of the documents that are expanded. A statement keeps the ids by which its branches
 * are found in settings of the transaction, from which the statements behind it take them.
 */

import { commas, Sql, sql } from '../../../infra/postgres/sql.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import type { Branch, BranchFound, Collection, Query } from '../store.ts'
import { matching } from './condition.ts'
import { countStatement, type EachRow, eachStatement, toCounts, toEach } from './each.ts'
import { type Table, type TableRow, tableOf } from './table.ts'

/** A branch, and its place among all of the request, those above before those below. */
interface Placed {
  readonly branch: Branch
  readonly at: number
  readonly below: readonly Placed[]
}

type Rows = readonly Readonly<Record<string, unknown>>[]

export interface Expanding {
  /** The table, whose rows have what the branches need. */
  readonly table: Table
  /** The statement of the documents, which keeps the ids. */
  readonly keep: (statement: Sql) => Sql
  readonly statements: readonly Sql[]
  /** @param rows of each of the statements */
  readonly read: (rows: readonly Rows[]) => readonly BranchFound[]
}

/** @returns undefined if a branch is in another store, or a reference has no column */
export function expandingOf(
  collection: Collection,
  table: Table,
  expand: NonNullable<Query['expand']>,
): Expanding | undefined {
  const placed = placeAll(expand.branches, { at: 0 })
  if (!placed.every((one) => isFound(collection, one))) return undefined
  const statements = placed.flatMap(statementsOf)
  return {
    table: { ...table, row: sql`${table.row}${idsIn(collection, placed)}` },
    keep: (statement) => keeping(statement, placed, expand.documents),
    statements,
    read: (rows) => placed.map((one) => readOne(one, rows)),
  }
}

function placeAll(branches: readonly Branch[], next: { at: number }): Placed[] {
  return branches.map((branch) => {
    const at = next.at++
    return { branch, at, below: placeAll(branch.below, next) }
  })
}

/** @param from the collection of the documents that are expanded */
function isFound(from: Collection, { branch: { kind, field, collection }, below }: Placed): boolean {
  const column = tableOf(kind === 'one' ? from : collection).resolve([field], 'uuid')
  return (
    collection.store.kind === 'postgresql' &&
    column.type === 'uuid' &&
    below.every((one) => isFound(collection, one))
  )
}

const settingOf = ({ at }: Placed): string => `tenon.expand_${at}`
const columnOf = ({ at }: Placed): Sql => Sql.identifier(`expand_${at}`)

/** The end of a select list: the ids that documents refer to. */
function idsIn(from: Collection, placed: readonly Placed[]): Sql {
  const columns = placed
    .filter(({ branch }) => branch.kind === 'one')
    .map((one) => sql`, ${tableOf(from).resolve([one.branch.field], 'uuid').sql} as ${columnOf(one)}`)
  return columns.reduce((all, column) => sql`${all}${column}`, sql``)
}

/** @param documents of which the first are expanded */
function keeping(statement: Sql, placed: readonly Placed[], documents: number): Sql {
  if (placed.length === 0) return statement
  const settings = placed.map((one) => {
    const id = one.branch.kind === 'one' ? columnOf(one) : sql`id`
    const ids = sql`select array_agg(distinct ${id}) from numbered where number_of_row <= ${documents} and ${id} is not null`
    return sql`set_config(${settingOf(one)}, coalesce((${ids})::text, '{}'), true)`
  })
  return sql`with numbered as materialized (select row_number() over () as number_of_row, unnumbered.* from (${statement}) unnumbered),
      kept as materialized (select ${commas(settings)})
    select numbered.* from kept left join numbered on true order by number_of_row`
}

/** Of a branch and those below it, in their places. */
function statementsOf(one: Placed): Sql[] {
  const { branch, below } = one
  const { kind, field, collection, query } = branch
  const values = sql`current_setting(${settingOf(one)})`
  const each = { by: { path: [field], as: 'uuid' }, values } as const
  if (kind === 'count') return [countStatement(collection, query.filter, each)]
  const table = tableOf(collection)
  const row = sql`${table.row}${idsIn(collection, below)}`
  const most = COLLECTION_LIMITS.expandedDocumentsMax + 1
  const statement =
    kind === 'one'
      ? sql`select id as value_of_each, ${row} from ${table.name} where id = any(${values}::uuid[]) and ${matching(collection, query.filter)}
          limit ${most}`
      : eachStatement(collection, query, { ...each, most, row })
  return [keeping(statement, below, most), ...below.flatMap(statementsOf)]
}

function readOne({ branch: { kind, collection }, at, below }: Placed, rows: readonly Rows[]): BranchFound {
  const own = (rows[at] ?? []) as unknown as EachRow[]
  if (kind === 'count') return { documents: [], counts: toCounts(own), below: [] }
  return {
    documents: foundIn(own).map((row) => toEach(collection, row)),
    counts: new Map(),
    below: below.map((other) => readOne(other, rows)),
  }
}

/** A statement that keeps ids has one row of nulls if it finds nothing. */
export const foundIn = <Row extends TableRow>(rows: readonly Row[]): Row[] =>
  rows.filter(({ id }) => id !== null)
