/** Rows of one page, and how many there are in all where that is asked: one round trip for both. */

import { LIMITS } from '../../../core/limits.ts'
import { type Sql, sql } from '../../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../../platform/scope.ts'
import type { Query } from '../store.ts'
import { compileAfter, compileFilter, compileOrder } from './compile.ts'
import type { Table } from './table.ts'

/** @param alone whether the table holds this collection and no other */
export async function listRows<Row>(
  scope: WorkspaceScope,
  { name, own, row, resolve: columns }: Table,
  { filter, order, after, limit, count }: Query,
  alone: boolean,
): Promise<{ rows: Row[]; total?: number }> {
  const where = sql`${own} and ${compileFilter(filter, columns)}`
  const behind = after === undefined ? sql`` : sql` and ${compileAfter(order, after, columns)}`
  const page = sql`select ${row} from ${name} where ${where}${behind}
    order by ${compileOrder(order, columns)} limit ${limit}`
  if (count === undefined) return { rows: await scope.rows<Row & object>(page) }
  // What the planner knows of a table that many share would tell each of the others.
  const guess = count === 'estimated' && alone
  const counts = guess
    ? [counted(name, where, LIMITS.countedMax), planned(name, where)]
    : [counted(name, where)]
  const [rows = [], [all] = [], [plan] = []] = await scope.batch(page, ...counts)
  return { rows: rows as Row[], total: totalOf(Number(all?.['n']), plan) }
}

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
