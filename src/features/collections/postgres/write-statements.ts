/** Builds the statements that change documents. Each one also writes a row of the outbox. */

import { LRUCache } from 'lru-cache'
import { commas, Sql, type StatementKind, sql, textArray } from '../../../infra/postgres/sql.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import type { Readers } from '../rules/access.ts'
import type { Change, Create } from '../store.ts'
import { CASTS } from './compile.ts'
import { split, type Table, type TableColumn } from './table.ts'

type Verb = 'created' | 'updated' | 'deleted'

/** The columns that a statement returns. */
const returned = ({ oneOfMany }: StatementPurpose): Sql =>
  oneOfMany ? sql`written.id, written.version` : sql`written.*`

/** Inserts and returns new rows; skips rows whose id exists, which `withExisting` in store.ts reads afterwards. */
export function createStatement(table: Table, purpose: StatementPurpose, creates: readonly Create[]): Sql {
  const [only, ...more] = creates
  const { oneOfMany } = purpose
  const namesOwners = creates.some(({ owner }) => owner !== undefined)
  if (only !== undefined && more.length === 0 && !namesOwners) {
    const row = newRow(table, purpose, only)
    const single = insertOne(table, row)
    return oneOfMany ? single : withKind(single, row, statementKind(table, 'create', insertBatch(table)))
  }
  const rows = creates.map(({ id, content, owner }) => {
    const { typed, rest } = split(table, content.fields)
    return rowJson({ purpose, id, typed, rest: JSON.stringify(rest), ...(owner !== undefined && { owner }) })
  })
  const params = { purpose, rows: `[${rows.join()}]` }
  return insertItems(table, params, eventsOf(documentOf(table)), namesOwners)
}

/** PostgreSQL returns ids in lower case. */
const withKind = (single: Sql, item: StatementParams, kind: StatementKind<StatementParams>): Sql =>
  single.as({ kind: kind as StatementKind, key: (item.id ?? '').toLowerCase(), item })

function insertOne(table: Table, params: StatementParams): Sql {
  const source = ownValues(params)
  const written = sql`${insertInto(table, sql`values (${rowOf(table, source)})`)} ${skipExisting(table)}`
  const event = sql`select id, version, owner, ${source.text} as document, null::json as deleted from written`
  return sql`with written as (${written}), event as (${outboxRow(params, 'created', event)})
    select ${returned(params.purpose)} from written`
}

/** Inserts the rows of several callers; each event has the text that its caller sent. */
const insertBatch = (table: Table) => (params: StatementParams) =>
  insertItems(
    table,
    params,
    sql`select id, version, owner, ${BATCH_PARAMS.text} as document, null::json as deleted
      from written join items on given_id = id`,
  )

function insertItems(table: Table, params: StatementParams, events: Sql, namesOwners = false): Sql {
  const values = rowOf(table, BATCH_PARAMS)
  const insert = namesOwners
    ? insertOwned(table, sql`select ${values}, given_owner from items`)
    : insertInto(table, sql`select ${values} from items`)
  const written = sql`${insert} ${skipExisting(table)}`
  return sql`with ${itemsOf(params)}, written as (${written}), event as (${outboxRow(params, 'created', events)})
    select ${returned(params.purpose)}, id as given_id from written`
}

const skipExisting = (table: Table): Sql => sql`on conflict (${table.key}) do nothing returning ${table.row}`

/** For callers that may not read what they create: returns nothing, and fails if the id exists. */
export function blindCreateStatement(table: Table, purpose: StatementPurpose, create: Create): Sql {
  const params = newRow(table, purpose, create)
  const source = ownValues(params)
  const event = sql`select ${source.id} as id, 1 as version, tenon.caller() ->> 'id' as owner, ${source.text} as document,
    null::json as deleted`
  return sql`with event as (${outboxRow(params, 'created', event)})
    ${insertInto(table, sql`values (${rowOf(table, source)})`)}`
}

function newRow(table: Table, purpose: StatementPurpose, { id, content }: Create): StatementParams {
  const { typed, rest } = split(table, content.fields)
  return { purpose, id, typed, rest: JSON.stringify(rest), text: content.text }
}

const insertInto = (table: Table, rows: Sql): Sql =>
  sql`insert into ${table.name} (${namesOf(table)}) ${rows}`

