/**
 * Creates, changes and drops the tables of declared collections, in the transaction that inserts, changes or deletes the row of
 * `tenon.schemas`, as the role that owns these tables. No text of a user becomes an identifier: tables are named after the id of
 * the declaration, columns and indexes are numbered, and the values in rules are quoted literals.
 *
 * `tenon.require_isolation` (collection-tables.sql) refuses to commit a declaration unless its table has forced row-level security,
 * policies of its workspace alone, and the constraint that binds its rows to the workspace.
 */

import { canonical } from '../../../core/json.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import type { Statements } from '../../../infra/postgres/database.ts'
import { commas, Sql, sql } from '../../../infra/postgres/sql.ts'
import type { DeclaredExclusion } from '../constraints/constraint.ts'
import type { Index } from '../schemas/api-types.ts'
import type { TableColumn } from '../schemas/columns.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import { comparedText } from './compile.ts'
import { operatorClassOf } from './search.ts'
import {
  addChecks,
  addExclusion,
  conditionOf,
  dropChecks,
  dropExclusion,
  foreignKeyName,
} from './table-constraints.ts'
import { dropPolicies, platformPolicies, type RowConditions, setPolicies } from './table-policies.ts'

/** The part of a declaration that its table depends on. */
export interface TableDeclaration {
  readonly id: string
  /** The name of the table in `tenon_data`. */
  readonly relation: string
  readonly columns: readonly TableColumn[]
  readonly indexes: readonly Index[]
  readonly foreignKeys: readonly ForeignKey[]
  readonly checks: readonly unknown[]
  readonly exclusions: readonly DeclaredExclusion[]
}

/** A declaration that its table gets, with all that conditions are compiled from. */
interface NewTable extends TableDeclaration {
  readonly conditions: RowConditions
  readonly declared: Declaration
}

/** A column of ids, and the name of the table whose documents have them. */
export interface ForeignKey {
  readonly column: string
  readonly relation: string
}

type NamedTable = Pick<TableDeclaration, 'id' | 'relation'>

export const tableName = ({ relation }: Pick<TableDeclaration, 'relation'>): Sql =>
  sql`tenon_data.${Sql.identifier(relation)}`

/** The table as an argument of a procedure. */
export const regclass = ({ relation }: Pick<TableDeclaration, 'relation'>): Sql =>
  sql`${`tenon_data.${relation}`}::text::regclass`

/**
 * Creates the table of a declaration that the transaction has inserted.
 * @param tables the scope of `openTables` in the workspace
 * @example
 * await createCollectionTable(tables, ref, { id, relation: id, columns, indexes, conditions })
 */
export async function createCollectionTable(
  tables: Statements,
  ref: WorkspaceRef,
  declared: NewTable,
): Promise<void> {
  const { tenantId, workspaceId } = ref
  const uncounted = await unlimitedQuotas(tables)
  const table = regclass(declared)
  await tables.batch(
    createTable(declared, ref),
    sql`alter table ${tableName(declared)} enable row level security, force row level security`,
    ...platformPolicies(tableName(declared), ref),
    sql`grant select, insert, update, delete on ${tableName(declared)} to tenon_service`,
    sql`grant select on ${tableName(declared)} to tenon_owner`,
    ...setPolicies(tableName(declared), { ...declared, ref }),
    ...declared.indexes.map((index) => createIndex(declared, index, declared.declared)),
    ...declared.foreignKeys.map((key) => addForeignKey(declared, key)),
    ...addExclusions(declared, declared.exclusions, declared.declared),
    ...addChecks(tableName(declared), declared.declared),
    sql`call tenon.add_byte_quota(${table}, ${tenantId}, ${workspaceId})`,
    sql`call tenon.add_row_quota('documents', ${table}, null, ${tenantId}, ${workspaceId})`,
    ...uncounted.map((quota) => sql`call tenon.switch_counting(${table}, ${quota}, 'disable')`),
  )
}

