/** The evaluation of schemas against another implementation, and the judgement of patterns. */

import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { checkSchema } from '../../src/resources/schemas/language.ts'
import { isCalm, patternFault } from '../../src/resources/schemas/patterns.ts'
import { prepare } from '../../src/resources/schemas/prepare.ts'
import { faultsOf } from '../../src/resources/schemas/validate.ts'

// Not toString or constructor: the comparison in ajv calls the former and compares the latter.
const NAMES = ['a', 'b', 'isPrototypeOf', 'x y', '"]']
const name = fc.constantFrom(...NAMES)
const scalar = fc.constantFrom<unknown>(null, true, false, 0, 1, -1, 1.5, 3, '', 'a', 'ab', '😀', 'b')
const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalar,
    fc.array(tie('any'), { maxLength: 3 }),
    fc.dictionary(name, tie('any'), { maxKeys: 3, noNullPrototype: true }),
  ),
})).any

const count = fc.integer({ min: 0, max: 3 })
const type = fc.constantFrom('null', 'boolean', 'integer', 'number', 'string', 'array', 'object')
const schema = fc.letrec((tie) => {
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

test('what is valid is valid to ajv as well, and the other way round', () => {
  const ajv = new Ajv2020({ strict: false, logger: false, addUsedSchema: false, ownProperties: true })
  const d = { type: ['string', 'number', 'object'] }
  const e = { anyOf: [{ $ref: '#/$defs/d' }, { maxItems: 1 }] }
  let valid = 0
  let invalid = 0
  fc.assert(
    fc.property(schema, fc.array(value, { minLength: 5, maxLength: 5 }), (below, values) => {
      const whole = { properties: { v: below }, $defs: { d, e } }
      const prepared = prepare(checkSchema(whole))
      const judge = ajv.compile(whole)
      for (const v of values) {
        const expected = judge({ v })
        expect([whole, v, faultsOf(prepared, { v }).length === 0]).toEqual([whole, v, expected])
        if (expected) valid += 1
        else invalid += 1
      }
    }),
    { numRuns: 300, seed: 5 },
  )
  expect(Math.min(valid, invalid)).toBeGreaterThan(200)
})

test.each([
  ['^[a-z0-9]+$', undefined, true],
  ['^\\d{3}-\\d{4}$', undefined, true],
  ['^[a-z0-9]+(?:-[a-z0-9]+)*$', undefined, false],
  ['^[(*+|]+$', undefined, true],
  ['a|b', undefined, false],
  ['(a)\\1', undefined, false],
  ['^(a+)+$', 'repeats a repetition', false],
  ['^(?:[a-z]*){2,}$', 'repeats a repetition', false],
  ['[', 'is not a regular expression', true],
  ['a'.repeat(201), 'is longer', true],
])('the pattern %s', (pattern, fault, calm) => {
  if (fault === undefined) expect(patternFault(pattern)).toBeUndefined()
  else expect(patternFault(pattern)).toContain(fault)
  expect(isCalm(pattern)).toBe(calm)
})
