/** The store of relational collections in PostgreSQL: a table each, a column for each declared scalar property. */

import { Problem } from '../../../core/problem.ts'
import { commas, Sql, sql } from '../../../platform/pg/sql.ts'
import type { TableColumn as DeclaredColumn } from '../../schemas/columns.ts'
import type { Declaration } from '../../schemas/declarations.ts'
import type { Fields } from '../fields.ts'
import type { Path } from '../grammar/filter.ts'
import type { Collection, Store, Stored } from '../store.ts'
import { type Column, type Columns, compileAfter, compileFilter, compileOrder, within } from './compile.ts'
import { OURS } from './jsonb.ts'

interface TableColumn extends DeclaredColumn {
  readonly sql: Sql
}

/** Pieces of statements on one table. All of them are the same text each time, so they are prepared once. */
interface Table {
  readonly name: Sql
  readonly columns: readonly TableColumn[]
  /** What a row is read as. */
  readonly row: Sql
  readonly resolve: Columns
}

const TABLES = new WeakMap<Declaration, Table>()

function tableOf({ name, declared }: Collection): Table {
  if (declared === undefined) throw new TypeError(`${name} has no table`)
  const known = TABLES.get(declared)
  if (known !== undefined) return known
  const table = describe(declared)
  TABLES.set(declared, table)
  return table
}

function describe(declared: Declaration): Table {
  const columns = declared.columns.map((column) => ({ ...column, sql: Sql.identifier(column.column) }))
  const row = commas([
    sql`id`,
    ...columns.map((column) => column.sql),
    sql`extra, version, created_at, updated_at`,
  ])
  const name = sql`tenon_data.${Sql.identifier(declared.relation)}`
  return { name, columns, row, resolve: resolver(columns, declared.mode === 'enforce') }
}

/**
 * Where a path's value stands. Without enforcement a value may be of another type than its column: then it is in
 * `extra`, so both are asked, at the price of the column's index.
 */
function resolver(columns: readonly TableColumn[], typed: boolean): Columns {
  const declared = new Map<string, Column>(
    columns.map(({ property, sql: column, type }) => {
      const extra = within(sql`extra`, [property])
      return [
        property,
        typed ? { sql: column, type } : { sql: sql`coalesce(${extra}, to_jsonb(${column}))`, type: 'jsonb' },
      ]
    }),
  )
  return (path: Path) => {
    const [name] = path
    const column = Object.hasOwn(OURS, name) ? OURS[name] : declared.get(name)
    if (path.length === 1 && column !== undefined) return column
    const inside = columns.find(({ property, type }) => property === name && type === 'jsonb')
    if (inside === undefined) return { sql: within(sql`extra`, path), type: 'jsonb' }
    const whole = sql`coalesce(${within(sql`extra`, [name])}, ${inside.sql})`
    return { sql: within(whole, path.slice(1)), type: 'jsonb' }
  }
}

const FITS: Readonly<Record<TableColumn['type'], (value: unknown) => boolean>> = {
  text: (value) => typeof value === 'string',
  bigint: Number.isSafeInteger,
  'double precision': (value) => typeof value === 'number',
  boolean: (value) => typeof value === 'boolean',
  jsonb: (value) => value !== null && value !== undefined,
}

/** `typed`: by column, null where there is none. `extra`: the rest, and what its column cannot hold, null included. */
function split(table: Table, fields: Fields): { typed: Fields; extra: Fields } {
  const typed: Fields = {}
  const rest = new Map(Object.entries(fields))
  for (const { property, column, type } of table.columns) {
    if (!rest.has(property)) continue
    const fits = FITS[type](rest.get(property))
    typed[column] = fits ? rest.get(property) : null
    if (fits) rest.delete(property)
  }
  return { typed, extra: Object.fromEntries(rest) }
}

interface TableRow extends Omit<Stored, 'fields'> {
  readonly extra: Fields
  readonly [column: string]: unknown
}

