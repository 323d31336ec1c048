/** Filters under a declaration: literals on declared properties have their types. */

import { Problem } from '../../core/problem.ts'
import type { Json } from '../../core/work.ts'
import type { Scalar } from '../schemas/columns.ts'
import type { Declaration } from '../schemas/declarations.ts'
import { type Filter, type Literal, pathText, type Test } from './grammar/filter.ts'

/** Literals on declared scalar properties become the one of their forms that has the type. */
export function typed(filter: Filter, declared: Declaration | undefined): Filter {
  return declared === undefined ? filter : typedBy(filter, declared.scalars)
}

function typedBy(filter: Filter, scalars: Declaration['scalars']): Filter {
  if (filter.kind === 'null') return filter
  if (filter.kind !== 'test') return { ...filter, of: filter.of.map((part) => typedBy(part, scalars)) }
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