/** The roles of users and anon keys have no right to name the owner. */
const insertOwned = (table: Table, rows: Sql): Sql =>
  sql`insert into ${table.name} (${namesOf(table)}, owner) ${rows}`

const namesOf = (table: Table): Sql =>
  sql`${table.stamp.names}id, ${commas([...table.columns.map((column) => column.sql), table.rest])}`

const rowOf = (table: Table, { id, rest, value }: Source): Sql =>
  sql`${table.stamp.values}${id}, ${commas([...table.columns.map(value), rest])}`

/**
 * Changes an existing row. If it cannot be changed, the returned row has no id, and `current` is its version and size;
 * null if there is no such row.
 */
export function changeStatement(
  table: Table,
  purpose: StatementPurpose,
  change: Exclude<Change, Create>,
): Sql {
  const { verb, id, ifVersions } = change
  const { oneOfMany } = purpose
  const versions = ifVersions === undefined ? null : JSON.stringify(ifVersions)
  const unwritten = { purpose, id, versions }
  if (verb === 'delete') return deleteOne(table, unwritten)
  const { typed, rest } = split(table, change.content.fields)
  if (verb === 'replace') {
    const written = { purpose, id, versions, typed, rest: JSON.stringify(rest) }
    return updateOne(table, written, setAll(table))
  }
  const named = new Set([...Object.keys(change.content.fields), ...change.unset])
  if (named.size === 0) return readOne(table, unwritten)
  const columns = table.columns.filter(({ property }) => named.has(property))
  const shape = columns.map(({ column }) => column).join(' ')
  const sets = setNamed(table, columns)
  const row = { purpose, id, versions, typed, rest: JSON.stringify(rest), names: textArray([...named]) }
  const single = updateOne(table, row, sets)
  return oneOfMany
    ? single
    : withKind(single, row, statementKind(table, `update ${shape}`, updateBatch(table, sets)))
}

const isRow = (table: Table, { id }: Source): Sql => sql`${table.own} and id = ${id}`

/** True for the versions that the caller accepts. */
const atVersions = ({ versions }: Source): Sql =>
  sql`(${versions} is null or ${versions} @> to_jsonb(version))`

function deleteOne(table: Table, params: StatementParams): Sql {
  const source = ownValues(params)
  const here = isRow(table, source)
  const { keepsDeleted } = params.purpose
  const row = keepsDeleted ? table.row : sql`id, version, owner`
  const written = sql`delete from ${table.name} where ${here} and ${atVersions(source)} returning ${row}`
  const deleted = keepsDeleted ? documentOf(table) : sql`null::json`
  const event = outboxRow(
    params,
    'deleted',
    sql`select id, version, owner, null::json as document, ${deleted} as deleted from written`,
  )
  return reported(params, currentOf(table, here), written, event)
}

/**
 * Reads the row without changing it, so it writes nothing to the outbox. Locked as by an update, so that the row still is at
 * its version when the other changes of the transaction are committed.
 */
function readOne(table: Table, params: StatementParams): Sql {
  const source = ownValues(params)
  const here = isRow(table, source)
  const written = sql`select ${table.row} from ${table.name} where ${here} and ${atVersions(source)} for no key update`
  return reported(params, currentOf(table, here), written)
}

function updateOne(table: Table, params: StatementParams, makeSets: MakeSets): Sql {
  const source = ownValues(params)
  const { written, current } = updateOf(table, source, makeSets(source), sql``)
  const event = outboxRow(params, 'updated', changesOf(table))
  return reported(params, current, written, event)
}

/** Updates the rows of several callers; returns for each the row, or its current version and size. */
const updateBatch = (table: Table, makeSets: MakeSets) => (params: StatementParams) => {
  const { written, current } = updateOf(table, BATCH_PARAMS, makeSets(BATCH_PARAMS), sql`from items`)
  const event = outboxRow(params, 'updated', changesOf(table))
  return sql`with ${itemsOf(params)}, written as (${written}), event as (${event})
    select given_id, written.*, case when written.id is null then ${current} end as current
    from items left join written on written.id = given_id`
}

