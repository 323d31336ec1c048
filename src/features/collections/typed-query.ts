/** Applies a declaration to a query: rejects undeclared names of a closed schema, and types the literals. */

import { nearest } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import type { Problem } from '../../core/problem.ts'
import type { ProblemCode } from '../../core/problem-catalogue.ts'
import type { Json } from '../../core/work.ts'
import {
  type Filter,
  type Literal,
  type Path,
  pathsOf,
  pathText,
  plusHint,
  type Test,
  typeMismatch,
} from './query/filter.ts'
import { refusal } from './query/syntax.ts'
import {
  canonicalLiteral,
  canonicalOf,
  type Format,
  isFormat,
  type NumberFormat,
} from './schemas/canonical-text.ts'
import type { Scalar } from './schemas/columns.ts'
import type { Declaration } from './schemas/declaration-cache.ts'
import type { SchemaObject } from './schemas/schema-language.ts'
import type { Query } from './store.ts'

/** Prepares the query for a store. @throws Problem if it does not fit the declaration */
export function applyDeclaration(query: Query, declared: Declaration | undefined): Query {
  if (declared === undefined) return query
  const closed = closedNames(declared)
  if (closed !== undefined) checkNames(query, closed)
  if (declared.mode === 'enforce') checkOrder(query.order, declared.scalars)
  return { ...query, filter: typed(query.filter, declared), ...ordered(query, declared) }
}

/** @throws Problem `select_invalid` if the schema is closed and has no such field */
export function checkSelected(selected: readonly string[], declared: Declaration | undefined): void {
  const closed = declared && closedNames(declared)
  if (closed !== undefined)
    checkNames({ filter: { kind: 'all', of: [] }, order: [], limit: 0, selected }, closed)
}

const SYSTEM_FIELDS = ['id', '_created_at', '_updated_at', '_version', '_owner']

/**
 * The top-level names that documents may have; undefined if they are unbounded: the schema is not enforced, or allows
 * further names or patterns of names.
 */
function closedNames({ mode, schema: { schema } }: Declaration): readonly string[] | undefined {
  if (mode !== 'enforce' || typeof schema === 'boolean') return undefined
  if (schema['additionalProperties'] !== false || schema['patternProperties'] !== undefined) return undefined
  return namesIn(schema)
}

/** The top-level names that a declaration gives documents: its properties, and the fields of the platform. */
export function declaredNames({ schema: { schema } }: Pick<Declaration, 'schema'>): readonly string[] {
  return typeof schema === 'boolean' ? SYSTEM_FIELDS : namesIn(schema)
}

const namesIn = (schema: SchemaObject): readonly string[] => [
  ...Object.keys(Object(schema['properties'])),
  ...SYSTEM_FIELDS,
]

function checkNames({ filter, order, selected = [] }: Query, known: readonly string[]): void {
  const used: readonly (readonly [ProblemCode, readonly string[]])[] = [
    ['filter_invalid', pathsOf(filter).map(([name]) => name)],
    ['order_invalid', order.map(({ path: [name] }) => name)],
    ['select_invalid', selected],
  ]
  for (const [code, names] of used) {
    const unknown = names.find((name) => !known.includes(name))
    if (unknown !== undefined) throw undeclared(code, unknown, known)
  }
}

function undeclared(code: ProblemCode, name: string, known: readonly string[]): Problem {
  const near = nearest(name, known)
  const detail = `${pathText([name]).slice(0, 100)} is not a field of this collection: its schema allows only declared fields.`
  const hint = near === undefined ? `There are ${known.slice(0, 20).join(', ')}.` : `Did you mean ${near}?`
  const place = code.split('_')[0] ?? ''
  return refusal({ code, in: 'query', name: code === 'filter_invalid' ? name : place }, detail, hint)
}

/** Rejects an order by a member of a scalar, which is usually a misspelt direction. */
function checkOrder(order: Query['order'], scalars: Declaration['scalars']): void {
  const misspelt = order.find(({ path: [name, ...below] }) => below.length > 0 && scalars.has(name))
  if (misspelt === undefined) return
  const [name, ...below] = misspelt.path
  const detail = `${name} is declared as ${scalars.get(name)}: there is no ${pathText(misspelt.path)} to order by.`
  const hint = `After ${name} stand asc or desc, and nullsfirst or nullslast, not ${below.join('.').slice(0, 50)}.`
  throw refusal({ code: 'order_invalid', in: 'query', name: 'order' }, detail, hint)
}

export const formatAt = (
  [name, ...below]: Path,
  { formats }: Pick<Declaration, 'formats'>,
): Format | undefined => (below.length === 0 ? formats.get(name) : undefined)

/** Orders texts of a format by their canonical texts, and translates the cursor's values. */
function ordered({ order, after }: Query, declared: Declaration): Pick<Query, 'order' | 'after'> {
  const formats = order.map(({ path }) => formatAt(path, declared))
  const keys = order.map((key, index) => {
    const as = formats[index]
    return as === undefined ? key : { ...key, as }
  })
  if (after === undefined) return { order: keys }
  return { order: keys, after: after.map((value, index) => canonicalBound(value, formats[index])) }
}

function canonicalBound(value: Json, format: Format | undefined): Json {
  if (format === undefined) return value
  return (typeof value === 'string' ? canonicalOf(format, value) : undefined) ?? null
}

