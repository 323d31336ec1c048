/** Generated schemas of the language that collections take, and values that may or may not fit them. */

import fc from 'fast-check'
import type { Prepared } from '../../src/resources/schemas/language.ts'
import { isPending, validateDocument } from '../../src/resources/schemas/validate.ts'

/** The faults of a document whose validation takes few steps. */
export function faultsOf(prepared: Prepared, fields: object, validate = validateDocument) {
  const result = validate(prepared, fields)
  if (isPending(result)) throw new Error('takes too many steps')
  return result
}

// Not toString or constructor: the comparison in ajv calls the former and compares the latter.
const NAMES = ['a', 'b', 'isPrototypeOf', 'x y', '"]']
export const name = fc.constantFrom(...NAMES)
const scalar = fc.constantFrom<unknown>(null, true, false, 0, 1, -1, 1.5, 3, '', 'a', 'ab', '😀', 'b')
export const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalar,
    fc.array(tie('any'), { maxLength: 3 }),
    fc.dictionary(name, tie('any'), { maxKeys: 3, noNullPrototype: true }),
  ),
})).any

const count = fc.integer({ min: 0, max: 3 })
const type = fc.constantFrom('null', 'boolean', 'integer', 'number', 'string', 'array', 'object')
export const schema = fc.letrec((tie) => {
  const one = tie('schema')
  const some = fc.array(one, { minLength: 1, maxLength: 3 })
  const named = fc.dictionary(name, one, { maxKeys: 3, noNullPrototype: true })
  const names = fc.uniqueArray(name, { maxLength: 2 })
  const keywords = {
    type: fc.oneof(type, fc.uniqueArray(type, { minLength: 1, maxLength: 3 })),
    enum: fc.uniqueArray(scalar, { minLength: 1, maxLength: 4 }),
    const: value,
    minimum: count,
    exclusiveMaximum: count,
    multipleOf: fc.constantFrom(0.5, 1, 2),
    minLength: count,
    maxLength: count,
    pattern: fc.constantFrom('^a', 'b$', '^[ab]*$'),
    items: one,
    prefixItems: some,
    // Not any schema: ajv lets an empty array pass `contains: {}` beside `prefixItems`.
    contains: fc.constantFrom({ const: 1 }, { type: 'string' }),
    minItems: count,
    maxItems: count,
    uniqueItems: fc.boolean(),
    properties: named,
    patternProperties: fc.dictionary(fc.constantFrom('^a', 'g$', '.'), one, {
      maxKeys: 2,
      noNullPrototype: true,
    }),
    additionalProperties: one,
    propertyNames: one,
    required: names,
    minProperties: count,
    maxProperties: count,
    dependentRequired: fc.dictionary(name, names, { maxKeys: 2, noNullPrototype: true }),
    dependentSchemas: named,
    allOf: some,
    anyOf: some,
    oneOf: some,
    not: one,
    if: one,
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: one,
    else: one,
    $ref: fc.constantFrom('#/$defs/d', '#/$defs/e'),
  }
  const object = fc.record(keywords, { requiredKeys: [] }).map((all) => {
    const kept = Object.entries(all).slice(0, 4)
    return Object.fromEntries(kept)
  })
  return { schema: fc.oneof({ depthSize: 'small' }, fc.boolean(), fc.constant({}), object) }
}).schema
