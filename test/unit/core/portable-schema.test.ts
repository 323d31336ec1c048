/** Schemas of tools for providers of models: other words, the same values. */

import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { portableSchema } from '../../../src/core/portable-schema.ts'

const ANY = { anyOf: ['string', 'number', 'boolean', 'object', 'array', 'null'].map((type) => ({ type })) }

test.each([
  ['no keyword', { description: 'x' }, { description: 'x', ...ANY }],
  [
    'a list of types',
    { type: ['string', 'null'], minLength: 1 },
    { anyOf: [{ type: 'string' }, { type: 'null' }], minLength: 1 },
  ],
  [
    'a list of types beside anyOf',
    { type: ['string', 'null'], anyOf: [{ minLength: 1 }] },
    { anyOf: [{ minLength: 1 }], allOf: [{ anyOf: [{ type: 'string' }, { type: 'null' }] }] },
  ],
  [
    'any values by any name',
    { type: 'object', patternProperties: { '^.*$': {} } },
    { type: 'object', additionalProperties: true },
  ],
  [
    'numbers by any name',
    { type: 'object', patternProperties: { '^': { type: 'number' } } },
    { type: 'object', additionalProperties: { type: 'number' } },
  ],
  ['booleans', { properties: { a: true, b: false } }, { properties: { a: ANY, b: { not: {} } } }],
  [
    'open objects',
    { properties: {}, additionalProperties: {} },
    { properties: {}, additionalProperties: true },
  ],
  [
    'closed objects',
    { properties: {}, additionalProperties: false },
    { properties: {}, additionalProperties: false },
  ],
  ['items', { type: 'array', items: {} }, { type: 'array', items: ANY }],
  ['a field named type', { properties: { type: {} } }, { properties: { type: ANY } }],
  ['values that look like schemas', { const: {}, default: {} }, { const: {}, default: {} }],
  ['what a field must not be', { not: {} }, { not: {} }],
])('%s: written in a portable way', (_what, schema, written) => {
  expect(portableSchema(schema)).toEqual(written)
})

test('schemas at random: accept the same values as before', () => {
  const types = ['string', 'number', 'object', 'array', 'null', 'boolean']
  const { schema } = fc.letrec((tie) => ({
    schema: fc.oneof(
      { maxDepth: 4, depthSize: 'small' },
      fc.constant({}),
      fc.boolean(),
      fc.record({ type: fc.uniqueArray(fc.constantFrom(...types), { minLength: 1 }) }),
      fc.record({
        anyOf: fc.array(tie('schema'), { minLength: 1, maxLength: 3 }),
        type: fc.constant(['object', 'array']),
      }),
      fc.record(
        {
          properties: fc.dictionary(fc.constantFrom('a', 'b'), tie('schema')),
          patternProperties: fc.dictionary(fc.constantFrom('^', '^a'), tie('schema')),
          additionalProperties: tie('schema'),
          items: tie('schema'),
          not: tie('schema'),
          if: tie('schema'),
          else: tie('schema'),
        },
        { requiredKeys: [] },
      ),
    ),
  }))
  const ajv = new Ajv2020({ strict: false, addUsedSchema: false })
  fc.assert(
    fc.property(
      schema,
      fc.array(fc.jsonValue({ maxDepth: 3 }), { minLength: 5, maxLength: 5 }),
      (one, values) => {
        const before = ajv.compile(one as object)
        const after = ajv.compile(portableSchema({ allOf: [one] }) as object)
        for (const value of [...values, {}, { a: 1 }, { b: null, a: [] }]) {
          const [expected, found] = [before, after].map((validate) => verdict(validate, value))
          // Ajv compiles some combinations of `if` with `items` or `patternProperties` to code that fails on a variable without a value.
          if (expected !== undefined && found !== undefined) expect(found).toBe(expected)
        }
      },
    ),
    { numRuns: 200 },
  )
})

function verdict(validate: (value: unknown) => unknown, value: unknown): boolean | undefined {
  try {
    return validate(value) === true
  } catch (error) {
    if (error instanceof ReferenceError || error instanceof TypeError) return undefined
    throw error
  }
}
