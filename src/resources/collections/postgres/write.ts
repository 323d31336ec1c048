/** Changes of documents as statements. Each writes its line of the outbox in the same breath. */

import { LIMITS } from '../../../core/limits.ts'
import { commas, type Kind, Sql, sql, textArray } from '../../../platform/pg/sql.ts'
import type { Change, Create } from '../store.ts'
import {
  type Filling,
  type FillingSlot,
  fromJson,
  GIVEN,
  given,
  kindOf,
  ownValues,
  type Purpose,
  type Source,
  statementOf,
} from './filling.ts'
import { split, type Table, type TableColumn } from './table.ts'

type Verb = 'created' | 'updated' | 'deleted'

/** What comes back of a row. */
const shown = (oneOfMany: boolean): Sql => (oneOfMany ? sql`written.id, written.version` : sql`written.*`)

/** New rows, read back; those whose id is there already are left out. */
export function createStatement(table: Table, purpose: Purpose, creates: readonly Create[]): Sql {
  const [only, ...more] = creates
  const { oneOfMany } = purpose
  if (only !== undefined && more.length === 0) {
    const row = newRow(table, purpose, only)
    const alone = statementOf(table, `create ${oneOfMany}`, creatingOne(table, oneOfMany))(row)
    return oneOfMany ? alone : withKind(alone, row, kindOf(table, 'create', creatingGiven(table)))
  }
  const rows = creates.map(({ id, content }) => ({ id, ...split(table, content.fields) }))
  const build = creatingAll(table, oneOfMany)
  return statementOf(table, `creates ${oneOfMany}`, build)({ purpose, rest: JSON.stringify(rows) })
}

/** Ids come back in small letters. */
const withKind = (alone: Sql, item: Filling, kind: Kind<Filling>): Sql =>
  alone.as({ kind: kind as Kind, key: (item.id ?? '').toLowerCase(), item })

const creatingOne = (table: Table, oneOfMany: boolean) => (slot: FillingSlot) => {
  const source = ownValues(slot)
  const written = sql`${inserting(table, sql`values (${rowOf(table, source)})`)} ${unlessThere(table)}`
  const line = sql`select id, version, ${source.text} as document from written`
  return sql`with written as (${written}), told as (${tell(slot, 'created', line)})
    select ${shown(oneOfMany)} from written`
}

/** Of several callers, to each of whom the text is his own. */
const creatingGiven = (table: Table) => (slot: FillingSlot) => {
  const written = sql`${inserting(table, sql`select ${rowOf(table, GIVEN)} from given`)} ${unlessThere(table)}`
  const line = sql`select id, version, ${GIVEN.text} as document from written join given on given_id = id`
  return sql`with ${given(slot)}, written as (${written}), told as (${tell(slot, 'created', line)})
    select written.*, id as given_id from written`
}

/** Of one caller. */
const creatingAll = (table: Table, oneOfMany: boolean) => (slot: FillingSlot) => {
  const written = sql`${inserting(table, rowsOf(table, slot))} ${unlessThere(table)}`
  return sql`with written as (${written}), told as (${tell(slot, 'created', linesOf(documentOf(table)))})
    select ${shown(oneOfMany)} from written`
}

const unlessThere = (table: Table): Sql => sql`on conflict (${table.key}) do nothing returning ${table.row}`

/** The same for those who may write and not read: nothing comes back, and an id that is there is an error. */
export function blindCreateStatement(table: Table, purpose: Purpose, create: Create): Sql {
  const build = (slot: FillingSlot) => {
    const source = ownValues(slot)
    const line = sql`select ${source.id} as id, 1 as version, ${source.text} as document`
    return sql`with told as (${tell(slot, 'created', line)})
      ${inserting(table, sql`values (${rowOf(table, source)})`)}`
  }
  return statementOf(table, 'create blindly', build)(newRow(table, purpose, create))
}

