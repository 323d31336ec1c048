/**
 * Compiles an aggregate to one statement: documents, grouped, and of the groups one page. Filters, `having`, order and cursor are those
 * of lists (compile.ts): the groups are a table whose columns are the names of the answer. Every value is bound.
 */

import type { Json } from '../../../core/work.ts'
import { commas, Sql, sql } from '../../../infra/postgres/sql.ts'
import type { Bucket, Group, Measure } from '../aggregates/aggregate.ts'
import { dateText, instantText, sumOf } from '../aggregates/answers.ts'
import type { Path } from '../query/filter.ts'
import type { Format } from '../schemas/canonical-text.ts'
import type { AggregateQuery, GroupRow } from '../store.ts'
import { type Column, type Columns, compileAfter, compileFilter, compileOrder } from './compile.ts'

type Row = Readonly<Record<string, unknown>>

/** One column of the answer. */
interface Part {
  readonly name: string
  /** Expressions over a document, each with its name. */
  readonly inputs: readonly Sql[]
  /** Expressions over a group of documents, each with its name. */
  readonly outputs: readonly Sql[]
  /** Expressions over a row of the groups, each with its name. */
  readonly shown: readonly Sql[]
  /** By which groups are compared, ordered and continued. */
  readonly key: Column
  /** The value of the answer. */
  readonly read: (row: Row) => Json
  /** The value of `key`, for a cursor. */
  readonly keyOf: (row: Row) => Json
}

export interface AggregateStatement {
  readonly statement: Sql
  readonly read: (row: Row) => GroupRow
  /** The number of documents, in a statement without groups. */
  readonly documentsOf: (row: Row | undefined) => number | undefined
}

/** @param where selects the documents that the caller may read and the filter admits */
export function compileAggregate(
  { name, resolve }: { readonly name: Sql; readonly resolve: Columns },
  where: Sql,
  { aggregate, after, limit }: AggregateQuery,
): AggregateStatement {
  const groups = aggregate.groups.map((group, at) => groupPart(group, at, resolve))
  const measures = aggregate.measures.map((measure, at) => measurePart(measure, at, resolve))
  const parts = [...groups, ...measures]
  const documents = sql`select ${commas(parts.flatMap(({ inputs }) => inputs))} from ${name} where ${where}`
  const keys = groups.map((_, at) => Sql.identifier(`g${at}`))
  const isWhole = keys.length === 0
  const counted = isWhole ? [sql`count(*) as documents`] : []
  const outputs = commas([...keys, ...parts.flatMap((part) => part.outputs), ...counted])
  const by = isWhole ? sql`` : sql`group by ${commas(keys)}`
  const shown = commas([...parts.flatMap((part) => part.shown), ...(isWhole ? [sql`documents`] : [])])
  const columns = columnsOf(parts)
  const having = compileFilter(aggregate.having, columns)
  const behind = after === undefined ? [] : compileAfter(aggregate.order, after, columns)
  const rest = after === undefined ? sql`true` : sql`(${Sql.joined([sql`false`, ...behind], ' or ')})`
  const order = isWhole ? sql`` : sql`order by ${compileOrder(aggregate.order, columns)}`
  return {
    statement: sql`select ${shown} from (select ${outputs} from (${documents}) as documents ${by}) as groups
      where ${having} and ${rest} ${order} limit ${limit}`,
    read: (row) => ({
      values: parts.map((part) => [part.name, part.read(row)] as const),
      keys: aggregate.order.map(({ path }) => partAt(parts, path).keyOf(row)),
    }),
    documentsOf: (row) => (isWhole ? Number(row?.['documents']) : undefined),
  }
}

function partAt(parts: readonly Part[], path: Path): Part {
  const part = parts.find(({ name }) => name === path[0])
  if (part === undefined) throw new TypeError('every name of an order is a column')
  return part
}

const columnsOf =
  (parts: readonly Part[]): Columns =>
  (path) =>
    partAt(parts, path).key

const named = (value: Sql, name: string): Sql => sql`${value} as ${Sql.identifier(name)}`

