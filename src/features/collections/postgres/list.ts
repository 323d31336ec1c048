/** Reads pages of documents: by the order of their fields, by similarity, and by the score of a search. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { commas, type Sql, sql } from '../../../infra/postgres/sql.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import type { Filter } from '../query/filter.ts'
import type { Near } from '../query/near.ts'
import { indexOf } from '../query-indexes.ts'
import type { Index } from '../schemas/api-types.ts'
import { type BranchFound, type Collection, joinedCollection, type Query, type Stored } from '../store.ts'
import { type Column, comparedText, compileAfter, compileOrder } from './compile.ts'
import { matching } from './condition.ts'
import { nearestRows } from './distance.ts'
import { type Expanding, expandingOf, foundIn } from './expand.ts'
import { type CompiledSearch, found, searchIn } from './search.ts'
import { type Table, type TableRow, tableOf, toStored } from './table.ts'

/** A page of documents, and what is known of all that match. */
interface Found<Row> {
  readonly rows: Row[]
  readonly total?: number
  readonly approximate?: true
  readonly found?: readonly BranchFound[]
}

/** The documents of a page. @throws Problem `not_supported` if too many would be searched without an index */
export async function listRows(
  scope: WorkspaceScope,
  collection: Collection,
  query: Query,
): Promise<Found<Stored>> {
  const table = tableOf(collection)
  const { name } = table
  const searched = await searchIn(scope, collection, query.search)
  const where = sql`${matching(collection, query.filter)} and ${found(searched)}`
  const shown = searched === undefined ? table : { ...table, row: sql`${table.row}${searched.shown}` }
  if (query.distance !== undefined) {
    const options = { distance: query.distance, limit: query.limit, index: indexOf(collection, 'geo') }
    const rows = await nearestRows(scope, shown, where, options)
    return { rows: rows.map((row) => ({ ...toStored(table, row), ...searched?.highlightOf(row) })) }
  }
  const few = searched && !query.search?.byScore ? await fewRows(scope, shown, where, query) : undefined
  // The statements of other orders name their columns themselves.
  const isPlain = searched === undefined && query.near === undefined
  const expanding = isPlain && query.expand ? expandingOf(collection, shown, query.expand) : undefined
  const { rows, ...counted } =
    few ??
    (await rowsAndTotal(scope, collection, query, {
      page: statementOf(expanding?.table ?? shown, where, query, { searched, collection }),
      counted: (most) => countOf(name, where, most),
      planned: planned(name, where),
      expanding,
    }))
  return {
    ...counted,
    rows: rows.map((row) => ({ ...toStored(table, row), ...searched?.highlightOf(row) })),
    ...(few === undefined && hasMore(rows[0]) && { approximate: true }),
  }
}

interface Searching {
  readonly searched: CompiledSearch | undefined
  readonly collection: Collection
}

function statementOf(
  table: Table,
  where: Sql,
  { order, after, limit, near, search }: Query,
  { searched, collection }: Searching,
): Sql {
  if (near !== undefined)
    return nearStatement(table, where, { near, limit, index: indexOf(collection, 'trigram', near.field) })
  const page = { order, limit, ...(after !== undefined && { after }) }
  return searched !== undefined && search?.byScore === true
    ? rankedStatement(table, where, searched, page)
    : pageStatement(table, where, page)
}

/** True if more documents match than a search looks at. */
const hasMore = (row: TableRow | undefined): boolean =>
  Number(row?.['matches'] ?? 0) > COLLECTION_LIMITS.searchRankedMax

/**
 * The page of a search that few documents match. PostgreSQL takes a rare word for one that a document in two hundred has, and would read
 * the table in the order of the page until it has found enough; so the index finds all of them first.
 * @returns undefined if many match: then they are soon found in the order of the page
 */
async function fewRows(
  scope: WorkspaceScope,
  table: Table,
  where: Sql,
  { order, after, limit, count }: Query,
): Promise<Found<TableRow> | undefined> {
  const max = COLLECTION_LIMITS.searchRankedMax
  const isOneOfFew = sql`${table.own} and (select count(*) from matched) <= ${max} and id = any(array(select matched_id from matched))`
  const page = pageStatement(table, isOneOfFew, { order, limit, ...(after !== undefined && { after }) })
  const rows = await scope.rows<TableRow>(sql`
    with matched as materialized (select id as matched_id from ${table.name} where ${where} limit ${max + 1})
    select (select count(*) from matched) as matches, page.* from (select) as one left join lateral (${page}) page on true`)
  if (hasMore(rows[0])) return undefined
  return {
    rows: rows.filter(({ id }) => id !== null),
    ...(count !== undefined && { total: Number(rows[0]?.['matches']) }),
  }
}

interface Statements {
  readonly page: Sql
  readonly counted: (most?: number) => Sql
  readonly planned: Sql
  readonly expanding: Expanding | undefined
}

