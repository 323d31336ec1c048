/** Builds the statements that change documents. Each one also writes a row of the outbox. */

import { LRUCache } from 'lru-cache'
import { commas, Sql, type StatementKind, sql, textArray } from '../../../infra/postgres/sql.ts'
import { currentTraceText } from '../../../infra/trace-context.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { hasReadFilter } from '../rules/access.ts'
import type { CheckedChange, Collection, Create, Restored } from '../store.ts'
import { CASTS } from './compile.ts'
import { documentWith, split, type Table, type TableColumn, tableOf } from './table.ts'

/** The collection that a statement changes, and whether its change is one of several. */
interface Target {
  readonly collection: Collection
  /**
   * One of several changes that are made together or not at all: a change that fails ends the transaction (TN003) instead
   * of being reported as a row, and no documents are returned, since they could exceed the size of a reply.
   */
  readonly oneOfMany: boolean
}

/** The values of one document that a statement uses. */
interface Values {
  readonly id: string
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
  /** Of the request, if the statement is merged with others. */
  readonly trace?: string | undefined
}

/** The columns that a statement returns: the row, without what is for its event alone. */
const returned = ({ oneOfMany, collection }: Target): Sql =>
  oneOfMany ? ID_AND_VERSION : tableOf(collection).written

const ID_AND_VERSION = sql`written.id, written.version`

/** Inserts and returns new rows; skips rows whose id exists, which `withExisting` in store.ts reads afterwards. */
export function createStatement(target: Target, creates: readonly Create[]): Sql {
  const [only, ...more] = creates
  const table = tableOf(target.collection)
  const namesOwners = creates.some(({ owner }) => owner !== undefined)
  if (only !== undefined && more.length === 0 && !namesOwners) {
    const values = newValues(table, only)
    const single = insertOne(target, values, only.mustBeNew)
    return target.oneOfMany || only.mustBeNew
      ? single
      : withKind(single, { target, values, shape: 'create', merge: insertBatch })
  }
  const rows = creates.map(({ id, content, owner }) => {
    const { typed, rest } = split(table, content.fields)
    return rowJson({ id, typed, rest: JSON.stringify(rest), ...(owner !== undefined && { owner }) })
  })
  return insertItems(target, `[${rows.join()}]`, { events: eventsOf(documentOf(table)), namesOwners })
}

/** @param mustBeNew the statement fails if the id exists */
function insertOne(target: Target, values: Values, mustBeNew = false): Sql {
  const table = tableOf(target.collection)
  const source = ownValues(values)
  const end = mustBeNew ? sql`returning ${table.row}` : skipExisting(table)
  const written = sql`${insertInto(table, sql`values (${rowOf(table, source)})`)} ${end}`
  const event = sql`select id, version, owner, ${source.text} as document, null::json as deleted from written`
  return sql`with written as (${written})${told(target, outboxRow(target, 'created', event))}
    select ${returned(target)} from written`
}

/** Inserts the rows of several callers; each event has the text that its caller sent. */
const insertBatch = (target: Target, rows: string): Sql =>
  insertItems(target, rows, {
    events: sql`select id, version, owner, ${BATCH_VALUES.text} as document, null::json as deleted, item_trace
      from written join items on item_id = id`,
    namesOwners: false,
    trace: ITEM_TRACE,
  })

function insertItems(
  target: Target,
  rows: string,
  {
    events,
    namesOwners,
    trace,
  }: { readonly events: Sql; readonly namesOwners: boolean; readonly trace?: Sql },
): Sql {
  const table = tableOf(target.collection)
  const values = rowOf(table, BATCH_VALUES)
  const insert = namesOwners
    ? insertOwned(table, sql`select ${values}, item_owner from items`)
    : insertInto(table, sql`select ${values} from items`)
  const written = sql`${insert} ${skipExisting(table)}`
  return sql`with ${itemsOf(rows)}, written as (${written})${told(target, outboxRow(target, 'created', events, trace))}
    select ${returned(target)}, id as item_id from written`
}

