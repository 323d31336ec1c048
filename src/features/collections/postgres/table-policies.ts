/** Grants and policies of anon keys and users on the table of a collection, and the trigger that compares a row with the one before. */

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
export function setPolicies(table: Sql, { columns, conditions }: PolicySource): Sql[] {
  const grants = POLICIES.flatMap(({ role, right }) => {
    const condition = rowCondition(conditions[role][right])
    if (condition === undefined) return []
    return [
      sql`create policy ${policyName(role, right)} on ${table} for ${COMMANDS[right]} to ${databaseRole(role)}
        ${clausesOf(right, condition)}`.withLiterals(),
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

/** @returns undefined for no row */
function rowCondition(rule: RowConditions[RoleName][RowRight]): Sql | undefined {
  if (rule === undefined || rule === false) return undefined
  if (rule === true) return OF_WORKSPACE
  return rule === 'anon_setting' ? OF_OPEN_WORKSPACE : sql`${OF_WORKSPACE} and (${rule.condition})`
}

function clausesOf(right: RowRight, condition: Sql): Sql {
  if (right === 'create') return sql`with check (${condition})`
  return right === 'update' ? sql`using (${condition}) with check (${condition})` : sql`using (${condition})`
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
