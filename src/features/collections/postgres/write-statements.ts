/** Builds the statements that change documents. Each one writes its line of the outbox as well. */

import { LRUCache } from 'lru-cache'
import { LIMITS } from '../../../core/limits.ts'
import { commas, Sql, type StatementKind, sql, textArray } from '../../../infra/postgres/sql.ts'
import type { Change, Create } from '../store.ts'
import { CASTS } from './compile.ts'
import { split, type Table, type TableColumn } from './table.ts'

type Verb = 'created' | 'updated' | 'deleted'

/** The columns that a statement returns. */
const shown = ({ oneOfMany }: StatementPurpose): Sql =>
  oneOfMany ? sql`written.id, written.version` : sql`written.*`

/** New rows, read back; those whose id is there already are left out. */
export function createStatement(table: Table, purpose: StatementPurpose, creates: readonly Create[]): Sql {
  const [only, ...more] = creates
  const { oneOfMany } = purpose
  if (only !== undefined && more.length === 0) {
    const row = newRow(table, purpose, only)
    const alone = creatingOne(table, row)
    return oneOfMany ? alone : withKind(alone, row, statementKind(table, 'create', creatingGiven(table)))
  }
  const rows = creates.map(({ id, content }) => ({ id, ...split(table, content.fields) }))
  return creatingAll(table, { purpose, rest: JSON.stringify(rows) })
}

/** Ids come back in small letters. */
const withKind = (alone: Sql, item: StatementParams, kind: StatementKind<StatementParams>): Sql =>
  alone.as({ kind: kind as StatementKind, key: (item.id ?? '').toLowerCase(), item })

function creatingOne(table: Table, params: StatementParams): Sql {
  const source = ownValues(params)
  const written = sql`${inserting(table, sql`values (${rowOf(table, source)})`)} ${unlessThere(table)}`
  const line = sql`select id, version, ${source.text} as document from written`
  return sql`with written as (${written}), told as (${tell(params, 'created', line)})
    select ${shown(params.purpose)} from written`
}

/** Of several callers, to each of whom the text is his own. */
const creatingGiven = (table: Table) => (params: StatementParams) => {
  const written = sql`${inserting(table, sql`select ${rowOf(table, BATCH_PARAMS)} from given`)} ${unlessThere(table)}`
  const line = sql`select id, version, ${BATCH_PARAMS.text} as document from written join given on given_id = id`
  return sql`with ${given(params)}, written as (${written}), told as (${tell(params, 'created', line)})
    select written.*, id as given_id from written`
}

/** Of one caller. */
function creatingAll(table: Table, params: StatementParams): Sql {
  const written = sql`${inserting(table, rowsOf(table, params))} ${unlessThere(table)}`
  return sql`with written as (${written}), told as (${tell(params, 'created', linesOf(documentOf(table)))})
    select ${shown(params.purpose)} from written`
}

const unlessThere = (table: Table): Sql => sql`on conflict (${table.key}) do nothing returning ${table.row}`

/** The same for those who may write and not read: nothing comes back, and an id that is there is an error. */
export function blindCreateStatement(table: Table, purpose: StatementPurpose, create: Create): Sql {
  const params = newRow(table, purpose, create)
  const source = ownValues(params)
  const line = sql`select ${source.id} as id, 1 as version, ${source.text} as document`
  return sql`with told as (${tell(params, 'created', line)})
    ${inserting(table, sql`values (${rowOf(table, source)})`)}`
}

function newRow(table: Table, purpose: StatementPurpose, { id, content }: Create): StatementParams {
  const { typed, rest } = split(table, content.fields)
  return { purpose, id, typed, rest: JSON.stringify(rest), text: content.text }
}

function inserting(table: Table, rows: Sql): Sql {
  const names = commas([...table.columns.map((column) => column.sql), table.rest])
  return sql`insert into ${table.name} (${table.stamp.names}id, ${names}) ${rows}`
}

const rowOf = (table: Table, { id, rest, value }: Source): Sql =>
  sql`${table.stamp.values}${id}, ${commas([...table.columns.map(value), rest])}`

/** Several rows in one value, so that the text of the statement does not grow with them. */
function rowsOf(table: Table, { rest }: StatementParams): Sql {
  const values = commas([
    ...table.columns.map((column) => fromJson(sql`(v -> 'typed')`, column)),
    sql`v -> 'rest'`,
  ])
  return sql`select ${table.stamp.values}(v ->> 'id')::uuid, ${values}
    from jsonb_array_elements(${rest}::jsonb) v`
}

