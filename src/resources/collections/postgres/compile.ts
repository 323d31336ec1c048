/** Filter, order and keyset as SQL over columns that the store names. Every value is bound. */

import type { Json } from '../../../core/work.ts'
import { type Sql, sql } from '../../../platform/pg/sql.ts'
import {
  type Comparison,
  type Filter,
  isIndex,
  type Literal,
  type Members,
  type OrderKey,
  type Path,
  type Pattern,
  type Step,
  type Test,
} from '../grammar/filter.ts'
import { behindPrefix, prefixOf } from '../grammar/pattern.ts'
import { mismatch, type Scalar, type ScalarType, toType } from '../grammar/typed.ts'

/** `jsonb` is compared as JSON is, type by type; the others as the column is. */
type ColumnType = 'jsonb' | ScalarType

/**
 * Where a path's value stands. A jsonb expression may be JSON null, which counts as missing everywhere but in
 * `exists`: that asks for a value at all, of `sql` or of `orIn`, where a column of its own has no room for null.
 */
export interface Column {
  readonly sql: Sql
  readonly type: ColumnType
  readonly orIn?: Sql
}
export type Columns = (path: Path) => Column

/** The value at a path inside a jsonb expression. */
export function within(base: Sql, path: readonly string[]): Sql {
  return path.reduce(member, base)
}

/** `#>` takes a number as key or index, as it comes; `->` with a text takes it as a key alone. */
const member = (base: Sql, name: string): Sql =>
  isIndex(name) ? sql`(${base} #> array[${name}::text])` : sql`(${base} -> ${name}::text)`

/**
 * The filter as a condition.
 * @throws Problem `filter_type_mismatch` where a literal is not of the column's type
 */
export function compileFilter(filter: Filter, columns: Columns): Sql {
  switch (filter.kind) {
    case 'all':
      return joined(filter.of, columns, sql` and `, sql`true`)
    case 'any':
      return joined(filter.of, columns, sql` or `, sql`false`)
    case 'null': {
      const value = orNull(columns(filter.path))
      return filter.not ? sql`${value} is not null` : sql`${value} is null`
    }
    case 'exists': {
      const there = exists(columns(filter.path))
      return filter.not ? sql`not ${there}` : there
    }
    case 'test': {
      const column = columns(filter.path)
      const test = compileTest(column, filter.test, filter.path)
      if (!filter.not) return test
      return sql`(${orNull(column)} is not null and (${test}) is not true)`
    }
  }
}

const exists = ({ sql: value, orIn }: Column): Sql =>
  orIn === undefined ? sql`(${value} is not null)` : sql`(${value} is not null or ${orIn} is not null)`

/** With one null for both. A test needs it not: JSON null passes none. */
const orNull = ({ sql: value, type }: Column): Sql =>
  type === 'jsonb' ? sql`nullif(${value}, 'null'::jsonb)` : value

function joined(of: readonly Filter[], columns: Columns, by: Sql, none: Sql): Sql {
  const parts = of.map((filter) => compileFilter(filter, columns))
  const [first, ...rest] = parts
  if (first === undefined) return none
  return sql`(${rest.reduce((all, part) => sql`${all}${by}${part}`, first)})`
}

function compileTest(column: Column, test: Test, path: Path): Sql {
  switch (test.op) {
    case 'in':
      return equal(column, test.values, path)
    case 'like':
      return like(column, test.pattern, test.fold, path)
    case 'at':
      return below(inside(column, path, 'json_path_eq'), test.steps, test.value)
    case 'array':
      return compareArray(inside(column, path, test.how), test.how, test.values)
    case 'object':
      return compareObject(inside(column, path, test.how), test.how, test.members)
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte':
      return compared(column, test.op, test.value, path)
  }
}

/** What may be an array or an object. */
function inside({ sql: value, type }: Column, path: Path, operator: string): Sql {
  if (type === 'jsonb') return value
  throw mismatch(path, type, operator)
}

