/** Grants and policies of anon keys and users on the table of a collection, and the trigger that compares a row with the one before. */

import type { WorkspaceRef } from '../../../core/tenant.ts'
import { commas, Sql, sql } from '../../../infra/postgres/sql.ts'
import { ROLE_NAMES, ROW_RIGHT_NAMES, type RoleName, type RowRight } from '../rules/access.ts'
import type { TableColumn } from '../schemas/columns.ts'

/** The condition under which a role may access a row. */
interface RowCondition {
  readonly condition: Sql
  /** Of an updated row beside `before`, a row of the same table; undefined if the rule compares with no such row. */
  readonly transition: Sql | undefined
}

/** By role and right: the condition, all rows, or none. `anon_setting`: all rows if the setting of the workspace says so. */
export type RowConditions = Readonly<
  Record<RoleName, Readonly<Partial<Record<RowRight, boolean | 'anon_setting' | RowCondition>>>>
>

interface PolicySource {
  /** Of the table. */
  readonly ref: WorkspaceRef
  readonly columns: readonly TableColumn[]
  readonly conditions: RowConditions
}

const COMMANDS: Readonly<Record<RowRight, Sql>> = {
  read: sql`select`,
  create: sql`insert`,
  update: sql`update`,
  delete: sql`delete`,
}

const POLICIES = ROLE_NAMES.flatMap((role) => ROW_RIGHT_NAMES.map((right) => ({ role, right })))
const policyName = (role: RoleName, right: RowRight): Sql => Sql.identifier(`${role}_${right}`)
const transitionName = (role: RoleName): Sql => Sql.identifier(`${role}_transition`)
const databaseRole = (role: RoleName): Sql => Sql.identifier(`tenon_${role}`)

/**
 * The statements that grant anon keys and users what the rules admit, in the workspace of the session.
 * @param table name of the table, which has no such policies yet
 */
export function setPolicies(table: Sql, { ref, columns, conditions }: PolicySource): Sql[] {
  const grants = POLICIES.flatMap(({ role, right }) => {
    const condition = conditions[role][right]
    if (condition === undefined || condition === false) return []
    return [
      sql`create policy ${policyName(role, right)} on ${table} for ${COMMANDS[right]} to ${databaseRole(role)}
        ${clausesOf(right, ref, condition)}`.withLiterals(),
      sql`grant ${COMMANDS[right]} ${grantedColumns(right, columns)} on ${table} to ${databaseRole(role)}`,
    ]
  })
  const transitions = ROLE_NAMES.flatMap((role) => {
    const rule = conditions[role].update
    const transition = typeof rule === 'object' ? rule.transition : undefined
    return transition === undefined ? [] : [createTransition(table, role, transition)]
  })
  return [...grants, ...transitions]
}

/** The statements that take all of these from anon keys and users, before the columns change that they use. */
export const dropPolicies = (table: Sql): Sql[] => [
  ...POLICIES.map(({ role, right }) => sql`drop policy if exists ${policyName(role, right)} on ${table}`),
  ...ROLE_NAMES.map((role) => sql`drop trigger if exists ${transitionName(role)} on ${table}`),
  sql`revoke all on ${table} from tenon_anon, tenon_user`,
]

const OF_WORKSPACE = sql`tenant_id = tenon.tenant() and workspace_id = tenon.workspace()`
const OF_OPEN_WORKSPACE = sql`tenant_id = tenon.tenant() and workspace_id = (select tenon.anon_workspace())`

/**
 * True in a session of the workspace that a constraint of the table binds its rows to. The subquery is evaluated once for a statement, where
 * a comparison of columns is evaluated for each row, and keeps PostgreSQL from answering by an index alone. `is not null`, since the
 * planner takes half of the rows for a boolean that it does not know.
 */
const isIn = ({ tenantId, workspaceId }: WorkspaceRef, open: boolean): Sql =>
  open
    ? sql`(select tenon.in_open_workspace(${tenantId}, ${workspaceId})) is not null`
    : sql`(select tenon.in_workspace(${tenantId}, ${workspaceId})) is not null`

/** The statements that show service keys and the owner of the schema the rows of a table in the sessions of its workspace. */
export const platformPolicies = (table: Sql, ref: WorkspaceRef): Sql[] => [
  sql`drop policy if exists service on ${table}`,
  sql`drop policy if exists owner on ${table}`,
  sql`create policy service on ${table} to tenon_service using (${isIn(ref, false)}) with check (${OF_WORKSPACE})`.withLiterals(),
  sql`create policy owner on ${table} for select to tenon_owner using (${isIn(ref, false)})`.withLiterals(),
]

type Admitting = Exclude<RowConditions[RoleName][RowRight], false | undefined>

function clausesOf(right: RowRight, ref: WorkspaceRef, rule: Admitting): Sql {
  const isOpen = rule === 'anon_setting'
  const rows = typeof rule === 'object' ? sql` and (${rule.condition})` : sql``
  const using = sql`using (${isIn(ref, isOpen)}${rows})`
  const check = sql`with check (${isOpen ? OF_OPEN_WORKSPACE : OF_WORKSPACE}${rows})`
  if (right === 'create') return check
  return right === 'update' ? sql`${using} ${check}` : using
}

/** The columns that statements set: not the owner, nor tenant and workspace. */
function grantedColumns(right: RowRight, columns: readonly TableColumn[]): Sql {
  if (right !== 'create' && right !== 'update') return sql``
  const fields = columns
    .filter(({ canonical }) => canonical === undefined)
    .map(({ column }) => Sql.identifier(column))
  const system = right === 'create' ? [sql`id`] : [sql`version`, sql`updated_at`]
  return sql`(${commas([...system, ...fields, sql`extra`])})`
}

/** After the update, since generated columns have their values then. No policy sees both rows. */
function createTransition(table: Sql, role: RoleName, transition: Sql): Sql {
  const condition = transition.withLiterals().text
  return sql`create trigger ${transitionName(role)} after update on ${table} for each row
    when (current_user = ${`tenon_${role}`}) execute function tenon.check_transition(${condition})`.withLiterals()
}