/**
 * A change of a row that is there. Where it cannot be made, the one row that comes back has no id and `current` says
 * what is in the way; null where there is nothing.
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
  if (verb === 'delete') return deleting(table, unwritten)
  const { typed, rest } = split(table, change.content.fields)
  if (verb === 'replace') {
    const written = { purpose, id, versions, typed, rest: JSON.stringify(rest) }
    return updating(table, written, replaced(table))
  }
  const named = new Set([...Object.keys(change.content.fields), ...change.unset])
  if (named.size === 0) return reading(table, unwritten)
  const columns = table.columns.filter(({ property }) => named.has(property))
  const shape = columns.map(({ column }) => column).join(' ')
  const sets = changed(table, columns)
  const row = { purpose, id, versions, typed, rest: JSON.stringify(rest), names: textArray([...named]) }
  const alone = updating(table, row, sets)
  return oneOfMany
    ? alone
    : withKind(alone, row, statementKind(table, `update ${shape}`, updatingGiven(table, sets)))
}

const hereIn = (table: Table, { id }: Source): Sql => sql`${table.own} and id = ${id}`

/** On which condition it is changed. */
const atVersions = ({ versions }: Source): Sql =>
  sql`(${versions} is null or ${versions} @> to_jsonb(version))`

function deleting(table: Table, params: StatementParams): Sql {
  const source = ownValues(params)
  const here = hereIn(table, source)
  const written = sql`delete from ${table.name} where ${here} and ${atVersions(source)} returning id, version`
  const told = tell(params, 'deleted', linesOf(sql`null::json`))
  return reported(params, currentOf(table, here), written, told)
}

/** Reads the row without changing it, so it writes no line of the outbox. */
function reading(table: Table, params: StatementParams): Sql {
  const source = ownValues(params)
  const here = hereIn(table, source)
  const written = sql`select ${table.row} from ${table.name} where ${here} and ${atVersions(source)}`
  return reported(params, currentOf(table, here), written)
}

function updating(table: Table, params: StatementParams, made: MakeSets): Sql {
  const source = ownValues(params)
  const { written, current } = updated(table, source, made(source), sql``)
  const told = tell(params, 'updated', linesOf(documentOf(table)))
  return reported(params, current, written, told)
}

/** Of several callers; of each, the row or what is in the way. */
const updatingGiven = (table: Table, made: MakeSets) => (params: StatementParams) => {
  const { written, current } = updated(table, BATCH_PARAMS, made(BATCH_PARAMS), sql`from given`)
  const told = tell(params, 'updated', linesOf(documentOf(table)))
  return sql`with ${given(params)}, written as (${written}), told as (${told})
    select given_id, written.*, case when written.id is null then ${current} end as current
    from given left join written on written.id = given_id`
}

function updated(table: Table, source: Source, { sets, bytes }: Sets, from: Sql) {
  const here = hereIn(table, source)
  const all = commas([...sets, sql`version = version + 1`, sql`updated_at = now()`])
  const written = sql`update ${table.name} set ${all} ${from}
    where ${here} and ${atVersions(source)} and ${bytes} <= ${LIMITS.documentBytesMax}
    returning ${table.row}`
  return { written, current: currentOf(table, here, bytes) }
}

/** Reads the current version if the change cannot be made. @param bytes the size that the document would have */
const currentOf = (table: Table, here: Sql, bytes = sql`0`): Sql =>
  sql`(select jsonb_build_object('version', version, 'bytes', ${bytes}) from ${table.name} where ${here})`

/** @param told undefined if nothing is changed: the outbox gets no line */
function reported({ purpose }: StatementParams, found: Sql, written: Sql, told?: Sql): Sql {
  const line = told === undefined ? sql`` : sql`, told as (${told})`
  const current = purpose.oneOfMany ? sql`tenon.refuse_change(${found})` : found
  return sql`with written as (${written})${line}
    select ${shown(purpose)}, case when written.id is null then ${current} end as current
    from (select 1) one left join written on true`
}

/** The document as the outbox keeps it. */
const documentOf = (table: Table): Sql => sql`(${table.document})::json`

const linesOf = (document: Sql): Sql => sql`select id, version, ${document} as document from written`

/** A line of the outbox for each row that was written. */
const tell = ({ purpose }: StatementParams, verb: Verb, lines: Sql): Sql =>
  sql`insert into tenon.outbox (collection, verb, document_id, version, document, bytes, anon_reads)
    select ${purpose.collection}, ${verb}, id, version, document,
      coalesce(octet_length(document::text), 0), ${purpose.anonReads}
    from (${lines}) as line`

interface Sets {
  readonly sets: readonly Sql[]
  readonly bytes: Sql
}
type MakeSets = (source: Source) => Sets