/** A row that gets the values that it has keeps its version, and its lock makes other writers see that. */
function updateOf(table: Table, source: Source, { values, bytes }: Sets, from: Sql) {
  const here = isRow(table, source)
  const sets = values.map(([column, value]) => sql`${column} = ${value}`)
  const differences = values.map(([column, value]) => sql`${column} is distinct from ${value}`)
  const differs = sql`(${Sql.joined(differences, ' or ')})`
  const all = commas([
    ...sets,
    sql`version = version + ${differs}::int`,
    sql`updated_at = case when ${differs} then now() else updated_at end`,
  ])
  const written = sql`update ${table.name} set ${all} ${from}
    where ${here} and ${atVersions(source)} and ${bytes} <= ${COLLECTION_LIMITS.documentBytesMax}
    returning ${table.row}, version > old.version as changed`
  return { written, current: currentOf(table, here, bytes) }
}

/** Reads the current version if the change cannot be made. @param bytes the size that the document would have */
const currentOf = (table: Table, here: Sql, bytes = sql`0`): Sql =>
  sql`(select jsonb_build_object('version', version, 'bytes', ${bytes}) from ${table.name} where ${here})`

/** @param event the outbox row; undefined if nothing is changed */
function reported({ purpose }: StatementParams, current: Sql, written: Sql, event?: Sql): Sql {
  const outbox = event === undefined ? sql`` : sql`, event as (${event})`
  const result = purpose.oneOfMany ? sql`tenon.refuse_change(${current})` : current
  return sql`with written as (${written})${outbox}
    select ${returned(purpose)}, case when written.id is null then ${result} end as current
    from (select 1) one left join written on true`
}

/** The document as the outbox keeps it. */
const documentOf = (table: Table): Sql => sql`(${table.document})::json`

const eventsOf = (document: Sql): Sql =>
  sql`select id, version, owner, ${document} as document, null::json as deleted from written`

/** The updated rows that have a new version. */
const changesOf = (table: Table): Sql => sql`${eventsOf(documentOf(table))} where changed`

/** Inserts a row of the outbox for each row that was written. */
const outboxRow = ({ purpose }: StatementParams, verb: Verb, events: Sql): Sql =>
  sql`insert into tenon.outbox
      (collection, verb, document_id, version, document, deleted, owner, bytes, anon_reads, user_reads)
    select ${purpose.collection}, ${verb}, id, version, document, deleted, owner,
      coalesce(octet_length(coalesce(document, deleted)::text), 0), ${purpose.readers.anon}, ${purpose.readers.user}
    from (${events}) as written_event`

interface Sets {
  /** Columns and their new values. */
  readonly values: readonly (readonly [column: Sql, value: Sql])[]
  /** The size that the document would have. */
  readonly bytes: Sql
}
type MakeSets = (source: Source) => Sets

/** Sets the named columns alone, so that the others cost nothing. */
const setNamed =
  (table: Table, columns: readonly TableColumn[]): MakeSets =>
  ({ names, rest, value }) => {
    const after = sql`((${table.rest} - ${names}) || ${rest})`
    const values = columns.map((column) => [column.sql, value(column)] as const)
    const sizes = table.columns
      .filter(({ type }) => type === 'text' || type === 'jsonb')
      .map((column) => {
        const size = columns.includes(column) ? value(column) : column.sql
        return sql`coalesce(octet_length((${size})::text), 0)`
      })
    const bytes = Sql.joined([sql`octet_length(${after}::text)`, ...sizes], ' + ')
    return { values: [...values, [table.rest, after]], bytes }
  }

/** Sets all columns; the size was checked before. */
const setAll =
  (table: Table): MakeSets =>
  ({ rest, value }) => {
    const values = table.columns.map((column) => [column.sql, value(column)] as const)
    return { values: [...values, [table.rest, rest]], bytes: sql`0` }
  }

/** The context of a statement besides its table. */
export interface StatementPurpose {
  readonly collection: string
  /** The roles that receive the change events of the collection. */
  readonly readers: Readers
  /** True if the event of a deletion has the document, since rules decide who may know of it. */
  readonly keepsDeleted: boolean
  /**
   * One of several changes that are made together or not at all: a change that fails ends the transaction (TN003) instead
   * of being reported as a row, and no documents are returned, since they could exceed the size of a reply.
   */
  readonly oneOfMany: boolean
}

