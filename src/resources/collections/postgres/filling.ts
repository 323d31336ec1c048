/** Where statements on documents have their values from, and how several of one shape become one. */

import { LRUCache } from 'lru-cache'
import { LIMITS } from '../../../core/limits.ts'
import { Sql, type StatementKind, sql } from '../../../platform/pg/sql.ts'
import type { Table, TableColumn } from './table.ts'

/** What the statements are for, besides the table. */
export interface Purpose {
  readonly collection: string
  /** Whether anon keys may read it, now: what is told is theirs to hear. */
  readonly anonReads: boolean
  /**
   * One of several changes, of which all are made or none: one that cannot be made ends the transaction (TN003) instead
   * of being reported as a row, and no documents come back, since they could be more than a reply may hold.
   */
  readonly oneOfMany: boolean
}

/** The values of one statement: those that it asks for. */
export interface Filling {
  readonly purpose: Purpose
  /** Of the document. */
  readonly id?: string
  /** By column. */
  readonly typed?: Readonly<Record<string, unknown>>
  /** JSON of the fields that have no column; of several documents, of all that is to be written. */
  readonly rest?: string
  /** The document as JSON. */
  readonly text?: string
  /** What is set and unset, as an array. */
  readonly names?: string
  /** Those that the caller takes, as JSON; null where any will do. */
  readonly versions?: string | null
  /** Several fillings, as JSON: the rows of {@link given}. */
  readonly rows?: string
}

/** Kinds by table, then by what the text of their statement depends on: statements are joined if their kind is the same value. */
const KINDS = new WeakMap<Table, LRUCache<string, StatementKind<Filling>>>()

/** The kind of the statements of a shape, which says several at once: `build` reads them from {@link given}. */
export function kindOf(
  table: Table,
  shape: string,
  build: (filling: Filling) => Sql,
): StatementKind<Filling> {
  const kinds =
    KINDS.get(table) ?? new LRUCache<string, StatementKind<Filling>>({ max: LIMITS.statementShapesMax })
  KINDS.set(table, kinds)
  const known = kinds.get(shape)
  if (known !== undefined) return known
  const merge: StatementKind<Filling>['merge'] = (items) => {
    const [first] = items
    if (first === undefined) throw new TypeError('there is something to say')
    return build({ purpose: first.purpose, rows: `[${items.map(rowOf).join()}]` })
  }
  const kind = { merge }
  kinds.set(shape, kind)
  return kind
}

const rowOf = ({ id, typed = {}, rest = 'null', text, names, versions }: Filling): string =>
  `{"id":${JSON.stringify(id)},"typed":${JSON.stringify(typed)},"rest":${rest},"versions":${versions ?? 'null'},${JSON.stringify(
    { text, names },
  ).slice(1)}`

/** Where a statement has the values of a document from. */
export interface Source {
  readonly id: Sql
  readonly versions: Sql
  readonly rest: Sql
  readonly names: Sql
  readonly text: Sql
  readonly value: (column: TableColumn) => Sql
}

/** From its own values; those that stand in several places are sent once. */
export function ownValues(filling: Filling): Source {
  const [id, versions, rest, names] = [
    Sql.shared(filling.id),
    Sql.shared(filling.versions),
    Sql.shared(filling.rest),
    Sql.shared(filling.names),
  ]
  return {
    id: sql`${id}::uuid`,
    versions: sql`${versions}::jsonb`,
    rest: sql`${rest}::jsonb`,
    names: sql`${names}::text[]`,
    text: sql`${filling.text}::json`,
    value: (column) => columnValue(column, filling),
  }
}

/** From the rows of {@link given}. */
export const GIVEN: Source = {
  id: sql`given_id`,
  versions: sql`given_versions`,
  rest: sql`given_rest`,
  names: sql`given_names`,
  text: sql`given_text::json`,
  value: (column) => fromJson(sql`given_typed`, column),
}

/**
 * Several documents in one value, so that the text of the statement does not grow with them. How many they are is hidden
 * from the planner, which would make a plan for each number.
 */
export const given = ({ rows }: Filling): Sql => sql`given as (
  select (v ->> 'id')::uuid as given_id, nullif(v -> 'versions', 'null') as given_versions, v -> 'typed' as given_typed,
    v -> 'rest' as given_rest, (v ->> 'names')::text[] as given_names, v ->> 'text' as given_text
  from jsonb_array_elements((select ${rows}::jsonb)) v)`

/** The value of a column in a jsonb that has the column's own name as key. */
export function fromJson(base: Sql, { column, type }: TableColumn): Sql {
  return type === 'jsonb' ? sql`${base} -> ${column}::text` : sql`(${base} ->> ${column}::text)${CASTS[type]}`
}

function columnValue({ column, type }: TableColumn, { typed }: Filling): Sql {
  const value = typed?.[column] ?? null
  const sent = value === null || type !== 'jsonb' ? (value as string | null) : JSON.stringify(value)
  return sql`${sent}${CASTS[type]}`
}

const CASTS: Readonly<Record<TableColumn['type'], Sql>> = {
  text: sql`::text`,
  bigint: sql`::bigint`,
  'double precision': sql`::double precision`,
  boolean: sql`::boolean`,
  jsonb: sql`::jsonb`,
}
