/** Background work that one process does for all tenants: tasks that find what is due, and the statements that find it in turn. */

import type { WorkspaceScope } from '../../access/scope.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import type { SystemScope } from '../../infra/postgres/system-scope.ts'

/** The workspace of an item. */
export interface TaskContext {
  /** An admin's. */
  readonly scope: WorkspaceScope
  /** With the rights of a service key. */
  readonly service: WorkspaceScope
  /** False while the workspace is suspended: then nothing is started in it. */
  readonly isActive: boolean
}

/** An item is due; it has no more than its names. */
interface DueItem<Item> {
  readonly ref: WorkspaceRef
  readonly item: Item
}

/** Work on items that become due, such as the repair of executions. A feature owns its tasks; a TaskRunner runs them. */
export interface BackgroundTask<Item = unknown> {
  /** As log lines name it. */
  readonly name: string
  /** The pause between two calls of `find`, in milliseconds. */
  readonly pollMs: number
  /** How many items may be under way. */
  readonly atOnce: number
  /**
   * Finds items that are due, in all workspaces in turn, by statements that are short however many there are. An item that is
   * found again while it is under way is skipped.
   * @param limit how many at most
   */
  find(system: SystemScope, limit: number): Promise<readonly DueItem<Item>[]>
  /** Serves one item; idempotent. If it throws, that is logged, and the item is found again. */
  run(context: TaskContext, item: Item): Promise<void>
}

/** A task in a list of tasks with items of other types. */
export const backgroundTask = <Item>(task: BackgroundTask<Item>): BackgroundTask => task as BackgroundTask

/** A row of a statement that looks at workspaces in turn. A look that finds nothing has one row, whose workspace is null. */
export interface TurnRow {
  readonly tenant_id: WorkspaceRef['tenantId']
  readonly workspace_id: WorkspaceRef['workspaceId']
  readonly id: string
  /** The last workspace of a look that did not reach the end; null otherwise. */
  readonly behind: string | null
}

/** Looks at some workspaces at a time, in turn, so that those of one tenant do not delay the others. */
export class WorkspaceRoundRobin {
  /** The last workspace of the last look; empty to begin with the first. */
  #after = ''

  /** @param statement its rows are as {@link TurnRow} @returns those with a workspace */
  async next<Row extends TurnRow>(system: SystemScope, statement: (after: string) => Sql): Promise<Row[]> {
    const rows = await system.rows<Row>(statement(this.#after))
    this.#after = rows[0]?.behind ?? ''
    return rows.filter(({ workspace_id }) => workspace_id !== null)
  }
}

/**
 * The `find` of a task that looks at workspaces in turn by one statement.
 * @param statement its rows are as {@link TurnRow} @param after the last workspace of the look before
 * @param itemOf the item of a row; undefined if it is not due
 */
export function findRoundRobin<Item, Row extends TurnRow = TurnRow>(
  statement: (after: string, limit: number) => Sql,
  itemOf: (row: Row) => Item | undefined,
): BackgroundTask<Item>['find'] {
  const turns = new WorkspaceRoundRobin()
  return async (system, limit) => {
    const rows = await turns.next<Row>(system, (after) => statement(after, limit))
    return rows.flatMap((row) => {
      const item = itemOf(row)
      return item === undefined ? [] : [{ ref: refOf(row), item }]
    })
  }
}

export const refOf = ({
  tenant_id,
  workspace_id,
}: Pick<TurnRow, 'tenant_id' | 'workspace_id'>): WorkspaceRef => ({
  tenantId: tenant_id,
  workspaceId: workspace_id,
})

/**
 * The query `seen (workspace_id, n)` for `with recursive`: the next workspaces, each found by one probe of an index.
 * @param next a query of the column workspace_id: the first workspace after a given one
 */
export const workspacePage = (next: (after: Sql) => Sql, after: string, max: number): Sql => sql`seen as (
    select workspace_id, 1 as n from (${next(sql`${after}::text`)}) first
    union all
    select next.workspace_id, n + 1 from seen cross join lateral (${next(sql`seen.workspace_id`)}) next
    where n < ${max}
  )`

/** A query for {@link workspacePage}. @param rows a table and a condition, which have an index by workspace: `executions where …` */
export const workspaceWith =
  (rows: Sql) =>
  (after: Sql): Sql =>
    sql`select workspace_id from ${rows} and workspace_id > ${after} order by workspace_id limit 1`

/** The query of the column `behind`, as in {@link TurnRow}. */
export const nextCursor = (max: number): Sql =>
  sql`select case when count(*) = ${max} then max(workspace_id) end as behind from seen`
