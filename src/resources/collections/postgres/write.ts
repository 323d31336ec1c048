/** Changes of documents as statements. Each writes its line of the outbox in the same breath. */

import { LIMITS } from '../../../core/limits.ts'
import { commas, Sql, sql, textArray } from '../../../platform/pg/sql.ts'
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

/** What comes back of a row. */
const shown = ({ oneOfMany }: Purpose): Sql => (oneOfMany ? sql`written.id, written.version` : sql`written.*`)

/** New rows, read back; those whose id is there already are left out. */
export function createStatement(table: Table, purpose: Purpose, creates: readonly Create[]): Sql {
  const [only, ...more] = creates
  const document = only === undefined || more.length > 0 ? documentOf(table) : sql`${only.content.text}::json`
  return sql`with written as (${insertStatement(table, creates)} on conflict (${table.key}) do nothing returning ${table.row}),
    told as (${tell(purpose, 'created', document)}) select ${shown(purpose)} from written`
}

/** The same for those who may write and not read: nothing comes back, and an id that is there is an error. */
export function blindCreateStatement(table: Table, purpose: Purpose, create: Create): Sql {
  const written = sql`select ${create.id}::uuid as id, 1 as version`
  return sql`with written as (${written}),
    told as (${tell(purpose, 'created', sql`${create.content.text}::json`)}) ${insertStatement(table, [create])}`
}

function insertStatement(table: Table, creates: readonly Create[]): Sql {
  const names = commas([...table.columns.map((column) => column.sql), table.rest])
  return sql`insert into ${table.name} (${table.stamp.names}id, ${names}) ${rowsOf(table, creates)}`
}

/** One row as values; several in one value, so that the text of the statement does not grow with them. */
function rowsOf(table: Table, creates: readonly Create[]): Sql {
  const rows = creates.map(({ id, content }) => ({ id, ...split(table, content.fields) }))
  const [only, ...more] = rows
  if (only !== undefined && more.length === 0) {
    const values = table.columns.map((column) => columnValue(only.typed, column))
    const all = commas([...values, sql`${JSON.stringify(only.rest)}::jsonb`])
    return sql`values (${table.stamp.values}${only.id}::uuid, ${all})`
  }
  const values = commas([
    ...table.columns.map((column) => fromJson(sql`(v -> 'typed')`, column)),
    sql`v -> 'rest'`,
  ])
  return sql`select ${table.stamp.values}(v ->> 'id')::uuid, ${values}
    from jsonb_array_elements(${JSON.stringify(rows)}::jsonb) v`
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
  const versions = Sql.shared(ifVersions === undefined ? null : JSON.stringify(ifVersions))
  const at = sql`${versions}::jsonb is null or ${versions}::jsonb @> to_jsonb(version)`
  const here = sql`${table.own} and id = ${Sql.shared(id)}`
  if (verb === 'delete') {
    const written = sql`delete from ${table.name} where ${here} and (${at}) returning id, version`
    return reported(table, purpose, here, { written, told: tell(purpose, 'deleted', sql`null::json`) })
  }
  if (verb === 'update' && Object.keys(change.content.fields).length + change.unset.length === 0) {
    return reported(table, purpose, here, {
      written: sql`select ${table.row} from ${table.name} where ${here} and (${at})`,
    })
  }
  const { sets, bytes } = verb === 'update' ? updating(table, change) : replacing(table, change)
  const written = sql`update ${table.name} set ${commas([...sets, sql`version = version + 1`, sql`updated_at = now()`])}
    where ${here} and (${at}) and ${bytes} <= ${LIMITS.documentBytesMax}
    returning ${table.row}`
  return reported(table, purpose, here, { written, told: tell(purpose, 'updated', documentOf(table)), bytes })
}

interface Made {
  readonly written: Sql
  /** Undefined where nothing is changed, so that nobody is told. */
  readonly told?: Sql
  /** How large the document would be, where that is asked. */
  readonly bytes?: Sql
}

function reported(table: Table, purpose: Purpose, here: Sql, { written, told, bytes = sql`0` }: Made): Sql {
  const line = told === undefined ? sql`` : sql`, told as (${told})`
  const found = sql`(select jsonb_build_object('version', version, 'bytes', ${bytes}) from ${table.name} where ${here})`
  const current = purpose.oneOfMany ? sql`tenon.refuse_change(${found})` : found
  return sql`with written as (${written})${line}
    select ${shown(purpose)}, case when written.id is null then ${current} end as current
    from (select 1) one left join written on true`
}

/** The document as the outbox keeps it. */
const documentOf = (table: Table): Sql => sql`(${table.document})::json`

/** A line of the outbox for each row that was written. */
const tell = ({ collection, anonReads }: Purpose, verb: Verb, document: Sql): Sql =>
  sql`insert into tenon.outbox (collection, verb, document_id, version, document, bytes, anon_reads)
    select ${collection}, ${verb}, id, version, document, coalesce(octet_length(document::text), 0), ${anonReads}
    from (select id, version, ${document} as document from written) as line`

interface Sets {
  readonly sets: readonly Sql[]
  readonly bytes: Sql
}

/** Only the named columns: what is not named costs nothing. */
function updating(table: Table, { content, unset }: Extract<Change, { verb: 'update' }>): Sets {
  const { typed, rest } = split(table, content.fields)
  const named = new Set([...Object.keys(content.fields), ...unset])
  const names = Sql.shared(textArray([...named]))
  const after = sql`((${table.rest} - ${names}::text[]) || ${Sql.shared(JSON.stringify(rest))}::jsonb)`
  const columns = table.columns.filter(({ property }) => named.has(property))
  const sets = columns.map((column) => sql`${column.sql} = ${columnValue(typed, column)}`)
  const sizes = table.columns
    .filter(({ type }) => type === 'text' || type === 'jsonb')
    .map((column) => {
      const value = columns.includes(column) ? columnValue(typed, column) : column.sql
      return sql`coalesce(octet_length((${value})::text), 0)`
    })
  const bytes = Sql.joined([sql`octet_length(${after}::text)`, ...sizes], ' + ')
  return { sets: [...sets, sql`${table.rest} = ${after}`], bytes }
}

/** All columns; the size was checked before. */
function replacing(table: Table, { content }: Extract<Change, { verb: 'replace' }>): Sets {
  const { typed, rest } = split(table, content.fields)
  const sets = table.columns.map((column) => sql`${column.sql} = ${columnValue(typed, column)}`)
  return { sets: [...sets, sql`${table.rest} = ${JSON.stringify(rest)}::jsonb`], bytes: sql`0` }
}

function columnValue(typed: Record<string, unknown>, { column, type }: TableColumn): Sql {
  const value = typed[column] ?? null
  const bound = value === null ? null : type === 'jsonb' ? JSON.stringify(value) : (value as string)
  return sql`${bound}${CASTS[type]}`
}
