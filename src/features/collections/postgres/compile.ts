/** Compiles filter, order and keyset to SQL over columns that the store names. Every value is bound. */

import { Problem } from '../../../core/problem.ts'
import type { Json } from '../../../core/work.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import {
  type Comparison,
  type Filter,
  isIndex,
  type Literal,
  type Members,
  mismatch,
  numberOrText,
  type OrderKey,
  type Path,
  type Pattern,
  pathText,
  type Scalar,
  type ScalarType,
  type Step,
  type Test,
  toType,
} from '../query/filter.ts'
import { behindPrefix, hasTrigrams, prefixOf } from '../query/operands.ts'
import type { Index } from '../schemas/api-types.ts'
import type { Format } from '../schemas/canonical-text.ts'

/** `jsonb` is compared as JSON, type by type; the others by the type of the column. */
type ColumnType = 'jsonb' | ScalarType

/**
 * The expression of a path's value. A jsonb expression may be JSON null, which counts as missing everywhere but in
 * `exists`: that tests `sql` and `orIn` for any value, since a typed column cannot hold JSON null.
 */
export interface Column {
  readonly sql: Sql
  readonly type: ColumnType
  readonly orIn?: Sql
  /** The column of the value itself, if this one holds its canonical text, which some values lack. */
  readonly written?: Column
  /** A uuid that may be missing. An id never is. */
  readonly nullable?: boolean
  /** The expression is computed for each row, so no index has its order; as for every jsonb expression. */
  readonly computed?: boolean
  /** The column of an array with a leakproof index of its elements. */
  readonly elements?: Sql
  /** The folded text of a column with a leakproof index for patterns. */
  readonly patterns?: Sql
}
/** @param as selects the canonical text in this format instead of the value */
export type Columns = (path: Path, as?: Format) => Column

/** Compiles a condition on the documents of another table. */
export type CompileRelated = (filter: Extract<Filter, { kind: 'related' }>) => Sql

const refuseRelated: CompileRelated = ({ path }) => {
  throw new Problem('not_supported', {
    detail: `A filter on the documents of a reference, such as ${pathText(path)}, is not supported here.`,
  })
}

/**
 * The filter as a condition.
 * @param related by default refuses filters on other documents
 * @throws Problem `filter_type_mismatch` if a literal is not of the column's type
 */
export function compileFilter(
  filter: Filter,
  columns: Columns,
  related: CompileRelated = refuseRelated,
): Sql {
  const part = (one: Filter) => compileFilter(one, columns, related)
  switch (filter.kind) {
    case 'all':
      return joined(filter.of, part, sql` and `, sql`true`)
    case 'any':
      return joined(filter.of, part, sql` or `, sql`false`)
    case 'null': {
      const value = orNull(writtenAt(columns(filter.path, filter.as)))
      return filter.not ? sql`${value} is not null` : sql`${value} is null`
    }
    case 'unknown':
      return sql`false`
    case 'deferred':
      return sql`true`
    case 'exists': {
      const test = exists(columns(filter.path))
      return filter.not ? sql`not ${test}` : test
    }
    case 'fields':
      return compareFields(filter, columns)
    case 'related':
      return related(filter)
    case 'test': {
      const column = columns(filter.path, filter.as)
      const test = compileTest(column, filter.test, filter.path)
      if (!filter.not) return test
      const opposite = oppositeOf(column, filter.test)
      if (opposite !== undefined) return compileTest(column, opposite, filter.path)
      return sql`(${orNull(writtenAt(column))} is not null and (${test}) is not true)`
    }
  }
}

const writtenAt = (column: Column): Column => column.written ?? column

/** The opposite comparison of a typed value, which can use an index. */
function oppositeOf({ type, written }: Column, test: Test): Test | undefined {
  return type !== 'jsonb' && written === undefined && 'value' in test && test.op !== 'at'
    ? { ...test, op: OPPOSITES[test.op] }
    : undefined
}

const OPPOSITES: Readonly<Record<Comparison, Comparison>> = { gt: 'lte', gte: 'lt', lt: 'gte', lte: 'gt' }

const exists = ({ sql: value, orIn }: Column): Sql =>
  orIn === undefined ? sql`(${value} is not null)` : sql`(${value} is not null or ${orIn} is not null)`

/** Maps JSON null to SQL null. Tests do not need it: JSON null passes none. */
const orNull = ({ sql: value, type }: Column): Sql =>
  type === 'jsonb' ? sql`nullif(${value}, 'null'::jsonb)` : value

/** The expression that rows are ordered by, null if the value is null or missing. */
const sortable = (column: Column): Sql => (column.type === 'jsonb' ? asElement(orNull(column)) : column.sql)

