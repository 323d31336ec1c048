/** Conditions of declarations: structured filters on one document, which tables keep in indexes and triggers. */

import Type, { type Static } from 'typebox'
import { nearest } from '../../../../flows-dsl/diagnostics/diagnostics.ts'
import { Problem } from '../../../core/problem.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { readBodyFilter } from '../query/body.ts'
import { type Filter, pathsOf, pathText, type Test } from '../query/filter.ts'
import { type FieldTypes, typed } from '../query/typed-filter.ts'

export const Condition = Type.Record(Type.String(), Type.Unknown(), {
  minProperties: 1,
  description:
    'Structured filter on declared fields, as in a query. `{"$field": "starts_at"}` in the place of a value is another field of the document.',
})
export type Condition = Static<typeof Condition>

/** @throws Problem of the query grammar, or `filter_type_mismatch` */
export const readCondition = (source: Condition, types: FieldTypes): Filter =>
  withoutLists(typed(readBodyFilter(source, { comparesFields: true }), types))

/** The declared fields that a filter uses. */
export const fieldsOf = (filter: Filter): string[] => [...new Set(pathsOf(filter).map(([name]) => name))]

/** @param names of the declared fields. @throws Problem that says what is wrong with a condition */
export function checkCondition(source: Condition, types: FieldTypes, names: readonly string[]): Filter {
  if (JSON.stringify(source).length > COLLECTION_LIMITS.ruleCharsMax)
    throw conditionProblem(`A condition has at most ${COLLECTION_LIMITS.ruleCharsMax} characters.`)
  const filter = readCondition(source, types)
  for (const name of fieldsOf(filter))
    if (!names.includes(name)) {
      const near = nearest(name, names)
      const hint = near === undefined ? '' : `; did you mean ${near}?`
      throw conditionProblem(`${pathText([name]).slice(0, 100)} is not a declared field${hint}`)
    }
  if (patternChars(filter) > COLLECTION_LIMITS.rulePatternCharsMax)
    throw conditionProblem(
      `The patterns of a condition have at most ${COLLECTION_LIMITS.rulePatternCharsMax} characters together.`,
    )
  return filter
}

const conditionProblem = (detail: string) => new Problem('validation_failed', { detail })

/** The characters of all patterns of a filter: comparing takes their product with the text. */
export function patternChars(filter: Filter): number {
  if ('of' in filter) return filter.of.reduce((sum, part) => sum + patternChars(part), 0)
  if (filter.kind !== 'test' || filter.test.op !== 'like') return 0
  return filter.test.pattern.reduce((sum, part) => sum + (typeof part === 'string' ? 1 : part.text.length), 0)
}

type OneTest = Extract<Filter, { kind: 'test' }>

/** Replaces lists of values by alternatives. In SQL a list is a subquery, which neither an index nor a trigger takes. */
function withoutLists(filter: Filter): Filter {
  if ('of' in filter) return { ...filter, of: filter.of.map(withoutLists) }
  if (filter.kind !== 'test') return filter
  const { test, path } = filter
  if (test.op === 'in' && test.values.length !== 1)
    return oneOf(
      filter,
      test.values.map((value) => ({ op: 'in', values: [value] })),
    )
  if (test.op === 'array' && test.how === 'ov')
    return oneOf(
      filter,
      test.values.map((value) => ({ op: 'array', how: 'cs', values: [value] })),
    )
  if (test.op !== 'at') return filter
  throw new Problem('not_supported', {
    detail: `${pathText(path)}: a condition of a declaration has no json_path_eq.`,
  })
}

const oneOf = (filter: OneTest, tests: readonly Test[]): Filter => ({
  kind: filter.not ? 'all' : 'any',
  of: tests.map((test) => ({ ...filter, test })),
})
