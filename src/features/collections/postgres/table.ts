/** Describes the table of a collection: each declared collection has its own, the others share one. */

import { LRUCache } from 'lru-cache'
import { commas, Sql, sql } from '../../../infra/postgres/sql.ts'
import { CREATED_AT } from '../expiry/expiry.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import type { Path } from '../query/filter.ts'
import type { Index } from '../schemas/api-types.ts'
import type { Format } from '../schemas/canonical-text.ts'
import type { TableColumn as DeclaredColumn } from '../schemas/columns.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import type { Collection, Stored } from '../store.ts'
import { type Column, type Columns, comparedText, within } from './compile.ts'

type Fields = Record<string, unknown>

export interface TableColumn extends DeclaredColumn {
  readonly sql: Sql
}

/** Pieces of statements on one table. Their texts are constant, so statements are prepared once. */
export interface Table {
  readonly name: Sql
  /** The condition that selects the rows of the collection. */
  readonly own: Sql
  /** The condition that selects the rows of the collection that have expired, and so are not `own` any more. */
  readonly expired: Sql
  /** The columns of its primary key. */
  readonly key: Sql
  /** Columns that a new row gets besides its fields, and their values. */
  readonly stamp: { readonly names: Sql; readonly values: Sql }
  readonly columns: readonly TableColumn[]
  /** The columns by property. */
  readonly columnOf: ReadonlyMap<string, TableColumn>
  /** Generated columns for comparisons; they are not read back. */
  readonly compared: readonly Sql[]
  /** The jsonb column of the fields that have no column. */
  readonly rest: Sql
  /** The select list of a row. */
  readonly row: Sql
  /** The columns of such a row in a query named `written`. */
  readonly written: Sql
  /** All fields of such a row as one jsonb. */
  readonly document: Sql
  readonly resolve: Columns
}

const SYSTEM_FIELDS: Readonly<Record<string, Column>> = {
  id: { sql: sql`id`, type: 'uuid' },
  _created_at: { sql: sql`created_at`, type: 'timestamptz' },
  _updated_at: { sql: sql`updated_at`, type: 'timestamptz' },
  _version: { sql: sql`version`, type: 'bigint' },
  _owner: { sql: sql`owner`, type: 'text' },
}

const NO_STAMP = { names: sql``, values: sql`` }
const TABLES = new WeakMap<Declaration, Table>()
/** By name alone: undeclared collections are the same in every workspace. */
const UNDECLARED = new LRUCache<string, Table>({
  max: COLLECTION_LIMITS.undeclaredTablesCachedMax,
  memoMethod: undeclared,
})

/** Returns the same value while it is cached, so that statements on it are built once. */
export function tableOf({ name, declared }: Pick<Collection, 'name' | 'declared'>): Table {
  if (declared === undefined) return UNDECLARED.memo(name)
  const known = TABLES.get(declared)
  if (known !== undefined) return known
  const table = ofDeclaration(declared)
  TABLES.set(declared, table)
  return table
}

function undeclared(name: string): Table {
  return {
    name: sql`tenon.documents`,
    own: sql`collection = ${name}`,
    expired: sql`false`,
    key: sql`tenant_id, workspace_id, collection, id`,
    stamp: { names: sql`collection, `, values: sql`${name}, ` },
    ...UNDECLARED_COLUMNS,
  }
}

function writtenRow(columns: readonly TableColumn[]): Sql {
  const names = columns.map((column) => sql`written.${column.sql}`)
  const system = sql`written.extra, written.version, written.created_at, written.updated_at, written.owner`
  return commas([sql`written.id`, ...names, system])
}

const UNDECLARED_COLUMNS = {
  columns: [],
  columnOf: new Map<string, TableColumn>(),
  compared: [],
  rest: sql`data`,
  row: sql`id, data as extra, version, created_at, updated_at, owner`,
  written: writtenRow([]),
  document: sql`extra`,
  resolve: resolver([], [], sql`data`, true),
}