/** As the element of an array, since PostgreSQL orders `[]` below all scalars if it is a whole value. Null stays null. */
const asElement = (value: Sql): Sql => sql`jsonb_set('[0]', '{0}', ${value})`

function joined(of: readonly Filter[], compile: (filter: Filter) => Sql, by: Sql, none: Sql): Sql {
  const [first, ...rest] = of.map(compile)
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
      return equalsAtSteps(jsonOf(column, path, 'json_path_eq'), test.steps, test.value)
    case 'array':
      return compareArray(jsonOf(column, path, test.how), test.how, test.values, column.elements)
    case 'object':
      return compareObject(jsonOf(column, path, test.how), test.how, test.members)
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte':
      return compared(column, test.op, test.value, path)
  }
}

/** Null, and so neither true nor false, if one of the values is. */
function compareFields(
  { path, other, op, not, as }: Extract<Filter, { kind: 'fields' }>,
  columns: Columns,
): Sql {
  const [one, another] = [columns(path, as), columns(other, as)]
  // The field of a reference is a uuid, other fields of that format are texts.
  const isMixed = one.type !== another.type && [one.type, another.type].includes('uuid')
  const [a, b] = [one, another].map(({ sql: value }) => (isMixed ? sql`(${value}::text collate "C")` : value))
  if (a === undefined || b === undefined) throw new TypeError('a comparison has two sides')
  if (op === 'eq') return not ? sql`(${a} <> ${b})` : sql`(${a} = ${b})`
  return sql`(${a} ${SIGNS[not ? OPPOSITES[op] : op]} ${b})`
}

/** The column as an expression that may hold an array or an object. */
function jsonOf({ sql: value, type }: Column, path: Path, operator: string): Sql {
  if (type === 'jsonb') return value
  throw mismatch(path, type, operator)
}

/** One array as the only value: the statement's text does not grow with the list. */
function equal({ sql: value, type }: Column, values: readonly Literal[], path: Path): Sql {
  if (type === 'jsonb') return equalsAny(value, values.flat())
  const all = values.map((literal) => toType(literal, type, path))
  // No fraction equals a bigint, and among doubles its column would have no index.
  const bound = type === 'bigint' && all.length > 1 ? all.filter(Number.isSafeInteger) : all
  const [only] = bound
  if (only !== undefined && bound.length === 1) return sql`${value} = ${cast(only, type)}`
  const elements = sql`select form from jsonb_array_elements_text(${JSON.stringify(bound)}::jsonb) forms(form)`
  return sql`${value} = any(array(${elements})${CASTS[type]}[])`
}

function compared({ sql: value, type }: Column, op: Comparison, literal: Literal, path: Path): Sql {
  if (type !== 'jsonb') return sql`${value} ${SIGNS[op]} ${cast(toType(literal, type, path), type)}`
  const bound = numberOrText(literal, path)
  if (typeof bound === 'number')
    return sql`(jsonb_typeof(${value}) = 'number' and ${value} ${SIGNS[op]} ${JSON.stringify(bound)}::jsonb)`
  return sql`(jsonb_typeof(${value}) = 'string' and (${value} #>> '{}') collate "C" ${SIGNS[op]} ${bound}::text)`
}

const SIGNS: Readonly<Record<Comparison, Sql>> = { gt: sql`>`, gte: sql`>=`, lt: sql`<`, lte: sql`<=` }