/** One array as the only value: the statement's text does not grow with the list. */
function equal({ sql: value, type }: Column, values: readonly Literal[], path: Path): Sql {
  if (type === 'jsonb') return among(value, values.flat())
  const bound = values.map((literal) => toType(literal, type, path))
  const [only] = bound
  if (only !== undefined && bound.length === 1) return sql`${value} = ${cast(only, type)}`
  const elements = sql`select e from jsonb_array_elements_text(${JSON.stringify(bound)}::jsonb) e`
  return sql`${value} = any(array(${elements})${ARRAYS[type]})`
}

function among(value: Sql, forms: readonly Json[]): Sql {
  const [only] = forms
  if (forms.length === 1) return sql`${value} = ${JSON.stringify(only)}::jsonb`
  return sql`${value} = any(array(select e from jsonb_array_elements(${JSON.stringify(forms)}::jsonb) e))`
}

function compared({ sql: value, type }: Column, op: Comparison, literal: Literal, path: Path): Sql {
  if (type !== 'jsonb') return sql`${value} ${SIGNS[op]} ${cast(toType(literal, type, path), type)}`
  const number = literal.find((form) => typeof form === 'number')
  if (number !== undefined)
    return sql`(jsonb_typeof(${value}) = 'number' and ${value} ${SIGNS[op]} ${JSON.stringify(number)}::jsonb)`
  const text = literal.find((form) => typeof form === 'string')
  if (text === undefined) throw mismatch(path, 'number or text', JSON.stringify(literal[0]))
  return sql`(jsonb_typeof(${value}) = 'string' and (${value} #>> '{}') collate "C" ${SIGNS[op]} ${text}::text)`
}

const SIGNS: Readonly<Record<Comparison, Sql>> = { gt: sql`>`, gte: sql`>=`, lt: sql`<`, lte: sql`<=` }

