/** Changes of documents as statements. Each writes its line of the outbox in the same breath. */

import { LIMITS } from '../../../core/limits.ts'
import { commas, type MakeSlot, Sql, type SqlValue, sql, textArray } from '../../../platform/pg/sql.ts'
import type { Change, Create } from '../store.ts'
import { split, type Table, type TableColumn } from './table.ts'

type Verb = 'created' | 'updated' | 'deleted'

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
interface Filling {
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
}

type MakeFillingSlot = MakeSlot<Filling>
type Statement = (filling: Filling) => Sql

/** By the table, then by what the text of the statement depends on. */
const STATEMENTS = new WeakMap<Table, Map<string, Statement>>()

/** The statement of this shape, put together when it is asked for the first time. */
function statementOf(table: Table, shape: string, build: (slot: MakeFillingSlot) => Sql): Statement {
  const known = STATEMENTS.get(table) ?? new Map<string, Statement>()
  STATEMENTS.set(table, known)
  const found = known.get(shape)
  if (found !== undefined) return found
  if (known.size >= LIMITS.statementShapesMax) known.clear()
  const statement = Sql.template(build)
  known.set(shape, statement)
  return statement
}

/** What comes back of a row. */
const shown = (oneOfMany: boolean): Sql => (oneOfMany ? sql`written.id, written.version` : sql`written.*`)

/** New rows, read back; those whose id is there already are left out. */
export function createStatement(table: Table, purpose: Purpose, creates: readonly Create[]): Sql {
  const [only, ...more] = creates
  const { oneOfMany } = purpose
  if (only !== undefined && more.length === 0) {
    const build = (slot: MakeFillingSlot) =>
      creating(table, oneOfMany, slot, rowOf(table, slot), textOf(slot))
    return statementOf(table, `create ${oneOfMany}`, build)(newRow(table, purpose, only))
  }
  const rows = creates.map(({ id, content }) => ({ id, ...split(table, content.fields) }))
  const build = (slot: MakeFillingSlot) =>
    creating(table, oneOfMany, slot, rowsOf(table, slot), documentOf(table))
  const statement = statementOf(table, `creates ${oneOfMany}`, build)
  return statement({ purpose, rest: JSON.stringify(rows) })
}

function creating(table: Table, oneOfMany: boolean, slot: MakeFillingSlot, rows: Sql, document: Sql): Sql {
  return sql`with written as (${inserting(table, rows)} on conflict (${table.key}) do nothing returning ${table.row}),
    told as (${tell(slot, 'created', document)}) select ${shown(oneOfMany)} from written`
}