function like({ sql: value, type, patterns }: Column, pattern: Pattern, fold: boolean, path: Path): Sql {
  const text = pattern.map(likePart).join('')
  if (patterns !== undefined && fold && hasTrigrams(pattern)) return narrowed(patterns, text)
  const matches = (of: Sql) =>
    fold ? sql`lower(${of}) like lower(${text}::text)` : sql`${of} like ${text}::text`
  // A column of code-point order folds ASCII alone; letters are folded as the database does elsewhere.
  if (type === 'text' && fold) return matches(sql`(${value} collate "default")`)
  if (type === 'text') {
    const ascii = asciiOf(pattern)
    const indexed =
      patterns === undefined || !hasTrigrams(ascii)
        ? sql``
        : sql`${narrowed(patterns, ascii.map(likePart).join(''))} and `
    return sql`(${indexed}${range(value, prefixOf(pattern))}${matches(value)})`
  }
  if (type !== 'jsonb') throw mismatch(path, 'text', `a ${type}`)
  return sql`(jsonb_typeof(${value}) = 'string' and ${matches(sql`(${value} #>> '{}')`)})`
}

/** A column of texts as its index of trigrams has it: that of the platform has texts folded, for `ilike`. */
export const comparedText = (column: Sql, { leakproof }: Pick<Index, 'leakproof'>): Sql =>
  leakproof ? sql`tenon.folded(${column} collate "default")` : column

const narrowed = (patterns: Sql, text: string): Sql =>
  sql`${patterns} operator(tenon.=~~) lower(${text}::text)`

/** A pattern of the ASCII characters alone: each text that matches the first does, when both are folded, match this one in every locale. */
const asciiOf = (pattern: Pattern): Pattern =>
  pattern.flatMap((part): Pattern => {
    if (typeof part !== 'object') return ['any']
    return part.text.split(/([^\0-\x7f]+)/u).flatMap((text, at): Pattern => {
      if (at % 2 === 1) return ['any']
      return text === '' ? [] : [{ text }]
    })
  })

/** The range of the pattern's first letters: `like` is not leakproof, so under row-level security it uses no index itself. */
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

/** Ids are never null, and a test for null would keep the planner from its index. */
const isId = ({ type, nullable }: Column) => type === 'uuid' && nullable !== true

/** `order by` of all keys; nulls where the key says. */
export function compileOrder(order: readonly OrderKey[], columns: Columns): Sql {
  const keys = order.map(({ path, as, descending, nullsFirst }) => {
    const direction = descending ? sql`desc` : sql`asc`
    const column = columns(path, as)
    // The index of ids has the order of `nulls last` in one direction only.
    if (order.length === 1 && isId(column)) return sql`${column.sql} ${direction}`
    return sql`${sortable(column)} ${direction} ${nullsFirst ? sql`nulls first` : sql`nulls last`}`
  })
  return keys.reduce((all, key) => sql`${all}, ${key}`)
}

/**
 * Rows behind the tuple, as disjoint conditions: equal in the first keys and behind in the next. Each is a range of an
 * index over the keys; joined by `or` they would not use it.
 */
export function compileAfter(order: readonly OrderKey[], after: readonly Json[], columns: Columns): Sql[] {
  const [key, ...rest] = order
  const [value = null, ...values] = after
  if (key === undefined) return []
  const column = columns(key.path, key.as)
  const missing = value === null || key.nullsFirst || isId(column) ? [] : [sql`${orNull(column)} is null`]
  const pair = pairAfter(order, after, columns)
  if (pair !== undefined) return [pair, ...missing]
  const tied =
    value === null ? sql`${orNull(column)} is null` : sql`${column.sql} = ${bind(column, value, key.path)}`
  const ties = compileAfter(rest, values, columns).map((afterRest) => sql`(${tied} and ${afterRest})`)
  return [...ties, ...rangeAfter(column, key, value), ...missing]
}

/** The last key but one and `id`, which is never null, as one comparison where they have one direction. */
function pairAfter(order: readonly OrderKey[], after: readonly Json[], columns: Columns): Sql | undefined {
  const [key, id, ...more] = order
  const [value = null, last = null] = after
  if (key === undefined || id === undefined || more.length > 0 || value === null) return undefined
  const [column, idColumn] = [columns(key.path, key.as), columns(id.path)]
  if (idColumn.type !== 'uuid' || key.descending !== id.descending) return undefined
  const sign = key.descending ? sql`<` : sql`>`
  const bound = sql`(${sortableBound(column, value, key.path)}, ${bind(idColumn, last, id.path)})`
  return sql`(${sortable(column)}, ${idColumn.sql}) ${sign} ${bound}`
}

function rangeAfter(column: Column, { path, descending, nullsFirst }: OrderKey, value: Json): Sql[] {
  if (value === null) return nullsFirst ? [sql`${orNull(column)} is not null`] : []
  const [at, bound] = [sortable(column), sortableBound(column, value, path)]
  return [descending ? sql`${at} < ${bound}` : sql`${at} > ${bound}`]
}

function bind({ type }: Column, value: Json, path: Path): Sql {
  return type === 'jsonb' ? sql`${JSON.stringify(value)}::jsonb` : cast(toType([value], type, path), type)
}

function sortableBound(column: Column, value: Json, path: Path): Sql {
  const bound = bind(column, value, path)
  return column.type === 'jsonb' ? asElement(bound) : bound
}

/** A fraction beside a bigint column is compared as one: `2 < 2.5`. */
function cast(value: Scalar, type: ScalarType): Sql {
  if (type === 'bigint' && !Number.isSafeInteger(value)) return sql`${value}::double precision`
  if (type === 'timestamptz') return sql`${new Date(String(value)).toISOString()}::timestamptz`
  return sql`${value}${CASTS[type]}`
}

/** By name: no text of a user is ever a type. */
export const CASTS: Readonly<Record<ColumnType, Sql>> = {
  text: sql`::text`,
  bigint: sql`::bigint`,
  'double precision': sql`::double precision`,
  boolean: sql`::boolean`,
  timestamptz: sql`::timestamptz`,
  uuid: sql`::uuid`,
  jsonb: sql`::jsonb`,
}

/** The value at a path inside a jsonb expression. */
export function within(base: Sql, path: readonly string[]): Sql {
  return path.reduce(member, base)
}

/** `#>` takes a number as key or index, as it comes; `->` with a text takes it as a key alone. */
const member = (base: Sql, name: string): Sql =>
  isIndex(name) ? sql`(${base} #> array[${name}::text])` : sql`(${base} -> ${name}::text)`

/** Equal to one of the forms. */
function equalsAny(value: Sql, forms: readonly Json[]): Sql {
  const [only] = forms
  if (forms.length === 1) return sql`${value} = ${JSON.stringify(only)}::jsonb`
  // Its name differs from that of the element of an enclosing array, which would hide it.
  return sql`${value} = any(array(select form from jsonb_array_elements(${JSON.stringify(forms)}::jsonb) forms(form)))`
}

/** Containment of jsonb has exceptions for scalars, so the type is tested as well. */
function compareArray(value: Sql, how: 'cs' | 'cd' | 'ov', literals: readonly Literal[], indexed?: Sql): Sql {
  const all = JSON.stringify(literals.flat())
  if (indexed !== undefined && how === 'ov') return containsOneOf(indexed, all)
  if (indexed !== undefined && how === 'cs') return containsEachIndexed(indexed, value, literals)
  const test = {
    cs: () => containsEach(value, literals),
    cd: () => sql`${value} <@ ${all}::jsonb`,
    ov: () =>
      sql`exists (select from jsonb_array_elements(${all}::jsonb) each(e) where ${containsElement(value)})`,
  }[how]
  return sql`(jsonb_typeof(${value}) = 'array' and ${test()})`
}

const containsElement = (value: Sql) => sql`${value} @> jsonb_build_array(e)`

const containsOneOf = (indexed: Sql, elements: string): Sql =>
  sql`(jsonb_typeof(${indexed}) = 'array' and ${indexed} operator(tenon.=@>)
    any(array(select jsonb_build_array(e) from jsonb_array_elements(${elements}::jsonb) each(e))))`

/** The index finds those with all elements of one form, or with a form of the first; where these are not all, the others are tested. */
function containsEachIndexed(indexed: Sql, value: Sql, literals: readonly Literal[]): Sql {
  const [first] = literals
  const single = literals.filter((literal) => literal.length === 1)
  const contains =
    single.length > 0 || first === undefined
      ? sql`(jsonb_typeof(${indexed}) = 'array' and ${indexed} operator(tenon.=@>) ${JSON.stringify(single.flat())}::jsonb)`
      : containsOneOf(indexed, JSON.stringify(first))
  return single.length === literals.length
    ? contains
    : sql`(${contains} and ${containsEach(value, literals)})`
}

/** The text of the statement does not grow with the list: a literal of several forms is a list of them. */
function containsEach(value: Sql, literals: readonly Literal[]): Sql {
  if (literals.every((literal) => literal.length === 1))
    return sql`${value} @> ${JSON.stringify(literals.flat())}::jsonb`
  const forms = sql`jsonb_array_elements(each.forms) form(e)`
  return sql`not exists (select from jsonb_array_elements(${JSON.stringify(literals)}::jsonb) each(forms)
    where not exists (select from ${forms} where ${containsElement(value)}))`
}

function compareObject(value: Sql, how: 'cs' | 'cd', members: Members): Sql {
  const sign = how === 'cs' ? sql`@>` : sql`<@`
  return sql`(jsonb_typeof(${value}) = 'object' and ${value} ${sign} ${JSON.stringify(members)}::jsonb)`
}

/**
 * Follows the steps without jsonpath, so no text of a user becomes one and nothing raises. An element is selected from
 * the elements of an array, since `-> 0` of a scalar is the scalar.
 */
function equalsAtSteps(value: Sql, steps: readonly Step[], literal: Literal): Sql {
  const [step, ...rest] = steps
  if (step === undefined) return equalsAny(value, literal)
  if (typeof step === 'object' && 'member' in step)
    return equalsAtSteps(sql`(${value} -> ${step.member}::text)`, rest, literal)
  const elements = sql`jsonb_array_elements(case jsonb_typeof(${value}) when 'array' then ${value} end)`
  const here = step === 'every' ? sql`` : sql`n = ${step.index}::bigint + 1 and `
  return sql`exists (select from ${elements} with ordinality each(e, n) where ${here}${equalsAtSteps(sql`e`, rest, literal)})`
}
