/** Constraints in the tables of collections: conditions of unique indexes, ranges that do not overlap, and checks; and which of them an error is of. */

import { violated, violatedCondition } from '../../../infra/postgres/errors.ts'
import { commas, Sql, sql } from '../../../infra/postgres/sql.ts'
import { type Condition, readCondition } from '../constraints/condition.ts'
import { type DeclaredExclusion, rangeTypeOf } from '../constraints/constraint.ts'
import { columnOf } from '../references/reference.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import type { CheckedChange, Collection, Conflict } from '../store.ts'
import { compileFilter } from './compile.ts'
import { newRowOf, tableOf } from './table.ts'

/** The names that a declaration's constraints begin with, and its table. */
interface Named {
  readonly id: string
  readonly table: Sql
}

/** True for rows that meet a condition of a declaration. */
export const conditionOf = (where: Condition, declared: Declaration): Sql =>
  compileFilter(readCondition(where, declared), tableOf({ name: '', declared }).resolve)

const triggerName = (number: number): Sql => Sql.identifier(`check_${number}`)

/**
 * A check is a trigger on writes of fields: a check constraint would also refuse to give a document another owner, which was there
 * before the check and breaks it. It runs after the write, since generated columns have their values then.
 */
export const addChecks = (table: Sql, declared: Declaration): Sql[] =>
  declared.checks.map(({ broken }, index) =>
    sql`create trigger ${triggerName(index + 1)} after insert or update of extra on ${table} for each row
      when (${compileFilter(broken, newRowOf(declared))}) execute function tenon.refuse_check()`.withLiterals(),
  )

/** Before the columns change that the checks use. @param count of the checks that the table may have */
export const dropChecks = (table: Sql, count: number): Sql[] =>
  Array.from(
    { length: count },
    (_, index) => sql`drop trigger if exists ${triggerName(index + 1)} on ${table}`,
  )

/** The check that a violated constraint is of. */
const violatedCheck = (constraint: string, { checks }: Pick<Declaration, 'checks'>) =>
  checks[Number(/^check_(\d+)$/.exec(constraint)?.[1]) - 1]

/** The name of the constraint that errors of PostgreSQL have. */
const exclusionName = (id: string, { name }: Pick<DeclaredExclusion, 'name'>): string => `${id}_${name}`

/** Locks the table until its index is built: PostgreSQL builds none of this kind beside writers. */
export function addExclusion({ id, table }: Named, exclusion: DeclaredExclusion, declared: Declaration): Sql {
  const { fields, where } = exclusion
  const equal = equalColumns(fields, declared).map((column) => sql`${column} with =`)
  const [start, end] = boundsOf(exclusion, declared)
  const range = sql`(case when ${start} < ${end} then numrange(${start}, ${end}) end) with &&`
  const condition = where === undefined ? sql`` : sql` where (${conditionOf(where, declared)})`
  return sql`alter table ${table} add constraint ${Sql.identifier(exclusionName(id, exclusion))}
    exclude using gist (${commas([...equal, range])})${condition}`.withLiterals()
}

export const dropExclusion = ({ id, table }: Named, exclusion: DeclaredExclusion): Sql =>
  sql`alter table ${table} drop constraint if exists ${Sql.identifier(exclusionName(id, exclusion))}`

/** Some pairs of documents whose ranges overlap, if there are any: of those with equal fields in the order of their starts, two neighbours do. */
export function overlapping(table: Sql, exclusion: DeclaredExclusion, declared: Declaration): Sql {
  const { fields, where } = exclusion
  const [start, end] = boundsOf(exclusion, declared)
  const equal = equalColumns(fields, declared)
  const condition = where === undefined ? sql`true` : conditionOf(where, declared)
  const takesPart = equal.reduce(
    (all, column) => sql`${all} and ${column} is not null`,
    sql`${start} < ${end}`,
  )
  const partition = equal.length === 0 ? sql`` : sql`partition by ${commas(equal)} `
  const columns = commas([sql`id`, sql`${start} as starts_at`, sql`${end} as ends_at`, ...equal])
  return sql`select id, next_id from (
      select id, ends_at, lead(id) over neighbours as next_id, lead(starts_at) over neighbours as next_starts_at
      from (select ${columns} from ${table} where ${takesPart} and ${condition}) ranges
      window neighbours as (${partition}order by starts_at, id)) pairs
    where next_starts_at < ends_at order by id limit 5`
}

const equalColumns = (fields: readonly string[], declared: Declaration): Sql[] =>
  fields.map((field) => tableOf({ name: '', declared }).resolve([field], declared.formats.get(field)).sql)

const boundsOf = ({ range }: Pick<DeclaredExclusion, 'range'>, declared: Declaration): Sql[] =>
  range.map((field) => boundOf(field, declared))

/** A start or an end as a number, in the order of the values. The digits of a canonical time are a number, too. */
function boundOf(field: string, declared: Declaration): Sql {
  const { resolve } = tableOf({ name: '', declared })
  const type = rangeTypeOf(field, declared)
  switch (type) {
    case 'date-time':
      return sql`${resolve([field], type).sql}::numeric`
    case 'date':
      return sql`replace(${resolve([field], type).sql}, '-', '')::numeric`
    case 'number':
      // As a text of the fewest digits that read back as the same double; directly, it would be rounded to 15 digits.
      return sql`${resolve([field]).sql}::text::numeric`
    case 'integer':
    case 'decimal':
    case 'int64':
      return sql`${resolve([field]).sql}::numeric`
    case undefined:
      throw new TypeError(`${field} is not the end of a range`)
  }
}

/** The name of the foreign key that errors of PostgreSQL have. */
export const foreignKeyName = ({ id }: { readonly id: string }, column: string): string =>
  `${id}_${column}_fk`

/** The id of the declaration that a foreign key belongs to. */
const declarationOf = (foreignKey: string): string => foreignKey.replace(/_c\d+_fk$/, '')

/** The conflict that a violated constraint tells; undefined for other errors. */
export function conflictOf(
  error: unknown,
  { declared }: Collection,
  verb: CheckedChange['verb'] = 'create',
): Conflict | undefined {
  const constraint = violated(error) ?? violatedCondition(error)
  if (constraint === undefined || declared === undefined) return undefined
  // The constraint is of the documents that refer to the one that would be deleted.
  if (verb === 'delete') return { referenced: declarationOf(constraint) }
  const duplicated = declared.indexes.find(({ name }) => `${declared.id}_${name}` === constraint)
  if (duplicated !== undefined) return { duplicated }
  const overlapped = declared.exclusions.find((one) => exclusionName(declared.id, one) === constraint)
  if (overlapped !== undefined) return { overlapped }
  const broken = violatedCheck(constraint, declared)
  if (broken !== undefined) return { broken }
  const unresolved = declared.references.find((reference) => {
    const column = columnOf(reference, declared.columns)
    return column !== undefined && foreignKeyName(declared, column) === constraint
  })
  return unresolved && { unresolved }
}