/** The same for those who may write and not read: nothing comes back, and an id that is there is an error. */
export function blindCreateStatement(table: Table, purpose: Purpose, create: Create): Sql {
  const build = (slot: MakeFillingSlot) => {
    const written = sql`select ${slot(({ id }) => id)}::uuid as id, 1 as version`
    return sql`with written as (${written}),
      told as (${tell(slot, 'created', textOf(slot))}) ${inserting(table, rowOf(table, slot))}`
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

function rowOf(table: Table, slot: MakeFillingSlot): Sql {
  const values = table.columns.map((column) => columnValue(column, slot))
  const all = commas([...values, sql`${slot(({ rest }) => rest)}::jsonb`])
  return sql`values (${table.stamp.values}${slot(({ id }) => id)}::uuid, ${all})`
}

/** Several rows in one value, so that the text of the statement does not grow with them. */
function rowsOf(table: Table, slot: MakeFillingSlot): Sql {
  const values = commas([
    ...table.columns.map((column) => fromJson(sql`(v -> 'typed')`, column)),
    sql`v -> 'rest'`,
  ])
  return sql`select ${table.stamp.values}(v ->> 'id')::uuid, ${values}
    from jsonb_array_elements(${slot(({ rest }) => rest)}::jsonb) v`
}

/** The value of a column in a jsonb that has the column's own name as key. */
function fromJson(base: Sql, { column, type }: TableColumn): Sql {
  return type === 'jsonb' ? sql`${base} -> ${column}::text` : sql`(${base} ->> ${column}::text)${CASTS[type]}`
}

const CASTS: Readonly<Record<TableColumn['type'], Sql>> = {
  text: sql`::text`,
  bigint: sql`::bigint`,
  'double precision': sql`::double precision`,
  boolean: sql`::boolean`,
  jsonb: sql`::jsonb`,
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
    const build = (slot: MakeFillingSlot) => updating(table, oneOfMany, slot, replaced(table, slot))
    return statementOf(table, `replace ${oneOfMany}`, build)(written)
  }
  const named = new Set([...Object.keys(change.content.fields), ...change.unset])
  if (named.size === 0) return statementOf(table, `read ${oneOfMany}`, reading(table, oneOfMany))(unwritten)
  const columns = table.columns.filter(({ property }) => named.has(property))
  const shape = `update ${oneOfMany} ${columns.map(({ column }) => column).join(' ')}`
  const build = (slot: MakeFillingSlot) => updating(table, oneOfMany, slot, changed(table, columns, slot))
  const statement = statementOf(table, shape, build)
  const names = textArray([...named])
  return statement({ purpose, id, versions, typed, rest: JSON.stringify(rest), names })
}

/** Where the row is, and on which condition it is changed. */
function placeOf(table: Table, slot: MakeFillingSlot): { here: Sql; at: Sql } {
  const versions = Sql.shared(slot((filling) => filling.versions))
  return {
    here: sql`${table.own} and id = ${Sql.shared(slot(({ id }) => id))}`,
    at: sql`(${versions}::jsonb is null or ${versions}::jsonb @> to_jsonb(version))`,
  }
}

const deleting = (table: Table, oneOfMany: boolean) => (slot: MakeFillingSlot) => {
  const { here, at } = placeOf(table, slot)
  const written = sql`delete from ${table.name} where ${here} and ${at} returning id, version`
  return reported(table, oneOfMany, here, { written, told: tell(slot, 'deleted', sql`null::json`) })
}

/** Nothing is changed, so nobody is told. */
const reading = (table: Table, oneOfMany: boolean) => (slot: MakeFillingSlot) => {
  const { here, at } = placeOf(table, slot)
  const written = sql`select ${table.row} from ${table.name} where ${here} and ${at}`
  return reported(table, oneOfMany, here, { written })
}

function updating(table: Table, oneOfMany: boolean, slot: MakeFillingSlot, { sets, bytes }: Sets): Sql {
  const { here, at } = placeOf(table, slot)
  const written = sql`update ${table.name} set ${commas([...sets, sql`version = version + 1`, sql`updated_at = now()`])}
    where ${here} and ${at} and ${bytes} <= ${LIMITS.documentBytesMax}
    returning ${table.row}`
  return reported(table, oneOfMany, here, { written, told: tell(slot, 'updated', documentOf(table)), bytes })
}

interface Made {
  readonly written: Sql
  /** Undefined where nothing is changed, so that nobody is told. */
  readonly told?: Sql
  /** How large the document would be, where that is asked. */
  readonly bytes?: Sql
}

function reported(table: Table, oneOfMany: boolean, here: Sql, { written, told, bytes = sql`0` }: Made): Sql {
  const line = told === undefined ? sql`` : sql`, told as (${told})`
  const found = sql`(select jsonb_build_object('version', version, 'bytes', ${bytes}) from ${table.name} where ${here})`
  const current = oneOfMany ? sql`tenon.refuse_change(${found})` : found
  return sql`with written as (${written})${line}
    select ${shown(oneOfMany)}, case when written.id is null then ${current} end as current
    from (select 1) one left join written on true`
}

/** The document as the outbox keeps it. */
const documentOf = (table: Table): Sql => sql`(${table.document})::json`
const textOf = (slot: MakeFillingSlot): Sql => sql`${slot(({ text }) => text)}::json`

/** A line of the outbox for each row that was written. */
const tell = (slot: MakeFillingSlot, verb: Verb, document: Sql): Sql =>
  sql`insert into tenon.outbox (collection, verb, document_id, version, document, bytes, anon_reads)
    select ${slot(({ purpose }) => purpose.collection)}, ${verb}, id, version, document,
      coalesce(octet_length(document::text), 0), ${slot(({ purpose }) => purpose.anonReads)}
    from (select id, version, ${document} as document from written) as line`

interface Sets {
  readonly sets: readonly Sql[]
  readonly bytes: Sql
}

/** Only the named columns: what is not named costs nothing. */
function changed(table: Table, columns: readonly TableColumn[], slot: MakeFillingSlot): Sets {
  const names = Sql.shared(slot((filling) => filling.names))
  const rest = Sql.shared(slot((filling) => filling.rest))
  const after = sql`((${table.rest} - ${names}::text[]) || ${rest}::jsonb)`
  const sets = columns.map((column) => sql`${column.sql} = ${columnValue(column, slot)}`)
  const sizes = table.columns
    .filter(({ type }) => type === 'text' || type === 'jsonb')
    .map((column) => {
      const value = columns.includes(column) ? columnValue(column, slot) : column.sql
      return sql`coalesce(octet_length((${value})::text), 0)`
    })
  const bytes = Sql.joined([sql`octet_length(${after}::text)`, ...sizes], ' + ')
  return { sets: [...sets, sql`${table.rest} = ${after}`], bytes }
}

/** All columns; the size was checked before. */
function replaced(table: Table, slot: MakeFillingSlot): Sets {
  const sets = table.columns.map((column) => sql`${column.sql} = ${columnValue(column, slot)}`)
  return { sets: [...sets, sql`${table.rest} = ${slot(({ rest }) => rest)}::jsonb`], bytes: sql`0` }
}

function columnValue({ column, type }: TableColumn, slot: MakeFillingSlot): Sql {
  const read = ({ typed }: Filling): SqlValue => {
    const value = typed?.[column] ?? null
    return value === null || type !== 'jsonb' ? (value as string | null) : JSON.stringify(value)
  }
  return sql`${slot(read)}${CASTS[type]}`
}