/** The parameters of one statement, as far as it uses them. */
interface StatementParams {
  readonly purpose: StatementPurpose
  readonly id?: string
  /** Values by column. */
  readonly typed?: Readonly<Record<string, unknown>>
  /** JSON of the fields without a column. */
  readonly rest?: string
  /** The document as JSON. */
  readonly text?: string
  /** The names of the fields that are set and unset, as an array. */
  readonly names?: string
  /** The versions that the caller accepts, as JSON; null for any. */
  readonly versions?: string | null
  readonly owner?: string
  /** Parameters of several statements, as JSON: the rows of {@link itemsOf}. */
  readonly rows?: string
}

/** Kinds by table, then by shape: statements are coalesced if their kind is the same value. */
const KINDS = new WeakMap<Table, LRUCache<string, StatementKind<StatementParams>>>()

/** The kind of all statements of a shape; `build` makes one statement of several, which reads them from {@link itemsOf}. */
function statementKind(
  table: Table,
  shape: string,
  build: (params: StatementParams) => Sql,
): StatementKind<StatementParams> {
  const kinds =
    KINDS.get(table) ??
    new LRUCache<string, StatementKind<StatementParams>>({ max: COLLECTION_LIMITS.statementTextsCachedMax })
  KINDS.set(table, kinds)
  const known = kinds.get(shape)
  if (known !== undefined) return known
  const merge: StatementKind<StatementParams>['merge'] = (items) => {
    const [first] = items
    if (first === undefined) throw new TypeError('a merged statement must have parts')
    return build({ purpose: first.purpose, rows: `[${items.map(rowJson).join()}]` })
  }
  const kind = { merge }
  kinds.set(shape, kind)
  return kind
}

/** `rest` and `versions` are JSON already. */
const rowJson = ({ id, typed = {}, rest = 'null', text, names, versions, owner }: StatementParams): string =>
  `${JSON.stringify({ id, typed, text, names, owner }).slice(0, -1)},"rest":${rest},"versions":${versions ?? 'null'}}`

/** The SQL expressions that give a statement the values of a document. */
interface Source {
  readonly id: Sql
  readonly versions: Sql
  readonly rest: Sql
  readonly names: Sql
  readonly text: Sql
  readonly value: (column: TableColumn) => Sql
}

/** From the parameters of one statement; those used in several places are sent once. */
function ownValues(params: StatementParams): Source {
  return {
    id: sql`${Sql.shared(params.id)}::uuid`,
    versions: sql`${Sql.shared(params.versions)}::jsonb`,
    rest: sql`${Sql.shared(params.rest)}::jsonb`,
    names: sql`${Sql.shared(params.names)}::text[]`,
    text: sql`${params.text}::json`,
    value: (column) => columnValue(column, params),
  }
}

/** From the rows of {@link itemsOf}. */
const BATCH_PARAMS: Source = {
  id: sql`given_id`,
  versions: sql`given_versions`,
  rest: sql`given_rest`,
  names: sql`given_names`,
  text: sql`given_text::json`,
  value: (column) => fromJson(sql`given_typed`, column),
}

/**
 * Several documents in one value, so that the text of the statement does not grow with them. The subquery hides their
 * number from the planner, which would make a plan for each number.
 */
const itemsOf = ({ rows }: StatementParams): Sql => sql`items as (
  select (v ->> 'id')::uuid as given_id, nullif(v -> 'versions', 'null') as given_versions, v -> 'typed' as given_typed,
    v -> 'rest' as given_rest, (v ->> 'names')::text[] as given_names, v ->> 'text' as given_text,
    v ->> 'owner' as given_owner
  from jsonb_array_elements((select ${rows}::jsonb)) v)`

/** The value of a column in a jsonb that has the column's own name as key. */
function fromJson(base: Sql, { column, type }: TableColumn): Sql {
  return type === 'jsonb' ? sql`${base} -> ${column}::text` : sql`(${base} ->> ${column}::text)${CASTS[type]}`
}

function columnValue({ column, type }: TableColumn, { typed }: StatementParams): Sql {
  const value = typed?.[column] ?? null
  const sent = value === null || type !== 'jsonb' ? (value as string | null) : JSON.stringify(value)
  return sql`${Sql.shared(sent)}${CASTS[type]}`
}