/** The check constraint binds the table to its workspace even for roles without policies. */
function createTable(declared: TableDeclaration, { tenantId, workspaceId }: WorkspaceRef): Sql {
  const columns = [
    sql`tenant_id text not null default tenon.tenant()`,
    sql`workspace_id text not null default tenon.workspace()`,
    sql`id uuid not null`,
    ...declared.columns.map(columnDefinition),
    ...searchedBy(declared).map(searchColumn),
    sql`extra jsonb not null default '{}'`,
    sql`version bigint not null default 1`,
    sql`created_at timestamptz(3) not null default now()`,
    sql`updated_at timestamptz(3) not null default now()`,
    // Only imports by service keys name it; users and anon keys have no right to.
    sql`owner text collate "C" default tenon.caller() ->> 'id'`,
    sql`check (tenant_id = ${tenantId} and workspace_id = ${workspaceId})`,
    sql`primary key (id)`,
  ]
  return sql`create table ${tableName(declared)} (${commas(columns)})`.withLiterals()
}

/** Types with leakproof comparisons, which PostgreSQL may evaluate before the conditions of policies; jsonb has no index. */
const TYPES: Readonly<Record<TableColumn['type'], Sql>> = {
  text: sql`text collate "C"`,
  bigint: sql`bigint`,
  'double precision': sql`double precision`,
  boolean: sql`boolean`,
  jsonb: sql`jsonb`,
}

/** A column of canonical texts is generated from the column of the texts; it serves filters, orders and indexes. */
function columnDefinition({ column, type, canonical: generated }: TableColumn): Sql {
  const definition = sql`${Sql.identifier(column)} ${TYPES[type]}`
  if (generated === undefined) return definition
  const { format, of, isReference } = generated
  const text = sql`tenon.canonical(${format}, ${Sql.identifier(of)})`
  return isReference
    ? sql`${Sql.identifier(column)} uuid generated always as (${text}::uuid) stored`
    : sql`${definition} generated always as (${text}) stored`
}

/** PostgreSQL checks it as the owner of the tables, so that what the caller may not read counts as well. */
const addForeignKey = (
  declared: Pick<TableDeclaration, 'id' | 'relation'>,
  { column, relation }: ForeignKey,
) =>
  sql`alter table ${tableName(declared)} add constraint ${Sql.identifier(foreignKeyName(declared, column))}
    foreign key (${Sql.identifier(column)}) references ${tableName({ relation })} (id) not valid`

const dropForeignKey = (declared: Pick<TableDeclaration, 'id' | 'relation'>, { column }: ForeignKey) =>
  sql`alter table ${tableName(declared)} drop constraint if exists ${Sql.identifier(foreignKeyName(declared, column))}`

/** The statements that add the foreign keys of a table that has its documents already. */
export const restoreForeignKeys = (
  declared: Pick<TableDeclaration, 'id' | 'relation'>,
  keys: readonly ForeignKey[],
): Sql[] => keys.flatMap((key) => [dropForeignKey(declared, key), addForeignKey(declared, key)])

type WithKeys<K extends ForeignKey> = { readonly foreignKeys: readonly K[] }

/** The foreign keys of one declaration that another has not. Dropping and adding one locks the table that it leads to. */
export const keysWithout = <K extends ForeignKey>(one: WithKeys<K>, other: WithKeys<ForeignKey>): K[] =>
  one.foreignKeys.filter(
    (key) => !other.foreignKeys.some((its) => its.column === key.column && its.relation === key.relation),
  )

/**
 * The table belongs to one workspace, so its indexes do not begin with tenant and workspace. An index that is not unique ends with
 * the id, so that pages have a total order.
 */
function createIndex(table: NamedTable, index: Index, declared: Declaration): Sql {
  const kind = index.unique ? sql`unique index` : sql`index`
  return sql`create ${kind} ${indexOn(table, index, declared)}`.withLiterals()
}