/** A column whose value is its key. */
function plainPart(
  name: string,
  at: string,
  { input, output, type }: { input?: Sql; output?: Sql; type: Column['type'] },
): Part {
  const key = Sql.identifier(at)
  const value = (row: Row) => (row[at] ?? null) as Json
  return {
    name,
    inputs: input === undefined ? [] : [named(input, at)],
    outputs: output === undefined ? [] : [named(output, at)],
    shown: [key],
    key: { sql: key, type },
    read: value,
    keyOf: value,
  }
}

// Groups

function groupPart(group: Group, at: number, columns: Columns): Part {
  const { name, path, bucket, as } = group
  const key = `g${at}`
  if (bucket !== undefined) return bucketPart(group, bucket, key, columns)
  if (as !== undefined) return formatPart(group, at, columns)
  const { sql: value, type } = columns(path)
  const input = type === 'jsonb' ? orNull(value) : value
  return plainPart(name, key, { input, type })
}

const orNull = (value: Sql): Sql => sql`nullif(${value}, 'null'::jsonb)`

/** Texts that mean the same are one group, which shows the first of them by code point. */
function formatPart({ name, path, as }: Group, at: number, columns: Columns): Part {
  const [canonical, written] = [columns(path, as), columns(path)]
  const [key, text] = [Sql.identifier(`g${at}`), Sql.identifier(`w${at}`)]
  const isTyped = canonical.written === undefined
  const original = orNull(written.sql)
  // Without enforcement a value may be of another form, and is then a group by itself.
  const input = isTyped ? canonical.sql : sql`coalesce(to_jsonb(${canonical.sql}), ${original})`
  const shown = isTyped ? written.sql : sql`(${original})::text`
  return {
    name,
    inputs: [named(input, `g${at}`), named(sql`(${shown}) collate "C"`, `w${at}`)],
    outputs: [named(sql`min(${text})`, `w${at}`)],
    shown: [key, isTyped ? text : named(sql`${text}::jsonb`, `w${at}`)],
    key: { sql: key, type: isTyped ? 'text' : 'jsonb' },
    read: (row) => (row[`w${at}`] ?? null) as Json,
    keyOf: (row) => (row[`g${at}`] ?? null) as Json,
  }
}

/** A bucket is known by the seconds of its beginning. */
function bucketPart({ name, path, as }: Group, { unit, zone }: Bucket, key: string, columns: Columns): Part {
  const tz = Sql.shared(zone)
  const at = Sql.identifier(key)
  const isDate = as === 'date'
  const input = isDate
    ? sql`date_trunc(${unit}, ${dateOf(columns(path, as).sql)}::timestamp)`
    : sql`date_trunc(${unit}, ${as === undefined ? columns(path).sql : instantOf(columns(path, as).sql)}, ${tz})`
  const begin = sql`to_timestamp(${at})`
  const first = unit === 'minute' || unit === 'hour' ? begin : firstOf(begin, tz)
  const offset = sql`extract(epoch from (${first} at time zone ${tz}) - (${first} at time zone 'UTC'))::integer`
  return {
    name,
    inputs: [named(sql`extract(epoch from ${input})::bigint`, key)],
    outputs: [],
    shown: [
      at,
      named(sql`extract(epoch from ${first})::bigint`, `${key}_begin`),
      named(offset, `${key}_offset`),
    ],
    key: { sql: at, type: 'bigint' },
    read: (row) => {
      if (row[key] === null) return null
      const begin = Number(row[`${key}_begin`])
      return isDate ? dateText(begin) : instantText(begin, Number(row[`${key}_offset`]))
    },
    keyOf: (row) => (row[key] ?? null) as Json,
  }
}

/** A day may begin twice, as in Havana, where clocks go back from one o'clock to midnight: PostgreSQL takes the second. */
function firstOf(begin: Sql, zone: Sql): Sql {
  const before = sql`(${begin} - interval '1 hour')`
  return sql`(case when ${before} at time zone ${zone} = ${begin} at time zone ${zone} then ${before} else ${begin} end)`
}