async function rowsAndTotal(
  scope: WorkspaceScope,
  collection: Collection,
  { filter, count }: Query,
  { page, counted, planned, expanding }: Statements,
): Promise<Found<TableRow>> {
  // An estimate of the shared table would reveal documents of other tenants, one under a rule those of other users.
  const isOpen = [collection, ...joinedIn(filter)].every(
    ({ declared, permissions }) => declared !== undefined && permissions.read === true,
  )
  const guess = count === 'estimated' && isOpen
  const exact = count === undefined ? [] : [counted()]
  const counts = guess ? [counted(COLLECTION_LIMITS.exactCountMax), planned] : exact
  const own = expanding?.keep(page) ?? page
  const [rows = [], ...others] = await scope.batch(own, ...counts, ...(expanding?.statements ?? []))
  const [[all] = [], [plan] = []] = others.slice(0, counts.length)
  return {
    rows: foundIn(rows as unknown as TableRow[]),
    ...(count !== undefined && { total: totalOf(Number(all?.['n']), plan) }),
    ...(expanding !== undefined && { found: expanding.read(others.slice(counts.length)) }),
  }
}

/** The collections that a filter reaches by references. */
function joinedIn(filter: Filter): Collection[] {
  if ('of' in filter) return filter.of.flatMap(joinedIn)
  if (filter.kind !== 'related' || filter.join === undefined) return []
  return [joinedCollection(filter.join), ...joinedIn(filter.filter)]
}

/**
 * Orders some documents that match by their scores, reads those of the page, and tells how many were ordered. It is the same set for each
 * page unless more match than `searchRankedMax`.
 */
function rankedStatement(
  { name, own, row }: Table,
  where: Sql,
  { score }: CompiledSearch,
  { after, limit }: Pick<Query, 'after' | 'limit'>,
): Sql {
  const [scoreBefore = null, idBefore = null] = after ?? []
  const behind =
    after === undefined
      ? sql`true`
      : sql`(score, ranked_id) < (${Number(scoreBefore)}::double precision, ${String(idBefore)}::uuid)`
  return sql`with ranked as materialized (
      select id as ranked_id, ${score} as score from ${name} where ${where} limit ${COLLECTION_LIMITS.searchRankedMax + 1}),
    best as materialized (
      select ranked_id, score from ranked where ${behind} order by score desc, ranked_id desc limit ${limit})
    select ${row}, best.score, (select count(*) from ranked) as matches from best join ${name} on id = ranked_id and ${own}
    order by best.score desc, id desc`
}

/**
 * The limit is a parameter, so the planner makes a plan for its values each time, which pays off for rare values.
 * Rows behind the cursor are several ranges of an index: each is read to the limit, and the results are merged.
 */
function pageStatement(
  { name, row, columns, compared, resolve }: Table,
  where: Sql,
  { order, after, limit }: Pick<Query, 'order' | 'after' | 'limit'>,
): Sql {
  const end = sql`order by ${compileOrder(order, resolve)} limit ${limit}`
  const range = (condition: Sql, selected = row) =>
    sql`select ${selected} from ${name} where ${where} and ${condition} ${end}`
  const ranges = after === undefined ? [sql`true`] : compileAfter(order, after, resolve)
  const [first = sql`false`, ...others] = ranges
  if (others.length === 0) return range(first)
  // Keys without a column have no index, and cannot be ordered by outside the table.
  if (columns.length === 0 || order.some((key) => isComputed(resolve(key.path, key.as))))
    return range(sql`(${others.reduce((all, other) => sql`${all} or ${other}`, first)})`)
  const selected = commas([row, ...compared])
  const all = others.reduce(
    (union, other) => sql`${union} union all (${range(other, selected)})`,
    sql`(${range(first, selected)})`,
  )
  return sql`select * from (${all}) as found ${end}`
}

/**
 * The index gives the rows in the order of their distance, which needs no leakproof operator, as a condition on the distance would.
 */
function nearStatement(
  { name, row, resolve }: Table,
  where: Sql,
  { near, limit, index }: { readonly near: Near; readonly limit: number; readonly index: Index },
): Sql {
  const distance = sql`${comparedText(resolve([near.field]).sql, index)} operator(public.<->>) ${near.text}::text`
  return sql`select * from (
      select ${row}, 1 - (${distance}) as similarity from ${name} where ${where} order by ${distance} limit ${limit}) found
    where similarity > 0 order by similarity desc, id`
}

const isComputed = ({ type, computed }: Column) => type === 'jsonb' || computed === true

/** @param most counts at most one more than this */
function countOf(name: Sql, where: Sql, most?: number): Sql {
  if (most === undefined) return sql`select count(*) as n from ${name} where ${where}`
  return sql`select count(*) as n from (select from ${name} where ${where} limit ${most + 1}) found`
}

const planned = (name: Sql, where: Sql): Sql => sql`explain (format json) select from ${name} where ${where}`

/** Counts exactly up to `countedMax`; beyond that returns the planner's estimate, if it is not lower. */
function totalOf(all: number, plan: Readonly<Record<string, unknown>> | undefined): number {
  if (plan === undefined || all <= COLLECTION_LIMITS.exactCountMax) return all
  const [{ Plan }] = plan['QUERY PLAN'] as [{ Plan: { 'Plan Rows': number } }]
  return Math.max(all, Plan['Plan Rows'])
}
