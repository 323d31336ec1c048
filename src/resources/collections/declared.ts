/** A query under a declaration: its names are declared where the schema is closed, its literals have their types. */

import { nearest } from '../../../flows-dsl/faults.ts'
import { Problem, type ProblemCode } from '../../core/problem.ts'
import type { Json } from '../../core/work.ts'
import type { Scalar } from '../schemas/columns.ts'
import type { Declaration } from '../schemas/declarations.ts'
import { type Filter, type Literal, pathsOf, pathText, type Test } from './grammar/filter.ts'
import type { Query } from './store.ts'

/** The query as the store is to run it. @throws Problem where it does not fit the declaration */
export function asDeclared(query: Query, declared: Declaration | undefined): Query {
  if (declared === undefined) return query
  const closed = closedNames(declared)
  if (closed !== undefined) checkNames(query, closed)
  if (declared.mode === 'enforce') checkOrder(query.order, declared.scalars)
  return { ...query, filter: typed(query.filter, declared.scalars) }
}

/** @throws Problem `select_invalid` where the schema is closed and has no such field */
export function checkSelected(selected: readonly string[], declared: Declaration | undefined): void {
  const closed = declared && closedNames(declared)
  if (closed !== undefined)
    checkNames({ filter: { kind: 'all', of: [] }, order: [], limit: 0, selected }, closed)
}

const OURS = ['id', '_created_at', '_updated_at', '_version']

/**
 * The names that documents may have at the top; undefined where they may have others. Where the schema is not
 * enforced they may whatever it says, and a pattern names nobody knows how many.
 */
function closedNames({ mode, schema: { schema } }: Declaration): readonly string[] | undefined {
  if (mode !== 'enforce' || typeof schema === 'boolean') return undefined
  if (schema['additionalProperties'] !== false || schema['patternProperties'] !== undefined) return undefined
  return [...Object.keys(Object(schema['properties'])), ...OURS]
}

function checkNames({ filter, order, selected = [] }: Query, known: readonly string[]): void {
  const asked: readonly (readonly [ProblemCode, readonly string[]])[] = [
    ['filter_invalid', pathsOf(filter).map(([name]) => name)],
    ['order_invalid', order.map(({ path: [name] }) => name)],
    ['select_invalid', selected],
  ]
  for (const [code, names] of asked) {
    const unknown = names.find((name) => !known.includes(name))
    if (unknown !== undefined) throw undeclared(code, unknown, known)
  }
}

function undeclared(code: ProblemCode, name: string, known: readonly string[]): Problem {
  const near = nearest(name, known)
  const detail = `${pathText([name]).slice(0, 100)} is no field of this collection: its schema has no others than those declared.`
  const hint = near === undefined ? `There are ${known.slice(0, 20).join(', ')}.` : `Did you mean ${near}?`
  const place = code.split('_')[0] ?? ''
  const errors = [
    { in: 'query', name: code === 'filter_invalid' ? name : place, pointer: '', detail },
  ] as const
  return new Problem(code, { detail, hint, errors })
}

/** Below a scalar there is nothing to order by: what stands there was to be a direction. */
function checkOrder(order: Query['order'], scalars: Declaration['scalars']): void {
  const slip = order.find(({ path: [name, ...below] }) => below.length > 0 && scalars.has(name))
  if (slip === undefined) return
  const [name, ...below] = slip.path
  const detail = `${name} is declared as ${scalars.get(name)}: there is no ${pathText(slip.path)} to order by.`
  const hint = `After ${name} stand asc or desc, and nullsfirst or nullslast, not ${below.join('.').slice(0, 50)}.`
  throw new Problem('order_invalid', {
    detail,
    hint,
    errors: [{ in: 'query', name: 'order', pointer: '', detail }],
  })
}

/** Literals on declared scalar properties become the one of their forms that has the type. */
function typed(filter: Filter, scalars: Declaration['scalars']): Filter {
  if ('of' in filter) return { ...filter, of: filter.of.map((part) => typed(part, scalars)) }
  if (filter.kind !== 'test') return filter
  const [name, ...below] = filter.path
  const scalar = below.length === 0 ? scalars.get(name) : undefined
  return scalar === undefined
    ? filter
    : { ...filter, test: typedTest(filter.test, scalar, pathText(filter.path)) }
}

function typedTest(test: Test, scalar: Scalar, field: string): Test {
  const typedLiteral = (literal: Literal): Literal => {
    const form = literal.find(FORMS[scalar])
    if (form === undefined)
      throw mismatch(field, scalar, `got ${JSON.stringify(literal.at(-1))?.slice(0, 100)}`)
    return [form]
  }
  switch (test.op) {
    case 'in':
      return { ...test, values: test.values.map(typedLiteral) as Literal[] }
    case 'like':
      if (scalar !== 'string') throw mismatch(field, scalar, 'like and ilike compare texts')
      return test
    case 'at':
      throw mismatch(field, scalar, 'json_path_eq looks inside objects and arrays')
    case 'array':
    case 'object':
      throw mismatch(field, scalar, `${test.how} compares arrays and objects`)
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte':
      if (scalar === 'boolean') throw mismatch(field, scalar, 'it has no order')
      return { ...test, value: typedLiteral(test.value) }
  }
}

const FORMS: Readonly<Record<Scalar, (form: Json) => boolean>> = {
  string: (form) => typeof form === 'string',
  integer: (form) => typeof form === 'number' && Number.isInteger(form),
  number: (form) => typeof form === 'number',
  boolean: (form) => typeof form === 'boolean',
}

function mismatch(field: string, scalar: Scalar, got: string): Problem {
  const detail = `The field ${field} is declared as ${scalar}; ${got}.`
  return new Problem('filter_type_mismatch', {
    detail,
    errors: [{ in: 'query', name: field, pointer: '', detail }],
  })
}