function toStored(table: Table, row: TableRow): Stored {
  const { id, version, created_at, updated_at, extra } = row
  const typed = table.columns.flatMap(({ property, column }) =>
    row[column] === null ? [] : [[property, row[column]] as const],
  )
  return {
    id,
    fields: Object.fromEntries([...typed, ...Object.entries(extra)]),
    version,
    created_at,
    updated_at,
  }
}

const CASTS: Readonly<Record<TableColumn['type'], Sql>> = {
  text: sql`::text`,
  bigint: sql`::bigint`,
  'double precision': sql`::double precision`,
  boolean: sql`::boolean`,
  jsonb: sql`::jsonb`,
}

/** The value of a column in the jsonb `v`; the column's own name is the key. */
const typedValue = ({ column, type }: TableColumn): Sql =>
  type === 'jsonb' ? sql`nullif(v -> ${column}::text, 'null')` : sql`(v ->> ${column}::text)${CASTS[type]}`

export const tableStore: Store = {
  // The id of a retried activity is the same one: the conflict arm reads back what the first attempt stored.
  create: async (scope, collection, id, { fields }) => {
    const table = tableOf(collection)
    const { typed, extra } = split(table, fields)
    const names = commas([sql`id`, ...table.columns.map((column) => column.sql), sql`extra`])
    const values = commas([
      sql`${id}::uuid`,
      ...table.columns.map(typedValue),
      sql`${JSON.stringify(extra)}::jsonb`,
    ])
    const row = await scope.row<TableRow>(sql`
      insert into ${table.name} (${names}) select ${values} from (select ${JSON.stringify(typed)}::jsonb as v) typed
      on conflict (tenant_id, workspace_id, id) do update set id = excluded.id
      returning ${table.row}`)
    if (row === undefined) throw new Problem('internal')
    return toStored(table, row)
  },

  get: async (scope, collection, id) => {
    const table = tableOf(collection)
    const row = await scope.row<TableRow>(sql`select ${table.row} from ${table.name} where id = ${id}`)
    return row && toStored(table, row)
  },

  list: async (scope, collection, { filter, order, after, limit }) => {
    const table = tableOf(collection)
    const behind = after === undefined ? sql`` : sql` and ${compileAfter(order, after, table.resolve)}`
    const rows = await scope.rows<TableRow>(sql`
      select ${table.row} from ${table.name}
      where ${compileFilter(filter, table.resolve)}${behind}
      order by ${compileOrder(order, table.resolve)} limit ${limit}`)
    return rows.map((row) => toStored(table, row))
  },

  update: async (scope, collection, id, { fields }, ifVersion) => {
    const table = tableOf(collection)
    const { typed, extra } = split(table, fields)
    const names = JSON.stringify(Object.keys(fields))
    const changed = Object.keys(fields).length > 0
    const version = ifVersion ?? null
    const sets = table.columns.map(
      (column) =>
        sql`${column.sql} = case when v ? ${column.column}::text then ${typedValue(column)} else ${column.sql} end`,
    )
    const [[row] = [], [current] = []] = await scope.batch(
      sql`update ${table.name} set ${commas([
        ...sets,
        sql`extra = (extra - array(select jsonb_array_elements_text(${names}::jsonb))) || ${JSON.stringify(extra)}::jsonb`,
        sql`version = case when ${changed}::boolean then version + 1 else version end`,
        sql`updated_at = case when ${changed}::boolean then now() else updated_at end`,
      ])} from (select ${JSON.stringify(typed)}::jsonb as v) typed
        where id = ${id} and (${version}::bigint is null or version = ${version})
        returning ${table.row}`,
      sql`select version from ${table.name} where id = ${id}`,
    )
    if (row !== undefined) return { stored: toStored(table, row as unknown as TableRow) }
    return current && { staleAt: Number(current['version']) }
  },

  delete: async (scope, collection, id) => {
    const table = tableOf(collection)
    const row = await scope.row(sql`delete from ${table.name} where id = ${id} returning id`)
    return row !== undefined
  },
}
