/** Applies a declaration to a query: rejects undeclared names of a closed schema, and types the literals. */

import { nearest } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import type { Problem } from '../../core/problem.ts'
import type { ProblemCode } from '../../core/problem-catalogue.ts'
import type { Json } from '../../core/work.ts'
import { ALL, type Filter, type Path, pathsOf, pathText } from './query/filter.ts'
import { refusal } from './query/syntax.ts'
import { formatAt, typed } from './query/typed-filter.ts'
import { canonicalOf, type Format } from './schemas/canonical-text.ts'
import type { Declaration } from './schemas/declaration-cache.ts'
import type { SchemaObject } from './schemas/schema-language.ts'
import type { Query } from './store.ts'

/** Prepares the query for a store. @throws Problem if it does not fit the declaration */
export function applyDeclaration(query: Query, declared: Declaration | undefined): Query {
  if (declared === undefined) return query
  checkPlaces(query, declared)
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

/** True if the path leads by the name of a reference to a field of another document. */
export const isOfOther = (path: Path, references: Declaration['references']): boolean =>
  path.length > 1 && references.some(({ as }) => as === path[0])

/** Without the tests of fields that are named in quotes, which are those of the document. */
function withoutOwn(filter: Filter): Filter {
  if ('of' in filter) return { ...filter, of: filter.of.map(withoutOwn) }
  return 'isOwn' in filter ? ALL : filter
}

/** Rejects a field of another document where only those of the document itself can stand. */
function checkPlaces({ filter, order }: Query, { references }: Declaration): void {
  if (references.length === 0) return
  const misplaced = (path: Path) => isOfOther(path, references)
  const sorted = order.find(({ path }) => misplaced(path))
  if (sorted !== undefined)
    throw refusal(
      { code: 'order_invalid', in: 'query', name: 'order' },
      `${pathText(sorted.path)} is a field of another document; documents are ordered by their own fields.`,
    )
  const tested = pathsOf(withoutOwn(filter)).find(misplaced)
  if (tested !== undefined)
    throw refusal(
      { code: 'filter_invalid', in: 'query', name: pathText(tested) },
      `${pathText(tested)} is a field of another document, which this filter does not reach.`,
      'Lists, queries, aggregates, exports and bulk changes take filters on the documents of references.',
    )
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