/** The statement that builds an index of a table in use, outside of a transaction. */
export function createIndexOnline(declared: Declaration, index: Index): Sql {
  const kind = index.unique ? sql`unique index` : sql`index`
  return sql`create ${kind} concurrently if not exists ${indexOn(declared, index, declared)}`.withLiterals()
}

function indexOn(table: NamedTable, index: Index, declared: Declaration): Sql {
  const { name, unique, where, kind } = index
  const at = sql`${indexName(table, name)} on ${tableName(table)}`
  if (kind === 'text') return sql`${at} using gin (search ${operatorClassOf('text', index)})`
  const [text = sql``] = keyColumns(index)
  if (kind === 'array') return sql`${at} using gin (${text} ${operatorClassOf('array', index)})`
  if (kind === 'trigram') {
    return sql`${at} using gist ((${comparedText(text, index)}) ${operatorClassOf('trigram', index)} (siglen = 64))`
  }
  const keys = [...keyColumns(index), ...(unique ? [] : [sql`id`])]
  const condition = where === undefined ? sql`` : sql` where ${conditionOf(where, declared)}`
  return sql`${at} (${commas(keys)})${condition}`
}

const searchedBy = ({ indexes }: Pick<TableDeclaration, 'indexes'>) =>
  indexes.filter(({ kind }) => kind === 'text')

/** The words of a document with their weights. It is no column of a field: nothing reads it but the condition and the score of a search. */
function searchColumn({ columns, weights = [], language }: Index): Sql {
  const parts = columns.map((column, at) => {
    const words = sql`to_tsvector(${`pg_catalog.${language}`}::regconfig, coalesce(${Sql.identifier(column)}, ''))`
    return sql`setweight(${words}, ${weights[at] ?? 'D'})`
  })
  return sql`search tsvector generated always as (${parts.reduce((all, part) => sql`${all} || ${part}`)}) stored`
}

/** The columns of the fields of an index. */
export const keyColumns = ({ fields, columns }: Pick<Index, 'fields' | 'columns'>): Sql[] =>
  columns.slice(0, fields.length).map((column) => Sql.identifier(column))

/** The statements that add exclusions to a table. */
export const addExclusions = (
  { id, relation }: NamedTable,
  exclusions: readonly DeclaredExclusion[],
  declared: Declaration,
): Sql[] => exclusions.map((one) => addExclusion({ id, table: tableName({ relation }) }, one, declared))

/** Those of some parts of a declaration that another one has not. */
export const partsWithout = <T>(one: readonly T[], other: readonly T[]): T[] =>
  one.filter((own) => !other.some((its) => canonical(its) === canonical(own)))

/** The exclusions of one declaration that another has not. */
export const exclusionsWithout = (
  one: Pick<TableDeclaration, 'exclusions'>,
  other: Pick<TableDeclaration, 'exclusions'>,
): DeclaredExclusion[] => partsWithout(one.exclusions, other.exclusions)

const indexName = ({ id }: Pick<TableDeclaration, 'id'>, name: string): Sql => Sql.identifier(`${id}_${name}`)

/** How fields of all documents change beside their columns, in the same versions. */
export interface FieldChange {
  /** New names by former ones. Columns have the new names already. */
  readonly renames: ReadonlyMap<string, string>
  /** Values of fields, for documents that lack them. */
  readonly values: ReadonlyMap<string, unknown>
}

const UNCHANGED: FieldChange = { renames: new Map(), values: new Map() }

/** Renames fields in `extra`: all of them, and of others the nulls and what does not fit the column. */
const renameInRest = (name: Sql, { renames }: FieldChange): Sql[] =>
  [...renames].map(
    ([
      from,
      to,
    ]) => sql`update ${name} set extra = extra - ${from}::text || jsonb_build_object(${to}::text, extra -> ${from}::text)
      where extra ? ${from}::text`,
  )