/** Inserts documents of an archive with their versions and times, without rows of the outbox. */
export function restoreStatement(collection: Collection, documents: readonly Restored[]): Sql {
  const table = tableOf(collection)
  const rows = documents.map(({ id, content, owner, version, created_at, updated_at }) => {
    const { typed, rest } = split(table, content.fields)
    const row = rowJson({ id, typed, rest: JSON.stringify(rest), ...(owner !== undefined && { owner }) })
    return `${row.slice(0, -1)},"system":${JSON.stringify({ version, created_at, updated_at })}}`
  })
  const items = sql`items as (select i.*, v -> 'system' as item_system from (
    select v, ${ITEM_COLUMNS} from jsonb_array_elements((select ${`[${rows.join()}]`}::jsonb)) v) i)`
  return sql`with ${items}
    insert into ${table.name} (${namesOf(table)}, owner, version, created_at, updated_at)
    select ${rowOf(table, BATCH_VALUES)}, item_owner, (item_system ->> 'version')::bigint,
      (item_system ->> 'created_at')::timestamptz, (item_system ->> 'updated_at')::timestamptz from items
    on conflict (${table.key}) do nothing returning id`
}

const skipExisting = (table: Table): Sql => sql`on conflict (${table.key}) do nothing returning ${table.row}`

/** For callers that may not read what they create: returns nothing, and fails if the id exists. */
export function blindCreateStatement(target: Target, create: Create): Sql {
  const table = tableOf(target.collection)
  const source = ownValues(newValues(table, create))
  const event = sql`select ${source.id} as id, 1 as version, tenon.caller() ->> 'id' as owner, ${source.text} as document,
    null::json as deleted`
  return sql`with event as (${outboxRow(target, 'created', event)})
    ${insertInto(table, sql`values (${rowOf(table, source)})`)}`
}