/** Only the named columns: what is not named costs nothing. */
const changed =
  (table: Table, columns: readonly TableColumn[]): MakeSets =>
  ({ names, rest, value }) => {
    const after = sql`((${table.rest} - ${names}) || ${rest})`
    const sets = columns.map((column) => sql`${column.sql} = ${value(column)}`)
    const sizes = table.columns
      .filter(({ type }) => type === 'text' || type === 'jsonb')
      .map((column) => {
        const size = columns.includes(column) ? value(column) : column.sql
        return sql`coalesce(octet_length((${size})::text), 0)`
      })
    const bytes = Sql.joined([sql`octet_length(${after}::text)`, ...sizes], ' + ')
    return { sets: [...sets, sql`${table.rest} = ${after}`], bytes }
  }

/** All columns; the size was checked before. */
const replaced =
  (table: Table): MakeSets =>
  ({ rest, value }) => {
    const sets = table.columns.map((column) => sql`${column.sql} = ${value(column)}`)
    return { sets: [...sets, sql`${table.rest} = ${rest}`], bytes: sql`0` }
  }

/** The context of a statement besides its table. */
export interface StatementPurpose {
  readonly collection: string
  /** True if anon keys may read the collection now, so they also receive its change events. */
  readonly anonReads: boolean
  /**
   * One of several changes, of which all are made or none: one that cannot be made ends the transaction (TN003) instead
   * of being reported as a row, and no documents come back, since they could be more than a reply may hold.
   */
  readonly oneOfMany: boolean
}

/** The values of one statement: those that it asks for. */
interface StatementParams {
  readonly purpose: StatementPurpose
  /** Of the document. */
  readonly id?: string
  /** By column. */
  readonly typed?: Readonly<Record<string, unknown>>
  /** JSON of the fields that have no column; of several documents, of all that is to be written. */
  readonly rest?: string
  /** The document as JSON. */
  readonly text?: string
  /** The names of the fields that are set and unset, as an array. */
  readonly names?: string
  /** Those that the caller takes, as JSON; null where any will do. */
  readonly versions?: string | null
  /** Several fillings, as JSON: the rows of {@link given}. */
  readonly rows?: string
}

/** Kinds by table, then by what the text of their statement depends on: statements are joined if their kind is the same value. */
const KINDS = new WeakMap<Table, LRUCache<string, StatementKind<StatementParams>>>()

/** The kind of the statements of a shape, which says several at once: `build` reads them from {@link given}. */
function statementKind(
  table: Table,
  shape: string,
  build: (params: StatementParams) => Sql,
): StatementKind<StatementParams> {
  const kinds =
    KINDS.get(table) ??
    new LRUCache<string, StatementKind<StatementParams>>({ max: LIMITS.statementShapesMax })
  KINDS.set(table, kinds)
  const known = kinds.get(shape)
  if (known !== undefined) return known
  const merge: StatementKind<StatementParams>['merge'] = (items) => {
    const [first] = items
    if (first === undefined) throw new TypeError('there is something to say')
    return build({ purpose: first.purpose, rows: `[${items.map(rowJson).join()}]` })
  }
  const kind = { merge }
  kinds.set(shape, kind)
  return kind
}

const rowJson = ({ id, typed = {}, rest = 'null', text, names, versions }: StatementParams): string =>
  `{"id":${JSON.stringify(id)},"typed":${JSON.stringify(typed)},"rest":${rest},"versions":${versions ?? 'null'},${JSON.stringify(
    { text, names },
  ).slice(1)}`

/** The SQL expressions that give a statement the values of a document. */
interface Source {
  readonly id: Sql
  readonly versions: Sql
  readonly rest: Sql
  readonly names: Sql
  readonly text: Sql
  readonly value: (column: TableColumn) => Sql
}

/** From its own values; those that stand in several places are sent once. */
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

/** From the rows of {@link given}. */
const BATCH_PARAMS: Source = {
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
const given = ({ rows }: StatementParams): Sql => sql`given as (
  select (v ->> 'id')::uuid as given_id, nullif(v -> 'versions', 'null') as given_versions, v -> 'typed' as given_typed,
    v -> 'rest' as given_rest, (v ->> 'names')::text[] as given_names, v ->> 'text' as given_text
  from jsonb_array_elements((select ${rows}::jsonb)) v)`

/** The value of a column in a jsonb that has the column's own name as key. */
function fromJson(base: Sql, { column, type }: TableColumn): Sql {
  return type === 'jsonb' ? sql`${base} -> ${column}::text` : sql`(${base} ->> ${column}::text)${CASTS[type]}`
}

function columnValue({ column, type }: TableColumn, { typed }: StatementParams): Sql {
  const value = typed?.[column] ?? null
  const sent = value === null || type !== 'jsonb' ? (value as string | null) : JSON.stringify(value)
  return sql`${sent}${CASTS[type]}`
}