/** Gives values to documents without them: in `extra`, from where those of new columns are moved. */
const fillRest = (name: Sql, before: readonly TableColumn[], { values }: FieldChange): Sql[] =>
  [...values].map(([property, value]) => {
    const column = before.find((one) => one.property === property)
    const lacks = column === undefined ? sql`` : sql` and ${Sql.identifier(column.column)} is null`
    return sql`update ${name} set extra = extra || jsonb_build_object(${property}::text, ${JSON.stringify(value)}::jsonb)
      where not extra ? ${property}::text${lacks}`
  })

/** Moves these values to columns that were there before. */
const fillColumns = (
  name: Sql,
  { before, after }: Readonly<Record<'before' | 'after', readonly TableColumn[]>>,
  { values }: FieldChange,
): Sql[] =>
  after
    .filter(
      (column) => column.canonical === undefined && values.has(column.property) && includes(before, column),
    )
    .map((column) => moveToColumn(name, column))

/**
 * Alters a table to the columns, indexes and policies of a new declaration, moves values between columns and `extra`, and
 * renames it, so that writers with the former declaration find no table.
 * @param before the declaration as it is, whose row the transaction has locked
 * @returns the new indexes: `ready` if the collection has no documents, else `building`. New exclusions are added afterwards
 */
export async function changeCollectionTable(
  tables: Statements,
  before: TableDeclaration,
  after: NewTable & { readonly ref: WorkspaceRef },
  fields: FieldChange = UNCHANGED,
): Promise<Index[]> {
  const name = tableName(before)
  // Row-level security applies to the owner too. The table is locked, so no other transaction sees it without.
  const [, , [filled] = []] = await tables.batch(
    sql`lock table ${name} in access exclusive mode`,
    sql`alter table ${name} no force row level security`,
    sql`select from ${name} limit 1`,
  )
  const isFilled = filled !== undefined
  const indexes = after.indexes.map((index) => ({
    ...index,
    ...(isNewIndex(before, index) && { state: isFilled ? ('building' as const) : ('ready' as const) }),
  }))
  const created = isFilled ? [] : after.indexes.filter((index) => isNewIndex(before, index))
  const at = { ...after, relation: before.relation }
  const isWritten = fields.renames.size > 0 || fields.values.size > 0
  await countingBytes(tables, { before, after, isWritten }, () =>
    tables.batch(
      ...dropPolicies(name),
      ...dropChecks(name, before.checks.length),
      ...exclusionsWithout(before, after).map((one) => dropExclusion({ id: before.id, table: name }, one)),
      ...keysWithout(before, after).map((key) => dropForeignKey(before, key)),
      ...before.indexes
        .filter((index) => isNewIndex(after, index))
        .map((index) => sql`drop index if exists tenon_data.${indexName(before, index.name)}`),
      ...searchedBy(before)
        .filter((index) => isNewIndex(after, index))
        .map(() => sql`alter table ${name} drop column search`),
      ...renameInRest(name, fields),
      ...fillRest(name, before.columns, fields),
      ...changeColumns(name, before.columns, after.columns),
      ...fillColumns(name, { before: before.columns, after: after.columns }, fields),
      ...searchedBy(after)
        .filter((index) => isNewIndex(before, index))
        .map((index) => sql`alter table ${name} add column ${searchColumn(index)}`.withLiterals()),
      ...created.map((index) => createIndex(at, index, after.declared)),
      ...keysWithout(after, before).map((key) => addForeignKey(at, key)),
      ...platformPolicies(name, after.ref),
      ...setPolicies(name, after),
      ...addChecks(name, after.declared),
      sql`alter table ${name} force row level security`,
    ),
  )
  await tables.batch(sql`alter table ${name} rename to ${Sql.identifier(after.relation)}`)
  return indexes
}

/** True if the declaration has no such index; the state of its build does not matter. */
export const isNewIndex = ({ indexes }: Pick<TableDeclaration, 'indexes'>, index: Index): boolean =>
  !indexes.some((other) => definitionOf(other) === definitionOf(index))