function ofDeclaration(declared: Declaration): Table {
  const all = declared.columns.map((column) => ({ ...column, sql: Sql.identifier(column.column) }))
  const columns = all.filter(({ canonical }) => canonical === undefined)
  const compared = all.filter(({ canonical }) => canonical !== undefined)
  const rest = sql`extra`
  const resolve = withIndexes(resolver(columns, compared, rest, declared.mode === 'enforce'), declared)
  return {
    name: sql`tenon_data.${Sql.identifier(declared.relation)}`,
    ...expiryConditions(declared, resolve),
    key: sql`id`,
    stamp: NO_STAMP,
    columns,
    columnOf: new Map(columns.map((column) => [column.property, column])),
    compared: compared.map((column) => column.sql),
    rest,
    row: commas([
      sql`id`,
      ...columns.map((column) => column.sql),
      sql`extra, version, created_at, updated_at, owner`,
    ]),
    written: writtenRow(columns),
    document: documentWith(columns, rest),
    resolve,
  }
}

/** Adds the columns that conditions are written with whose indexes row-level security lets PostgreSQL use (0012-search.sql). */
function withIndexes(resolve: Columns, { indexes }: Pick<Declaration, 'indexes'>): Columns {
  const columnsOf = (kind: Index['kind']) =>
    new Map(
      indexes
        .filter((index) => index.kind === kind && index.leakproof === true)
        .map(({ fields: [field], columns: [column = ''] }) => [field, Sql.identifier(column)] as const),
    )
  const [elements, texts] = [columnsOf('array'), columnsOf('trigram')]
  if (elements.size + texts.size === 0) return resolve
  return (path, as) => {
    const column = resolve(path, as)
    const [ofElements, text] = path.length > 1 ? [] : [elements.get(path[0]), texts.get(path[0])]
    if (ofElements !== undefined) return { ...column, elements: ofElements }
    return text !== undefined && as === undefined
      ? { ...column, patterns: comparedText(text, { leakproof: true }) }
      : column
  }
}

/** By the clock of the database. The subqueries do not depend on the row, so they run once for a statement. */
function expiryConditions({ expiry }: Declaration, resolve: Columns): Pick<Table, 'own' | 'expired'> {
  if (expiry === undefined) return { own: sql`true`, expired: sql`false` }
  const { field, afterMs } = expiry
  const at = sql`now() - make_interval(secs => ${afterMs / 1_000}::double precision)`
  if (field === CREATED_AT) {
    const bound = sql`(select ${at})`
    return { own: sql`created_at > ${bound}`, expired: sql`created_at <= ${bound}` }
  }
  const text = sql`to_char((${at}) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
  const bound = sql`(select tenon.canonical('date-time', ${text}))`
  const { sql: value } = resolve([field], 'date-time')
  return { own: sql`(${value} > ${bound}) is not false`, expired: sql`${value} <= ${bound}` }
}

/** The columns of the row that a trigger is called for. */
export function newRowOf({ columns, mode }: Pick<Declaration, 'columns' | 'mode'>): Columns {
  const all = columns.map((column) => ({ ...column, sql: sql`new.${Sql.identifier(column.column)}` }))
  const isCanonical = ({ canonical }: TableColumn) => canonical !== undefined
  const written = all.filter((column) => !isCanonical(column))
  return resolver(written, all.filter(isCanonical), sql`new.extra`, mode === 'enforce')
}

/** PostgreSQL takes a hundred arguments. */
const MEMBERS_AT_ONCE = 50

/** These columns, and the fields that have none, as one jsonb. */
export const documentWith = (columns: readonly TableColumn[], rest: Sql): Sql =>
  [rest, ...membersOf(columns)].reduce((all, members) => sql`${all} || ${members}`)

/** The columns as jsonb, without nulls. Nulls inside of a jsonb value stay, so such a column is built by itself. */
function membersOf(columns: readonly TableColumn[]): Sql[] {
  const members = ({ property, sql: column }: TableColumn) => sql`${property}::text, ${column}`
  const flat = columns.filter(({ type }) => type !== 'jsonb')
  const pieces: Sql[] = []
  for (let at = 0; at < flat.length; at += MEMBERS_AT_ONCE) {
    const some = commas(flat.slice(at, at + MEMBERS_AT_ONCE).map(members))
    pieces.push(sql`jsonb_strip_nulls(jsonb_build_object(${some}))`)
  }
  for (const column of columns.filter(({ type }) => type === 'jsonb'))
    pieces.push(
      sql`case when ${column.sql} is null then '{}' else jsonb_build_object(${members(column)}) end`,
    )
  return pieces
}

/**
 * Maps a path to the expression of its value. Without enforcement a value may be of another type than its column and then
 * stands in the rest, so both are read, at the price of the column's index.
 */
function resolver(
  columns: readonly TableColumn[],
  compared: readonly TableColumn[],
  rest: Sql,
  enforced: boolean,
): Columns {
  const declared = new Map(columns.map((column) => [column.property, declaredAt(column, rest, enforced)]))
  const written = (path: Path): Column => {
    const [name, ...below] = path
    const systemField =
      below.length === 0 && Object.hasOwn(SYSTEM_FIELDS, name) ? SYSTEM_FIELDS[name] : undefined
    if (systemField !== undefined) return systemField
    const column = declared.get(name)
    if (column === undefined) return { sql: within(rest, path), type: 'jsonb' }
    if (below.length === 0) return column
    // A typed value has no members; values that do not fit their column stand in the rest.
    return { sql: column.type === 'jsonb' ? within(column.sql, below) : within(rest, path), type: 'jsonb' }
  }
  return (path, as) => {
    if (as === undefined) return written(path)
    const column = compared.find(
      ({ property, canonical }) => property === path[0] && canonical?.format === as,
    )
    if (column === undefined) return computedCanonical(written(path), as)
    // Its declaration is enforced, as that of each collection with references.
    if (column.canonical?.isReference) return { sql: column.sql, type: 'uuid', nullable: true }
    // If the schema is enforced, every text is of the format.
    return { sql: column.sql, type: 'text', ...(!enforced && { written: written(path) }) }
  }
}

function declaredAt({ property, sql: column, type }: TableColumn, rest: Sql, enforced: boolean): Column {
  const other = within(rest, [property])
  if (enforced && type !== 'jsonb') return { sql: column, type, orIn: other }
  return { sql: sql`coalesce(${other}, to_jsonb(${column}))`, type: 'jsonb' }
}

/** The canonical text computed per row, for fields that have no column to compare by. */
function computedCanonical(written: Column, format: Format): Column {
  const { sql: value, type } = written
  const text =
    type === 'text' ? value : sql`case jsonb_typeof(${value}) when 'string' then ${value} #>> '{}' end`
  return {
    sql: sql`(tenon.canonical(${format}, ${text}) collate "C")`,
    type: 'text',
    computed: true,
    written,
  }
}