/** The date of a canonical text. PostgreSQL has no year 0, and the calendar repeats every 400 years. */
const dateOf = (text: Sql): Sql =>
  sql`(make_date(substr(${text}, 1, 4)::integer + 400, substr(${text}, 6, 2)::integer, substr(${text}, 9, 2)::integer) - 146097)`

/** The minute of a canonical text, whose first ten digits count minutes since the last day before the year 0. */
function instantOf(text: Sql): Sql {
  const minutes = sql`left(${text}, 10)::bigint`
  const day = sql`(date '0001-01-01 BC' + (${minutes} / 1440 - 1)::integer)`
  return sql`((${day}::timestamp + (${minutes} % 1440) * interval '1 minute') at time zone 'UTC')`
}

// Measures

function measurePart(measure: Measure, at: number, columns: Columns): Part {
  const { name, fn, path } = measure
  const key = `m${at}`
  if (path === undefined) return plainPart(name, key, { output: sql`count(*)`, type: 'bigint' })
  switch (fn) {
    case 'count':
    case 'count_distinct':
      return countPart(measure, at, columns)
    case 'sum':
      return measure.as === undefined
        ? {
            ...numberPart(measure, at, columns),
            read: (row) => sumOf(name, row[key] === null ? null : String(row[key])),
          }
        : exactSum(measure, at, columns)
    case 'avg':
      return numberPart(measure, at, columns)
    case 'min':
    case 'max':
      return measure.as === undefined
        ? extremePart(measure, at, columns)
        : formatExtreme(measure, at, columns)
  }
}

/** Counts values that are not null. */
function countPart({ name, fn, path, as }: Measure, at: number, columns: Columns): Part {
  if (path === undefined) throw new TypeError('a count of values has a path')
  const [written, value] = [columns(path), Sql.identifier(`v${at}`)]
  const original = written.type === 'jsonb' ? orNull(written.sql) : written.sql
  const canonical = as === undefined ? undefined : columns(path, as)
  const input =
    canonical === undefined
      ? original
      : canonical.written === undefined
        ? canonical.sql
        : sql`coalesce(to_jsonb(${canonical.sql}), ${original})`
  const output = fn === 'count' ? sql`count(${value})` : sql`count(distinct ${value})`
  return { ...plainPart(name, `m${at}`, { output, type: 'bigint' }), inputs: [named(input, `v${at}`)] }
}

/** The value as a number of any size, which sums exactly: a double by the digits that it prints. Null for other values. */
function numericOf({ sql: value, type }: Column): Sql {
  if (type === 'bigint') return value
  if (type === 'double precision') return sql`${value}::text::numeric`
  return sql`case jsonb_typeof(${value}) when 'number' then (${value})::numeric end`
}

/** A text of a format of numbers as a number. */
function numericOfText(path: Path, format: Format, columns: Columns): Sql {
  const { sql: value, type } = columns(path)
  const text = type === 'jsonb' ? sql`(${value} #>> '{}')` : value
  return sql`case when ${columns(path, format).sql} is not null then (${text})::numeric end`
}

/** The sum of such texts is a text itself, and is compared as one. */
function exactSum({ name, path, as }: Measure, at: number, columns: Columns): Part {
  if (path === undefined || as === undefined) throw new TypeError('an exact sum is of texts at a path')
  const [key, value] = [Sql.identifier(`m${at}`), Sql.identifier(`v${at}`)]
  const canonical = sql`(tenon.canonical('decimal', ${key}::text) collate "C")`
  return {
    name,
    inputs: [named(numericOfText(path, as, columns), `v${at}`)],
    outputs: [named(sql`sum(${value})`, `m${at}`)],
    shown: [key, named(canonical, `c${at}`)],
    key: { sql: canonical, type: 'text' },
    read: (row) => (row[`m${at}`] ?? null) as Json,
    keyOf: (row) => (row[`c${at}`] ?? null) as Json,
  }
}