/** The declared part of an index, as text. */
export const definitionOf = ({ state: _state, reason: _reason, ...index }: Index): string => canonical(index)

/** A generated column is dropped before its source, and added after it. */
function changeColumns(name: Sql, before: readonly TableColumn[], after: readonly TableColumn[]): Sql[] {
  const added = after.filter((column) => !includes(before, column))
  const dropped = before.filter((column) => !includes(after, column))
  const isGenerated = ({ canonical: generated }: TableColumn) => generated !== undefined
  const drop = (column: TableColumn) => sql`alter table ${name} drop column ${Sql.identifier(column.column)}`
  const add = (column: TableColumn) =>
    sql`alter table ${name} add column ${columnDefinition(column)}`.withLiterals()
  return [
    ...dropped.filter(isGenerated).map(drop),
    ...dropped
      .filter((column) => !isGenerated(column))
      .flatMap((column) => [moveToRest(name, column), drop(column)]),
    ...added
      .filter((column) => !isGenerated(column))
      .flatMap((column) => [add(column), moveToColumn(name, column)]),
    ...added.filter(isGenerated).map(add),
  ]
}

const includes = (columns: readonly TableColumn[], column: TableColumn): boolean =>
  columns.some((other) => canonical(other) === canonical(column))

/** Moves the values of a column that is dropped back into `extra`. */
function moveToRest(name: Sql, { property, column }: TableColumn): Sql {
  const value = Sql.identifier(column)
  return sql`update ${name} set extra = extra || jsonb_build_object(${property}::text, to_jsonb(${value}))
    where ${value} is not null`
}

/** Moves the values of a property from `extra` to its column if they have its type; null stays. */
function moveToColumn(name: Sql, { property, column, type }: TableColumn): Sql {
  const value = sql`extra -> ${property}::text`
  const { converted, fits } = conversion(type, property, value)
  return sql`update ${name} set ${Sql.identifier(column)} = ${converted}, extra = extra - ${property}::text where ${fits}`
}

/** How a value of `extra` becomes one of the column type, and whether it is one. */
function conversion(type: TableColumn['type'], property: string, value: Sql): { converted: Sql; fits: Sql } {
  const kind = sql`jsonb_typeof(${value})`
  switch (type) {
    case 'text':
      return { converted: sql`extra ->> ${property}::text`, fits: sql`${kind} = 'string'` }
    case 'boolean':
      return { converted: sql`(${value})::boolean`, fits: sql`${kind} = 'boolean'` }
    case 'double precision':
      return { converted: sql`(${value})::double precision`, fits: sql`${kind} = 'number'` }
    case 'bigint': {
      const number = sql`(${value})::numeric`
      return {
        converted: sql`${number}::bigint`,
        fits: sql`case ${kind} when 'number' then ${number} = trunc(${number}) and abs(${number}) <= 9007199254740991
          else false end`,
      }
    }
    case 'jsonb':
      return { converted: value, fits: sql`${kind} <> 'null'` }
  }
}

/**
 * Counts the bytes of the table before and after its columns change, since that changes the size of documents without writing
 * them. Documents stay even if they now exceed the quota.
 */
async function countingBytes(
  tables: Statements,
  {
    before,
    after,
    isWritten,
  }: { readonly before: TableDeclaration; readonly after: TableDeclaration; readonly isWritten: boolean },
  alter: () => Promise<unknown>,
): Promise<void> {
  const isUncounted =
    (!isWritten && canonical(before.columns) === canonical(after.columns)) ||
    (await unlimitedQuotas(tables)).includes('document_bytes')
  if (isUncounted) {
    await alter()
    return
  }
  const table = regclass(before)
  const bytes = sql`tenon.total_bytes(tenon.tenant(), tenon.workspace(), ${table})`
  const [, [counted] = []] = await tables.batch(
    sql`call tenon.switch_counting(${table}, 'document_bytes', 'disable')`,
    sql`select ${bytes} as bytes`,
  )
  await alter()
  await tables.batch(
    sql`update quotas set used = used + ${bytes} - ${Number(counted?.['bytes'])} where name = 'document_bytes'`,
    sql`call tenon.switch_counting(${table}, 'document_bytes', 'enable')`,
  )
}