const FITS: Readonly<Record<TableColumn['type'], (value: unknown) => boolean>> = {
  text: (value) => typeof value === 'string',
  bigint: Number.isSafeInteger,
  'double precision': (value) => typeof value === 'number',
  boolean: (value) => typeof value === 'boolean',
  jsonb: (value) => value !== null,
}

/** `typed`: values by column, null if absent. `rest`: the other fields, and values that their column cannot hold. */
export function split(table: Table, fields: Fields): { typed: Fields; rest: Fields } {
  if (table.columns.length === 0) return { typed: {}, rest: fields }
  const typed: Fields = {}
  const rest: [string, unknown][] = []
  for (const entry of Object.entries(fields)) {
    const [name, value] = entry
    const column = table.columnOf.get(name)
    const fits = column !== undefined && FITS[column.type](value)
    if (column !== undefined) typed[column.column] = fits ? value : null
    if (!fits) rest.push(entry)
  }
  return { typed, rest: Object.fromEntries(rest) }
}

/** A row as `Table.row` names it. */
export interface TableRow extends Omit<Stored, 'fields'> {
  readonly extra: Fields
  readonly [column: string]: unknown
}

export function toStored(table: Table, row: TableRow): Stored {
  const { id, version, created_at, updated_at, owner, extra } = row
  const { similarity, distance, score } = row
  const system = {
    id,
    version,
    created_at,
    updated_at,
    owner,
    ...(similarity !== undefined && { similarity }),
    ...(distance !== undefined && { distance }),
    ...(score !== undefined && { score }),
  }
  if (table.columns.length === 0) return { ...system, fields: extra }
  const entries: [string, unknown][] = []
  for (const { property, column } of table.columns)
    if (row[column] !== null) entries.push([property, row[column]])
  for (const entry of Object.entries(extra)) entries.push(entry)
  const fields = Object.fromEntries(entries)
  return { ...system, fields }
}
