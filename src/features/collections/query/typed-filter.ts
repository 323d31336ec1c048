/** Gives the literals of a filter the types and formats that their fields are declared with. */

import type { Json } from '../../../core/work.ts'
import { canonicalLiteral, type Format, isFormat, type NumberFormat } from '../schemas/canonical-text.ts'
import type { Scalar } from '../schemas/columns.ts'
import {
  type Filter,
  type Literal,
  type Path,
  pathText,
  plusHint,
  type Test,
  typeMismatch,
} from './filter.ts'

/** The declared types of fields. */
export interface FieldTypes {
  /** Declared scalar properties, by which filters on them are compared. */
  readonly scalars: ReadonlyMap<string, Scalar>
  /** The formats of those texts that are compared by their format. */
  readonly formats: ReadonlyMap<string, Format>
}

export const formatAt = (
  [name, ...below]: Path,
  { formats }: Pick<FieldTypes, 'formats'>,
): Format | undefined => (below.length === 0 ? formats.get(name) : undefined)

/** Replaces literals on declared scalar properties by their form of that type. @throws Problem `filter_type_mismatch` */
export function typed(filter: Filter, declared: FieldTypes): Filter {
  if ('of' in filter) return { ...filter, of: filter.of.map((part) => typed(part, declared)) }
  if (filter.kind === 'exists' || filter.kind === 'unknown' || filter.kind === 'deferred') return filter
  if (filter.kind === 'fields') return typedFields(filter, declared)
  // Its literals have the types of the other collection.
  if (filter.kind === 'related') return filter
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
function typedFields(filter: Extract<Filter, { kind: 'fields' }>, { scalars, formats }: FieldTypes): Filter {
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