function newRow(table: Table, purpose: Purpose, { id, content }: Create): Filling {
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
function rowsOf(table: Table, slot: FillingSlot): Sql {
  const values = commas([
    ...table.columns.map((column) => fromJson(sql`(v -> 'typed')`, column)),
    sql`v -> 'rest'`,
  ])
  return sql`select ${table.stamp.values}(v ->> 'id')::uuid, ${values}
    from jsonb_array_elements(${slot(({ rest }) => rest)}::jsonb) v`
}

/**
 * A change of a row that is there. Where it cannot be made, the one row that comes back has no id and `current` says
 * what is in the way; null where there is nothing.
 */
export function changeStatement(table: Table, purpose: Purpose, change: Exclude<Change, Create>): Sql {
  const { verb, id, ifVersions } = change
  const { oneOfMany } = purpose
  const versions = ifVersions === undefined ? null : JSON.stringify(ifVersions)
  const unwritten = { purpose, id, versions }
  if (verb === 'delete')
    return statementOf(table, `delete ${oneOfMany}`, deleting(table, oneOfMany))(unwritten)
  const { typed, rest } = split(table, change.content.fields)
  if (verb === 'replace') {
    const written = { purpose, id, versions, typed, rest: JSON.stringify(rest) }
    return statementOf(table, `replace ${oneOfMany}`, updating(table, oneOfMany, replaced(table)))(written)
  }
  const named = new Set([...Object.keys(change.content.fields), ...change.unset])
  if (named.size === 0) return statementOf(table, `read ${oneOfMany}`, reading(table, oneOfMany))(unwritten)
  const columns = table.columns.filter(({ property }) => named.has(property))
  const shape = columns.map(({ column }) => column).join(' ')
  const sets = changed(table, columns)
  const row = { purpose, id, versions, typed, rest: JSON.stringify(rest), names: textArray([...named]) }
  const alone = statementOf(table, `update ${oneOfMany} ${shape}`, updating(table, oneOfMany, sets))(row)
  return oneOfMany
    ? alone
    : withKind(alone, row, kindOf(table, `update ${shape}`, updatingGiven(table, sets)))
}

const hereIn = (table: Table, { id }: Source): Sql => sql`${table.own} and id = ${id}`

/** On which condition it is changed. */
const atVersions = ({ versions }: Source): Sql =>
  sql`(${versions} is null or ${versions} @> to_jsonb(version))`

const deleting = (table: Table, oneOfMany: boolean) => (slot: FillingSlot) => {
  const source = ownValues(slot)
  const here = hereIn(table, source)
  const written = sql`delete from ${table.name} where ${here} and ${atVersions(source)} returning id, version`
  const told = tell(slot, 'deleted', linesOf(sql`null::json`))
  return reported(oneOfMany, currentOf(table, here), { written, told })
}

/** Nothing is changed, so nobody is told. */
const reading = (table: Table, oneOfMany: boolean) => (slot: FillingSlot) => {
  const source = ownValues(slot)
  const here = hereIn(table, source)
  const written = sql`select ${table.row} from ${table.name} where ${here} and ${atVersions(source)}`
  return reported(oneOfMany, currentOf(table, here), { written })
}

const updating = (table: Table, oneOfMany: boolean, made: MakeSets) => (slot: FillingSlot) => {
  const source = ownValues(slot)
  const { written, current } = updated(table, source, made(source), sql``)
  const told = tell(slot, 'updated', linesOf(documentOf(table)))
  return reported(oneOfMany, current, { written, told })
}

/** Of several callers; of each, the row or what is in the way. */
const updatingGiven = (table: Table, made: MakeSets) => (slot: FillingSlot) => {
  const { written, current } = updated(table, GIVEN, made(GIVEN), sql`from given`)
  const told = tell(slot, 'updated', linesOf(documentOf(table)))
  return sql`with ${given(slot)}, written as (${written}), told as (${told})
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

/** What is there instead. @param bytes how large the document would be, where that is asked */
const currentOf = (table: Table, here: Sql, bytes = sql`0`): Sql =>
  sql`(select jsonb_build_object('version', version, 'bytes', ${bytes}) from ${table.name} where ${here})`

interface Made {
  readonly written: Sql
  /** Undefined where nothing is changed, so that nobody is told. */
  readonly told?: Sql
}

function reported(oneOfMany: boolean, found: Sql, { written, told }: Made): Sql {
  const line = told === undefined ? sql`` : sql`, told as (${told})`
  const current = oneOfMany ? sql`tenon.refuse_change(${found})` : found
  return sql`with written as (${written})${line}
    select ${shown(oneOfMany)}, case when written.id is null then ${current} end as current
    from (select 1) one left join written on true`
}

/** The document as the outbox keeps it. */
const documentOf = (table: Table): Sql => sql`(${table.document})::json`

const linesOf = (document: Sql): Sql => sql`select id, version, ${document} as document from written`

/** A line of the outbox for each row that was written. */
const tell = (slot: FillingSlot, verb: Verb, lines: Sql): Sql =>
  sql`insert into tenon.outbox (collection, verb, document_id, version, document, bytes, anon_reads)
    select ${slot(({ purpose }) => purpose.collection)}, ${verb}, id, version, document,
      coalesce(octet_length(document::text), 0), ${slot(({ purpose }) => purpose.anonReads)}
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
