/** A store under a declaration: documents are validated, filters have the types of the declared properties. */

import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { Json } from '../../core/work.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import type { Scalar } from '../schemas/columns.ts'
import type { Declaration } from '../schemas/declarations.ts'
import { type Fault, faultsOf } from '../schemas/validate.ts'
import { type Content, checkFields, type Fields } from './fields.ts'
import { type Filter, type Literal, pathText, type Test } from './grammar/filter.ts'
import type { Collection, Store, Stored, Updated } from './store.ts'

/** The store, with the rules of the collection's declaration before it. */
export function declaredStore(inner: Store, declared: Declaration): Store {
  return {
    get: inner.get,
    delete: inner.delete,
    create: async (scope, collection, id, content) => {
      const warnings = judge(declared, content.fields)
      return warned(await inner.create(scope, collection, id, content), warnings)
    },
    list: async (scope, collection, query) =>
      inner.list(scope, collection, { ...query, filter: typed(query.filter, declared.scalars) }),
    update: (scope, collection, id, content, ifVersion) =>
      declared.mode === 'off' && declared.store === 'document'
        ? inner.update(scope, collection, id, content, ifVersion)
        : update(inner, declared, { scope, collection, id, content, ifVersion }),
  }
}

/** The faults to warn of. @throws Problem `schema_violation` with all of them where the schema is enforced */
function judge({ mode, schema }: Declaration, fields: Fields): Fault[] {
  const faults = mode === 'off' ? [] : faultsOf(schema, fields)
  if (mode !== 'enforce' || faults.length === 0) return faults
  const detail = faults.map((fault) => `${fault.pointer || 'the document'} ${fault.detail}`).join('; ')
  throw new Problem('schema_violation', { detail, errors: faults })
}

const warned = (stored: Stored, warnings: readonly Fault[]): Stored =>
  warnings.length === 0 ? stored : { ...stored, warnings }

interface Update {
  readonly scope: WorkspaceScope
  readonly collection: Collection
  readonly id: string
  readonly content: Content
  readonly ifVersion: number | undefined
}

/**
 * What is judged is the document that comes out, so it is read first and written on the condition that nobody else
 * did meanwhile. Of several writers at once one gets through each time, so every round brings somebody home.
 */
async function update(inner: Store, declared: Declaration, asked: Update): Promise<Updated> {
  const { scope, collection, id, content, ifVersion } = asked
  for (let attempt = 0; attempt < LIMITS.updateAttemptsMax; attempt++) {
    const current = await inner.get(scope, collection, id)
    if (current === undefined) return undefined
    if (ifVersion !== undefined && ifVersion !== current.version) return { staleAt: current.version }
    const merged = checkFields({ ...current.fields, ...content.fields })
    const warnings = judge(declared, merged.fields)
    const updated = await inner.update(scope, collection, id, content, current.version)
    if (updated === undefined || !('staleAt' in updated))
      return updated && 'stored' in updated ? { stored: warned(updated.stored, warnings) } : updated
  }
  throw new Problem('overloaded', { detail: 'Too many writers change this document at once.' })
}

/** Literals on declared scalar properties become the one of their forms that has the type. */
function typed(filter: Filter, scalars: Declaration['scalars']): Filter {
  if (filter.kind === 'null') return filter
  if (filter.kind !== 'test') return { ...filter, of: filter.of.map((part) => typed(part, scalars)) }
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
