/** Rows of one page, and how many there are in all where that is asked: one round trip for both. */

import { LIMITS } from '../../../core/limits.ts'
import { commas, type Sql, sql } from '../../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../../platform/scope.ts'
import type { Query } from '../store.ts'
import { type Column, compileAfter, compileFilter, compileOrder } from './compile.ts'
import type { Table } from './table.ts'

/** @param alone whether the table holds this collection and no other */
export async function listRows<Row>(
  scope: WorkspaceScope,
  table: Table,
  { filter, order, after, limit, count }: Query,
  alone: boolean,
): Promise<{ rows: Row[]; total?: number }> {
  const { name, own, resolve: columns } = table
  const where = sql`${own} and ${compileFilter(filter, columns)}`
  const page = pageStatement(table, where, { order, limit, ...(after !== undefined && { after }) })
  if (count === undefined) return { rows: await scope.rows<Row & object>(page) }
  // What the planner knows of a table that many share would tell each of the others.
  const guess = count === 'estimated' && alone
  const counts = guess
    ? [counted(name, where, LIMITS.countedMax), planned(name, where)]
    : [counted(name, where)]
  const [rows = [], [all] = [], [plan] = []] = await scope.batch(page, ...counts)
  return { rows: rows as Row[], total: totalOf(Number(all?.['n']), plan) }
}

/**
 * The limit is a value like others: so the planner looks at all of them each time, which a rare one is worth.
 * Rows behind the cursor are several ranges of an index: each is read to the limit, and what comes of them is merged.
 */
function pageStatement(
  { name, row, columns, compared, resolve }: Table,
  where: Sql,
  { order, after, limit }: Pick<Query, 'order' | 'after' | 'limit'>,
): Sql {
  const end = sql`order by ${compileOrder(order, resolve)} limit ${limit}`
  const range = (condition: Sql, shown = row) =>
    sql`select ${shown} from ${name} where ${where} and ${condition} ${end}`
  const ranges = after === undefined ? [sql`true`] : compileAfter(order, after, resolve)
  const [first = sql`false`, ...others] = ranges
  if (others.length === 0) return range(first)
  // Where keys have no column there is no such index, and outside the table not even the key.
  if (columns.length === 0 || order.some((key) => isComputed(resolve(key.path, key.as))))
    return range(sql`(${others.reduce((all, other) => sql`${all} or ${other}`, first)})`)
  const shown = commas([row, ...compared])
  const all = others.reduce(
    (union, other) => sql`${union} union all (${range(other, shown)})`,
    sql`(${range(first, shown)})`,
  )
  return sql`select * from (${all}) as found ${end}`
}

const isComputed = ({ type, computed }: Column) => type === 'jsonb' || computed === true

/** @param most where there are more, one more than that is counted and no further */
function counted(name: Sql, where: Sql, most?: number): Sql {
  if (most === undefined) return sql`select count(*) as n from ${name} where ${where}`
  return sql`select count(*) as n from (select from ${name} where ${where} limit ${most + 1}) found`
}

const planned = (name: Sql, where: Sql): Sql => sql`explain (format json) select from ${name} where ${where}`

/** Few are counted; of many the planner's guess stands, where it is not less than what was counted. */
function totalOf(all: number, plan: Readonly<Record<string, unknown>> | undefined): number {
  if (plan === undefined || all <= LIMITS.countedMax) return all
  const [{ Plan }] = plan['QUERY PLAN'] as [{ Plan: { 'Plan Rows': number } }]
  return Math.max(all, Plan['Plan Rows'])
}