function newValues(table: Table, { id, content }: Create): Values {
  const { typed, rest } = split(table, content.fields)
  return { id, typed, rest: JSON.stringify(rest), text: content.text }
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
export function changeStatement(target: Target, change: Exclude<CheckedChange, Create>): Sql {
  const { verb, id, ifVersions } = change
  const table = tableOf(target.collection)
  const versions = ifVersions === undefined ? null : JSON.stringify(ifVersions)
  if (verb === 'delete') return deleteOne(target, { id, versions })
  const { typed, rest } = split(table, change.content.fields)
  if (verb === 'replace')
    return updateOne(target, { id, versions, typed, rest: JSON.stringify(rest) }, setAll(table))
  const named = new Set([...Object.keys(change.content.fields), ...change.unset])
  if (named.size === 0) return readOne(target, { id, versions })
  const columns = table.columns.filter(({ property }) => named.has(property))
  const sets = setNamed(table, columns)
  const values = { id, versions, typed, rest: JSON.stringify(rest), names: textArray([...named]) }
  const single = updateOne(target, values, sets)
  if (target.oneOfMany) return single
  const shape = `update ${columns.map(({ column }) => column).join(' ')}`
  return withKind(single, { target, values, shape, merge: updateBatch(sets) })
}

const isRow = (table: Table, { id }: Source): Sql => sql`${table.own} and id = ${id}`

/** True for the versions that the caller accepts. */
const atVersions = ({ versions }: Source): Sql =>
  sql`(${versions} is null or ${versions} @> to_jsonb(version))`

function deleteOne(target: Target, values: Values): Sql {
  const table = tableOf(target.collection)
  const source = ownValues(values)
  const here = isRow(table, source)
  const { row, deleted } = keptOfDeleted(target)
  const written = sql`delete from ${table.name} where ${here} and ${atVersions(source)} returning ${row}`
  const event = outboxRow(
    target,
    'deleted',
    sql`select id, version, owner, null::json as document, ${deleted} as deleted, created_at from written`,
  )
  return reported(target, currentOf(table, here), { written, event, row: ID_AND_VERSION })
}

/** Deletes documents at their versions; one that is not there, or at another version, ends the transaction. @returns their ids and versions */
export function deleteManyStatement(
  target: Target,
  deletions: readonly { readonly id: string; readonly version: number }[],
): Sql {
  const table = tableOf(target.collection)
  const { row, deleted } = keptOfDeleted(target)
  const ids = textArray(deletions.map(({ id }) => id))
  const versions = `{${deletions.map(({ version }) => version).join()}}`
  const event = outboxRow(
    target,
    'deleted',
    sql`select id, version, owner, null::json as document, ${deleted} as deleted, created_at from written`,
  )
  return sql`with items as (select * from unnest(${ids}::uuid[], ${versions}::bigint[]) with ordinality as i (item_id, item_version, n)),
    written as (delete from ${table.name} using items where ${table.own} and id = item_id and version = item_version returning ${row})
    ${told(target, event)}
    select id, version, case when written.id is null then tenon.refuse_change(null) end as current
    from items left join written on written.id = item_id order by n`
}

/** The columns of a deleted row that its event needs, and the document, if rules decide who may know of it. */
export function keptOfDeleted(target: Target): { readonly row: Sql; readonly deleted: Sql } {
  const table = tableOf(target.collection)
  return isReadByRules(target)
    ? { row: table.row, deleted: documentOf(table) }
    : { row: sql`id, version, owner, created_at`, deleted: sql`null::json` }
}

/**
 * Reads the row without changing it, so it writes nothing to the outbox. Locked as by an update, so that the row still is at
 * its version when the other changes of the transaction are committed.
 */
function readOne(target: Target, values: Values): Sql {
  const table = tableOf(target.collection)
  const source = ownValues(values)
  const here = isRow(table, source)
  const written = sql`select ${table.row} from ${table.name} where ${here} and ${atVersions(source)} for no key update`
  return reported(target, currentOf(table, here), { written })
}

function updateOne(target: Target, values: Values, makeSets: MakeSets): Sql {
  const table = tableOf(target.collection)
  const source = ownValues(values)
  const { written, current } = updateOf(target, source, makeSets(source), sql``)
  return reported(target, current, { written, event: outboxRow(target, 'updated', changesOf(table)) })
}

/** Updates the rows of several callers; returns for each the row, or its current version and size. */
const updateBatch = (makeSets: MakeSets) => (target: Target, rows: string) => {
  const table = tableOf(target.collection)
  const { written, current } = updateOf(target, BATCH_VALUES, makeSets(BATCH_VALUES), sql`from items`)
  const changes = sql`select id, version, owner, ${documentOf(table)} as document, null::json as deleted, created_at, before, item_trace
    from written join items on item_id = id where changed`
  const event = outboxRow(target, 'updated', changes, ITEM_TRACE)
  return sql`with ${itemsOf(rows)}, written as (${written})${told(target, event)}
    select item_id, ${returned(target)}, case when written.id is null then ${current} end as current
    from items left join written on written.id = item_id`
}

/** The changes of several documents that set the same fields. @returns for each the row, or its current version and size */
export function updateManyStatement(
  target: Target,
  changes: readonly Extract<CheckedChange, { verb: 'update' }>[],
): Sql {
  const table = tableOf(target.collection)
  const names = Object.keys(changes[0]?.content.fields ?? {})
  const columns = table.columns.filter(({ property }) => names.includes(property))
  const rows = changes.map(({ id, content }) => {
    const { typed, rest } = split(table, content.fields)
    const values = { id, typed, rest: JSON.stringify(rest), names: textArray(names), versions: null }
    return rowJson({ ...values, trace: currentTraceText() })
  })
  return updateBatch(setNamed(table, columns))(target, `[${rows.join()}]`)
}

/** A row that gets the values that it has keeps its version, and its lock makes other writers see that. */
function updateOf(target: Target, source: Source, { values, bytes, earlier }: Sets, from: Sql) {
  const table = tableOf(target.collection)
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
    returning ${table.row}, version > old.version as changed, ${beforeOf(target, earlier)} as before`
  return { written, current: currentOf(table, here, bytes) }
}

/** Reads the current version if the change cannot be made. @param bytes the size that the document would have */
const currentOf = (table: Table, here: Sql, bytes = sql`0`): Sql =>
  sql`(select jsonb_build_object('version', version, 'bytes', ${bytes}) from ${table.name} where ${here})`

interface Reported {
  readonly written: Sql
  /** The outbox row; undefined if nothing is changed. */
  readonly event?: Sql
  /** The columns of the result. */
  readonly row?: Sql
}

function reported(target: Target, current: Sql, { written, event, row = returned(target) }: Reported): Sql {
  const outbox = event === undefined ? sql`` : told(target, event)
  const result = target.oneOfMany ? sql`tenon.refuse_change(${current})` : current
  return sql`with written as (${written})${outbox}
    select ${row}, case when written.id is null then ${result} end as current
    from (select 1) one left join written on true`
}

/** True if rules decide who may know of a change: by the document before it, too. */
const isReadByRules = ({ collection: { declared } }: Target): boolean =>
  declared !== undefined && hasReadFilter(declared.rules)

/** The document before an update, for those who could read it then. */
const beforeOf = (target: Target, earlier: Sql): Sql =>
  isReadByRules(target)
    ? sql`(select json_build_object('updated_at', updated_at, ${earlier}) from (select old.*) as earlier)`
    : sql`null::json`

/** The document as the outbox keeps it. */
const documentOf = (table: Table): Sql => sql`(${table.document})::json`

const eventsOf = (document: Sql): Sql =>
  sql`select id, version, owner, ${document} as document, null::json as deleted from written`

/** The updated rows that have a new version. */
const changesOf = (table: Table): Sql =>
  sql`select id, version, owner, ${documentOf(table)} as document, null::json as deleted, created_at, before from written where changed`

/** The part of a statement that writes its change events; empty for a quiet collection. */
const told = ({ collection: { isQuiet } }: Target, event: Sql): Sql =>
  isQuiet === true ? sql`` : sql`, event as (${event})`

/** Inserts a row of the outbox for each row that was written. @param trace of the events; by default that of the transaction */
export const outboxRow = (
  { collection: { name, readers } }: Target,
  verb: keyof typeof EARLIER,
  events: Sql,
  trace?: Sql,
): Sql => {
  const earlier = EARLIER[verb]
  const bytes = sql`coalesce(octet_length(coalesce(document, deleted)::text), 0)`
  const all = verb === 'updated' ? sql`${bytes} + coalesce(octet_length(before::text), 0)` : bytes
  return sql`insert into tenon.outbox
      (collection, verb, document_id, version, document, deleted, owner, bytes, anon_reads, user_reads${earlier}${trace === undefined ? sql`` : sql`, trace`})
    select ${name}, ${verb === 'expired' ? 'deleted' : verb}, id, version, document, deleted, owner,
      ${all}, ${readers.anon}, ${readers.user}${earlier}${trace === undefined ? sql`` : sql`, ${trace}`}
    from (${events}) as written_event`
}

/** Columns of the outbox with the state of a document before its change, by the kind of change. */
const EARLIER = {
  created: sql``,
  updated: sql`, created_at, before`,
  deleted: sql`, created_at`,
  expired: sql`, created_at, reason`,
} as const

/** Statements of several requests become one, in which each row has the trace of its request. */
const ITEM_TRACE = sql`item_trace`

interface Sets {
  /** Columns and their new values. */
  readonly values: readonly (readonly [column: Sql, value: Sql])[]
  /** The size that the document would have. */
  readonly bytes: Sql
  /** The earlier values that the outbox keeps: all fields, or `names` and the fields that it lists, if no other changes. */
  readonly earlier: Sql
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
    const others = sql`(select coalesce(jsonb_object_agg(named, ${table.rest} -> named), '{}')
      from unnest(${names}) named where ${table.rest} ? named)`
    const earlier = sql`'names', ${names}, 'fields', ${documentWith(columns, others)}`
    return { values: [...values, [table.rest, after]], bytes, earlier }
  }

/** Sets all columns; the size was checked before. */
const setAll =
  (table: Table): MakeSets =>
  ({ rest, value }) => {
    const values = table.columns.map((column) => [column.sql, value(column)] as const)
    const earlier = sql`'fields', ${table.document}`
    return { values: [...values, [table.rest, rest]], bytes: sql`0`, earlier }
  }

/** One statement of those that are built alike, and how several become one. */
interface Mergeable {
  readonly target: Target
  readonly values: Values
  /** Statements on a table are alike if their shape is the same text. */
  readonly shape: string
  /** @param rows the values of all, as the parameter of {@link itemsOf} */
  readonly merge: (target: Target, rows: string) => Sql
}

/** Lets a statement be merged with those of other requests. PostgreSQL returns ids in lower case. */
const withKind = (single: Sql, item: Mergeable): Sql =>
  single.as({
    kind: kindOf(item) as StatementKind,
    key: item.values.id.toLowerCase(),
    item: { ...item, values: { ...item.values, trace: currentTraceText() } },
  })

/** Kinds by table, then by shape: statements are merged if their kind is the same value. */
const KINDS = new WeakMap<Table, LRUCache<string, StatementKind<Mergeable>>>()

function kindOf({ target, shape: of, merge }: Mergeable): StatementKind<Mergeable> {
  const shape = target.collection.isQuiet === true ? `quiet ${of}` : of
  const table = tableOf(target.collection)
  const kinds =
    KINDS.get(table) ??
    new LRUCache<string, StatementKind<Mergeable>>({ max: COLLECTION_LIMITS.statementTextsCachedMax })
  KINDS.set(table, kinds)
  const known = kinds.get(shape)
  if (known !== undefined) return known
  const kind: StatementKind<Mergeable> = {
    merge: (items) => {
      const [first] = items
      if (first === undefined) throw new TypeError('a merged statement must have parts')
      return merge(first.target, `[${items.map(({ values }) => rowJson(values)).join()}]`)
    },
  }
  kinds.set(shape, kind)
  return kind
}

/** `rest` and `versions` are JSON already. */
const rowJson = ({ id, typed = {}, rest = 'null', text, names, versions, owner, trace }: Values): string =>
  `${JSON.stringify({ id, typed, text, names, owner, trace }).slice(0, -1)},"rest":${rest},"versions":${versions ?? 'null'}}`

/** The SQL expressions that give a statement the values of a document. */
interface Source {
  readonly id: Sql
  readonly versions: Sql
  readonly rest: Sql
  readonly names: Sql
  readonly text: Sql
  readonly value: (column: TableColumn) => Sql
}

/** As parameters of one statement; those used in several places are sent once. */
function ownValues(values: Values): Source {
  return {
    id: sql`${Sql.shared(values.id)}::uuid`,
    versions: sql`${Sql.shared(values.versions)}::jsonb`,
    rest: sql`${Sql.shared(values.rest)}::jsonb`,
    names: sql`${Sql.shared(values.names)}::text[]`,
    text: sql`${values.text}::json`,
    value: (column) => columnValue(column, values),
  }
}

/** From the rows of {@link itemsOf}. */
const BATCH_VALUES: Source = {
  id: sql`item_id`,
  versions: sql`item_versions`,
  rest: sql`item_rest`,
  names: sql`item_names`,
  text: sql`item_text::json`,
  value: (column) => fromJson(sql`item_typed`, column),
}

/**
 * Several documents in one value, so that the text of the statement does not grow with them. The subquery hides their
 * number from the planner, which would make a plan for each number.
 */
const itemsOf = (rows: string): Sql => sql`items as (
  select ${ITEM_COLUMNS} from jsonb_array_elements((select ${rows}::jsonb)) v)`

const ITEM_COLUMNS = sql`(v ->> 'id')::uuid as item_id, nullif(v -> 'versions', 'null') as item_versions, v -> 'typed' as item_typed,
  v -> 'rest' as item_rest, (v ->> 'names')::text[] as item_names, v ->> 'text' as item_text,
  v ->> 'owner' as item_owner, v ->> 'trace' as item_trace`

/** The value of a column in a jsonb that has the column's own name as key. */
function fromJson(base: Sql, { column, type }: TableColumn): Sql {
  return type === 'jsonb' ? sql`${base} -> ${column}::text` : sql`(${base} ->> ${column}::text)${CASTS[type]}`
}

function columnValue({ column, type }: TableColumn, { typed }: Values): Sql {
  const value = typed?.[column] ?? null
  const sent = value === null || type !== 'jsonb' ? (value as string | null) : JSON.stringify(value)
  return sql`${Sql.shared(sent)}${CASTS[type]}`
}