const DOCUMENT_QUOTAS = ['document_bytes', 'documents']

/**
 * The quotas of documents that the workspace has not, so that no trigger need count them. A transaction that sets one waits for
 * this one, and then sees the table.
 */
export async function unlimitedQuotas(tables: Statements): Promise<string[]> {
  const locks = DOCUMENT_QUOTAS.map(
    (name) =>
      sql`select pg_advisory_xact_lock_shared(tenon.quota_lock(tenon.tenant(), tenon.workspace(), ${name}))`,
  )
  const rows = await tables.batch(...locks, sql`select name from quotas`)
  const limited = rows.at(-1)?.map(({ name }) => name)
  return DOCUMENT_QUOTAS.filter((name) => !limited?.includes(name))
}

/**
 * Moves the documents of a collection that was not declared into its table, which has no columns of its own. They keep ids, versions
 * and times, and count as before. The caller has excluded those who create some.
 */
export async function adoptDocuments(
  tables: Statements,
  declared: Pick<TableDeclaration, 'id' | 'relation'>,
  collection: string,
): Promise<void> {
  const [name, table] = [tableName(declared), regclass(declared)]
  const unlimited = await unlimitedQuotas(tables)
  const limited = DOCUMENT_QUOTAS.filter((quota) => !unlimited.includes(quota))
  const counts: Readonly<Record<string, Sql>> = {
    documents: sql`(select count(*) from ${name})`,
    document_bytes: sql`tenon.total_bytes(tenon.tenant(), tenon.workspace(), ${table})`,
  }
  await tables.batch(
    // Row-level security applies to the owner too. No other transaction sees the table before this one ends.
    sql`alter table ${name} no force row level security`,
    ...limited.map((quota) => sql`call tenon.switch_counting(${table}, ${quota}, 'disable')`),
    // One statement: a document that is updated or deleted meanwhile moves as it is then, or not at all.
    sql`with moved as (delete from documents where collection = ${collection} returning id, data, version, created_at, updated_at)
      insert into ${name} (id, extra, version, created_at, updated_at) select id, data, version, created_at, updated_at from moved`,
    ...limited.flatMap((quota) => [
      sql`update quotas set used = used + ${counts[quota] ?? sql`0`} where name = ${quota}`,
      sql`call tenon.switch_counting(${table}, ${quota}, 'enable')`,
    ]),
    sql`alter table ${name} force row level security`,
  )
}

/**
 * Moves the documents back, and drops the table and its declaration, which the caller has locked: the opposite of {@link adoptDocuments},
 * as long as the declaration has no columns.
 */
export async function returnDocuments(
  tables: Statements,
  declared: Pick<TableDeclaration, 'id' | 'relation'>,
  collection: string,
): Promise<void> {
  const [name, table] = [tableName(declared), regclass(declared)]
  await tables.batch(
    sql`alter table ${name} no force row level security`,
    // Both are counted while they are in two tables.
    sql`update quotas set used = used - (select count(*) from ${name}) where name = 'documents'`,
    sql`update quotas set used = used - tenon.total_bytes(tenon.tenant(), tenon.workspace(), ${table}) where name = 'document_bytes'`,
    sql`delete from schemas where id = ${declared.id}`,
    sql`insert into documents (collection, id, data, version, created_at, updated_at)
      select ${collection}, id, extra, version, created_at, updated_at from ${name}`,
    sql`delete from quota_sources where relation = ${table}`,
    sql`drop table ${name}`,
  )
}