/** A quotient has as many digits behind the point as its dividend, and more than a double has. */
const ONE = sql`1.0000000000000000000000000000000000000000`

function numberPart({ name, fn, path, as }: Measure, at: number, columns: Columns): Part {
  if (path === undefined) throw new TypeError('a sum has a path')
  const [key, value] = [Sql.identifier(`m${at}`), Sql.identifier(`v${at}`)]
  const total = sql`sum(${value})`
  const output = fn === 'sum' ? total : sql`(${total} * ${ONE} / nullif(count(${value}), 0))`
  const read = (row: Row) => (row[`m${at}`] === null ? null : Number(row[`m${at}`]))
  return {
    name,
    inputs: [named(as === undefined ? numericOf(columns(path)) : numericOfText(path, as, columns), `v${at}`)],
    outputs: [named(output, `m${at}`)],
    shown: [key],
    key: { sql: asDouble(key), type: 'double precision' },
    read,
    keyOf: read,
  }
}

/** The nearest double, as the answer has it. The conversion of PostgreSQL raises beyond the largest and below the smallest. */
const asDouble = (value: Sql): Sql =>
  sql`(case when abs(${value}) > 1.797e308 then sign(${value})::double precision * 'Infinity'::double precision
    when abs(${value}) < 1e-300 then 0 else ${value}::double precision end)`

/** Texts come before numbers, as in an order; other values of JSON are left out. */
function extremePart({ name, fn, path }: Measure, at: number, columns: Columns): Part {
  if (path === undefined) throw new TypeError('an extreme has a path')
  const column = columns(path)
  const [value, text] = [Sql.identifier(`v${at}`), Sql.identifier(`t${at}`)]
  const extreme = (of: Sql) => (fn === 'min' ? sql`min(${of})` : sql`max(${of})`)
  if (column.type !== 'jsonb') {
    const isId = column.type === 'uuid'
    const input = isId ? sql`${column.sql}::text collate "C"` : column.sql
    const part = plainPart(name, `m${at}`, { output: extreme(value), type: isId ? 'text' : column.type })
    return { ...part, inputs: [named(input, `v${at}`)] }
  }
  const texts = sql`case jsonb_typeof(${column.sql}) when 'string' then (${column.sql} #>> '{}') collate "C" end`
  const [ofTexts, ofNumbers] = [sql`to_jsonb(${extreme(text)})`, sql`to_jsonb(${extreme(value)})`]
  const output =
    fn === 'min' ? sql`coalesce(${ofTexts}, ${ofNumbers})` : sql`coalesce(${ofNumbers}, ${ofTexts})`
  const part = plainPart(name, `m${at}`, { output, type: 'jsonb' })
  return { ...part, inputs: [named(numericOf(column), `v${at}`), named(texts, `t${at}`)] }
}

/** The text whose canonical text comes first or last. A canonical text has no blank, which therefore ends it. */
function formatExtreme({ name, fn, path, as }: Measure, at: number, columns: Columns): Part {
  if (path === undefined) throw new TypeError('an extreme has a path')
  const [canonical, written] = [columns(path, as), columns(path)]
  const text = written.type === 'jsonb' ? sql`(${written.sql} #>> '{}')` : written.sql
  const [key, value] = [Sql.identifier(`m${at}`), Sql.identifier(`v${at}`)]
  const output = fn === 'min' ? sql`min(${value})` : sql`max(${value})`
  const part = (index: 0 | 1) => (row: Row) => {
    const pair = row[`m${at}`]
    if (typeof pair !== 'string') return null
    const blank = pair.indexOf(' ')
    return index === 0 ? pair.slice(0, blank) : pair.slice(blank + 1)
  }
  return {
    name,
    inputs: [named(sql`(${canonical.sql} || ' ' || ${text}) collate "C"`, `v${at}`)],
    outputs: [named(output, `m${at}`)],
    shown: [key],
    key: { sql: sql`(split_part(${key}, ' ', 1) collate "C")`, type: 'text' },
    read: part(1),
    keyOf: part(0),
  }
}