/** Replaces literals on declared scalar properties by their form of that type. @throws Problem `filter_type_mismatch` */
export function typed(filter: Filter, declared: Pick<Declaration, 'scalars' | 'formats'>): Filter {
  if ('of' in filter) return { ...filter, of: filter.of.map((part) => typed(part, declared)) }
  if (filter.kind === 'exists' || filter.kind === 'unknown' || filter.kind === 'deferred') return filter
  if (filter.kind === 'fields') return typedFields(filter, declared)
  const format = formatAt(filter.path, declared)
  if (filter.kind === 'null') return { ...filter, ...(format && { as: format }) }
  const { path, test } = filter
  const scalar = path.length === 1 ? declared.scalars.get(path[0]) : undefined
  if (scalar === undefined) return filter
  if (test.op === 'like' || format === undefined)
    return { ...filter, test: typedTest(test, scalar, pathText(path)) }
  return { ...filter, test: typedTest(test, format, pathText(path)), as: format }
}

type Type = Scalar | Format

/** @throws Problem `filter_type_mismatch` unless both are declared fields of one type */
function typedFields(
  filter: Extract<Filter, { kind: 'fields' }>,
  { scalars, formats }: Pick<Declaration, 'scalars' | 'formats'>,
): Filter {
  const typeOf = (path: Path): Type | undefined => {
    const type = path.length === 1 ? (formats.get(path[0]) ?? scalars.get(path[0])) : undefined
    return type === 'integer' ? 'number' : type
  }
  const [field, other] = [pathText(filter.path), pathText(filter.other)]
  const type = typeOf(filter.path)
  const hint = 'Two fields are compared if both are declared with one scalar type and one format.'
  if (type === undefined || type !== typeOf(filter.other))
    throw typeMismatch(field, `The fields ${field} and ${other} are not declared with one type.`, hint)
  if (type === 'boolean' && filter.op !== 'eq') throw mismatch(field, type, 'it has no order')
  return isFormat(type) ? { ...filter, as: type } : filter
}

function typedTest(test: Test, type: Type, field: string): Test {
  const typedLiteral = (literal: Literal) => literalOf(literal, type, field)
  switch (test.op) {
    case 'in':
      return { ...test, values: test.values.map(typedLiteral) }
    case 'like':
      if (type !== 'string') throw mismatch(field, type, 'like and ilike compare texts')
      return test
    case 'at':
      throw mismatch(field, type, 'json_path_eq looks inside objects and arrays')
    case 'array':
    case 'object':
      throw mismatch(field, type, `${test.how} compares arrays and objects`)
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte':
      if (type === 'boolean') throw mismatch(field, type, 'it has no order')
      return { ...test, value: typedLiteral(test.value) }
  }
}

/** @throws Problem `filter_type_mismatch` if no form is of the type */
function literalOf(literal: Literal, type: Type, field: string): Literal {
  // Values of a format are texts: a number that the same literal spells may have lost digits.
  const forms = isFormat(type) ? literal.toReversed() : literal
  for (const form of forms) {
    const value = CONVERSIONS[type](form)
    if (value !== undefined) return [value]
  }
  const [got] = literal.slice(-1)
  const hint = HINTS[type]?.(field, got)
  throw mismatch(field, type, `got ${JSON.stringify(got)?.slice(0, 100)}`, hint)
}

const HINTS: Partial<Record<Type, (field: string, got: Json | undefined) => string>> = {
  'date-time': (field, got) => plusHint(String(got)) ?? `${field}=gte.2026-01-31T12:00:00Z`,
  decimal: (field) =>
    `Write the number as a text without an exponent: ${field}=gte.9.99, {"${field}": {"gte": "9.99"}}.`,
  int64: (field) =>
    `Write the number as a text of digits, from -2^63 to 2^63 - 1: {"${field}": {"gte": "9007199254740993"}}.`,
}

const inFormat = (format: Format) => (form: Json) =>
  typeof form === 'string' ? canonicalLiteral(format, form) : undefined

/** A number of JSON counts if it is what its writer wrote: a longer one may have been rounded when it was read. */
function inNumberFormat(format: NumberFormat): (form: Json) => Json | undefined {
  const convert = inFormat(format)
  return (form) => {
    if (typeof form !== 'number') return convert(form)
    const text = String(form)
    return text.replace(/[-.]/g, '').length <= DOUBLE_DIGITS ? convert(text) : undefined
  }
}

/** Digits of a decimal that a double keeps (IEEE 754 binary64). */
const DOUBLE_DIGITS = 15

/** Converts a form of a literal to a value of the type, if it is one. */
const CONVERSIONS: Readonly<Record<Type, (form: Json) => Json | undefined>> = {
  string: (form) => (typeof form === 'string' ? form : undefined),
  integer: (form) => (Number.isInteger(form) ? form : undefined),
  number: (form) => (typeof form === 'number' ? form : undefined),
  boolean: (form) => (typeof form === 'boolean' ? form : undefined),
  'date-time': inFormat('date-time'),
  date: inFormat('date'),
  uuid: inFormat('uuid'),
  decimal: inNumberFormat('decimal'),
  int64: inNumberFormat('int64'),
}

const mismatch = (field: string, type: Type, got: string, hint?: string) =>
  typeMismatch(field, `The field ${field} is declared as ${type}; ${got}.`, hint)
