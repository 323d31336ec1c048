/** Applies a declaration to an aggregate: rejects undeclared names of a closed schema and functions that do not fit, and types the literals. */

import { type Path, pathText } from '../query/filter.ts'
import { refusal, type Source } from '../query/syntax.ts'
import { formatAt, typed } from '../query/typed-filter.ts'
import { type Format, isNumberFormat } from '../schemas/canonical-text.ts'
import type { Scalar } from '../schemas/columns.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import { applyDeclaration, checkSelected, isOfOther } from '../typed-query.ts'
import type { Aggregate, Group, Measure } from './aggregate.ts'

const SELECT: Source = { code: 'select_invalid', in: 'query', name: 'select' }

type Types = Pick<Declaration, 'scalars' | 'formats'>
const UNTYPED: Types = { scalars: new Map(), formats: new Map() }

/** Types of the fields of the platform. A measure of `id` or `_owner` is that of a text. */
const SYSTEM: Readonly<Record<string, Scalar | 'timestamp'>> = {
  id: 'string',
  _owner: 'string',
  _version: 'integer',
  _created_at: 'timestamp',
  _updated_at: 'timestamp',
}

/** Prepares an aggregate for a store. @throws Problem if it does not fit the declaration, or a function its field */
export function applyToAggregate(aggregate: Aggregate, declared: Declaration | undefined): Aggregate {
  const { filter } = applyDeclaration({ filter: aggregate.filter, order: [], limit: 0 }, declared)
  const columns = [...aggregate.groups, ...aggregate.measures]
  checkSelected(
    columns.flatMap(({ path }) => (path === undefined ? [] : [path[0]])),
    declared,
  )
  for (const { path } of columns)
    if (path !== undefined && declared !== undefined && isOfOther(path, declared.references))
      throw refusal(
        SELECT,
        `${pathText(path)} is a field of another document; an aggregate is of the documents' own fields.`,
      )
  const types = declared?.mode === 'enforce' ? declared : UNTYPED
  const formats = declared ?? UNTYPED
  const groups = aggregate.groups.map((group) => typedGroup(group, types, formats))
  const measures = aggregate.measures.map((measure) => typedMeasure(measure, types, formats))
  const having = typed(aggregate.having, typesOfMeasures(measures, types))
  return { ...aggregate, filter, groups, measures, having }
}

const isSystem = (path: Path): boolean => path.length === 1 && Object.hasOwn(SYSTEM, path[0])

function typeAt(path: Path, { scalars }: Types): Scalar | 'timestamp' | undefined {
  if (isSystem(path)) return SYSTEM[path[0]]
  return path.length === 1 ? scalars.get(path[0]) : undefined
}

function typedGroup(group: Group, types: Types, formats: Types): Group {
  const { path, bucket } = group
  const format = isSystem(path) ? undefined : formatAt(path, formats)
  if (bucket === undefined) return format === undefined ? group : { ...group, as: format }
  const type = typeAt(path, types)
  if (format === 'date') return { ...group, as: checkDate(group, format) }
  const isTime = type === 'timestamp' || type === undefined || (type === 'string' && format === 'date-time')
  if (!isTime) {
    const hint = 'Buckets are of _created_at, _updated_at, and of texts of the format date-time or date.'
    throw refusal(SELECT, `${pathText(path)} is declared as ${nameOf(type, format)}, which is no time.`, hint)
  }
  return type === 'timestamp' ? group : { ...group, as: 'date-time' }
}

/** A date has neither hours nor a time zone. */
function checkDate({ path, bucket }: Group, format: Format): Format {
  const detail = `${pathText(path)} is declared as date`
  if (bucket?.unit === 'minute' || bucket?.unit === 'hour')
    throw refusal(SELECT, `${detail}, which has no ${bucket.unit}.`, 'Write bucket(day).')
  if (bucket !== undefined && bucket.zone !== 'UTC')
    throw refusal(SELECT, `${detail}, which is in no time zone.`, `Write bucket(${bucket.unit}).`)
  return format
}

function typedMeasure(measure: Measure, types: Types, formats: Types): Measure {
  const { fn, path } = measure
  if (path === undefined || fn === 'count') return measure
  const format = isSystem(path) ? undefined : formatAt(path, formats)
  const type = typeAt(path, types)
  const field = pathText(path)
  const isNumber = type === undefined || type === 'integer' || type === 'number' || isNumberFormat(format)
  if ((fn === 'sum' || fn === 'avg') && !isNumber) {
    const detail = `${field} is declared as ${nameOf(type, format)}; ${fn} needs numbers.`
    throw refusal(SELECT, detail, `Write ${field}.count().`)
  }
  if ((fn === 'min' || fn === 'max') && type === 'boolean') {
    const detail = `${field} is declared as boolean, which has no order.`
    throw refusal(SELECT, detail, `Group by ${field}, and count().`)
  }
  if (format === undefined || ((fn === 'sum' || fn === 'avg') && !isNumberFormat(format))) return measure
  return { ...measure, as: format }
}

const nameOf = (type: Scalar | 'timestamp' | undefined, format: Format | undefined): string =>
  format ?? type ?? 'any'

/** The condition `having` with literals of the types of its measures. */
function typesOfMeasures(measures: readonly Measure[], types: Types): Types {
  const scalars = new Map<string, Scalar>()
  const formats = new Map<string, Format>()
  for (const { name, fn, path, as } of measures) {
    const isExtreme = fn === 'min' || fn === 'max'
    // A sum of texts is a text itself.
    const isText = fn === 'sum' && as !== undefined
    if (isText) formats.set(name, 'decimal')
    if (!isExtreme) scalars.set(name, isText ? 'string' : 'number')
    if (!isExtreme || path === undefined) continue
    const type = typeAt(path, types)
    if (type !== undefined && type !== 'timestamp') scalars.set(name, type)
    if (as !== undefined && type !== undefined) formats.set(name, as)
  }
  return { scalars, formats }
}