function like({ sql: value, type }: Column, pattern: Pattern, fold: boolean, path: Path): Sql {
  const text = pattern.map(likePart).join('')
  const matches = (of: Sql) =>
    fold ? sql`lower(${of}) like lower(${text}::text)` : sql`${of} like ${text}::text`
  // A column of code-point order folds ASCII alone; letters are folded as the database does elsewhere.
  if (type === 'text' && fold) return matches(sql`(${value} collate "default")`)
  if (type === 'text') return sql`(${range(value, prefixOf(pattern))}${matches(value)})`
  if (type !== 'jsonb') throw mismatch(path, 'text', `a ${type}`)
  return sql`(jsonb_typeof(${value}) = 'string' and ${matches(sql`(${value} #>> '{}')`)})`
}

/** `like` is not leakproof, so under row-level security an index serves the range that its first letters mean. */
function range(value: Sql, prefix: string | undefined): Sql {
  if (prefix === undefined) return sql``
  const beyond = behindPrefix(prefix)
  const upper = beyond === undefined ? sql`` : sql`${value} < ${beyond}::text and `
  return sql`${value} >= ${prefix}::text and ${upper}`
}

function likePart(part: Pattern[number]): string {
  if (part === 'any') return '%'
  if (part === 'one') return '_'
  return part.text.replaceAll(/[\\%_]/g, '\\$&')
}

/** Containment of jsonb has exceptions for scalars, so the type is asked as well. */
function compareArray(value: Sql, how: 'cs' | 'cd' | 'ov', literals: readonly Literal[]): Sql {
  const all = JSON.stringify(literals.flat())
  const test = {
    cs: () => containsEach(value, literals),
    cd: () => sql`${value} <@ ${all}::jsonb`,
    ov: () => sql`exists (select from jsonb_array_elements(${all}::jsonb) each(e) where ${holds(value)})`,
  }[how]
  return sql`(jsonb_typeof(${value}) = 'array' and ${test()})`
}

const holds = (value: Sql) => sql`${value} @> jsonb_build_array(e)`

/** The statement's text does not grow with the list: where a literal has several forms, each is a list of them. */
function containsEach(value: Sql, literals: readonly Literal[]): Sql {
  if (literals.every((literal) => literal.length === 1))
    return sql`${value} @> ${JSON.stringify(literals.flat())}::jsonb`
  const forms = sql`jsonb_array_elements(each.forms) form(e)`
  return sql`not exists (select from jsonb_array_elements(${JSON.stringify(literals)}::jsonb) each(forms)
    where not exists (select from ${forms} where ${holds(value)}))`
}

function compareObject(value: Sql, how: 'cs' | 'cd', members: Members): Sql {
  const sign = how === 'cs' ? sql`@>` : sql`<@`
  return sql`(jsonb_typeof(${value}) = 'object' and ${value} ${sign} ${JSON.stringify(members)}::jsonb)`
}

/**
 * Walks without jsonpath: no text of a user is ever one, and no mode of it raises. An element is looked for among all
 * of them: of a scalar, PostgreSQL's `-> 0` is the scalar.
 */
function below(value: Sql, steps: readonly Step[], literal: Literal): Sql {
  const [step, ...rest] = steps
  if (step === undefined) return among(value, literal)
  if (typeof step === 'object' && 'member' in step)
    return below(sql`(${value} -> ${step.member}::text)`, rest, literal)
  const elements = sql`jsonb_array_elements(case jsonb_typeof(${value}) when 'array' then ${value} end)`
  const here = step === 'every' ? sql`` : sql`n = ${step.index}::bigint + 1 and `
  return sql`exists (select from ${elements} with ordinality each(e, n) where ${here}${below(sql`e`, rest, literal)})`
}

/** `order by` of all keys; nulls where the key says. */
export function compileOrder(order: readonly OrderKey[], columns: Columns): Sql {
  const keys = order.map(({ path, descending, nullsFirst }) => {
    const direction = descending ? sql`desc` : sql`asc`
    return sql`${orNull(columns(path))} ${direction} ${nullsFirst ? sql`nulls first` : sql`nulls last`}`
  })
  return keys.reduce((all, key) => sql`${all}, ${key}`)
}

/** Rows behind the tuple: behind in the first key, or equal in it and behind in the second, and so on. */
export function compileAfter(order: readonly OrderKey[], after: readonly Json[], columns: Columns): Sql {
  const [key, ...rest] = order
  const [value = null, ...values] = after
  if (key === undefined) return sql`false`
  const column = columns(key.path)
  const ahead = behind(column, key, value)
  if (rest.length === 0) return ahead
  const tied =
    value === null ? sql`${orNull(column)} is null` : sql`${column.sql} = ${bind(column, value, key.path)}`
  return sql`(${ahead} or (${tied} and ${compileAfter(rest, values, columns)}))`
}

function behind(column: Column, { path, descending, nullsFirst }: OrderKey, value: Json): Sql {
  const at = orNull(column)
  if (value === null) return nullsFirst ? sql`${at} is not null` : sql`false`
  const bound = bind(column, value, path)
  const beyond = descending ? sql`${at} < ${bound}` : sql`${at} > ${bound}`
  return nullsFirst ? beyond : sql`(${beyond} or ${at} is null)`
}

function bind({ type }: Column, value: Json, path: Path): Sql {
  return type === 'jsonb' ? sql`${JSON.stringify(value)}::jsonb` : cast(toType([value], type, path), type)
}

/** A fraction beside a bigint column is compared as one: `2 < 2.5`. */
function cast(value: Scalar, type: ScalarType): Sql {
  if (type === 'bigint' && !Number.isSafeInteger(value)) return sql`${value}::double precision`
  if (type === 'timestamptz') return sql`${new Date(String(value)).toISOString()}::timestamptz`
  return sql`${value}${CASTS[type]}`
}

const CASTS: Readonly<Record<ScalarType, Sql>> = {
  text: sql`::text`,
  bigint: sql`::bigint`,
  'double precision': sql`::double precision`,
  boolean: sql`::boolean`,
  timestamptz: sql`::timestamptz`,
  uuid: sql`::uuid`,
}

const ARRAYS: Readonly<Record<ScalarType, Sql>> = {
  text: sql`::text[]`,
  bigint: sql`::double precision[]`,
  'double precision': sql`::double precision[]`,
  boolean: sql`::boolean[]`,
  timestamptz: sql`::timestamptz[]`,
  uuid: sql`::uuid[]`,
}
