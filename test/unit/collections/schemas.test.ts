/** Schema validation against another implementation. */

import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { KEYWORDS } from '../../../flows-dsl/json-schema/vocabulary.ts'
import { evaluateChange } from '../../../src/features/collections/schemas/evaluate-schema.ts'
import {
  checkSchema,
  type Prepared,
  prepare,
} from '../../../src/features/collections/schemas/schema-language.ts'
import { faultsOf, name, schema, value } from '../../support/fixtures/json-schemas.ts'

const faultsOfChange = (prepared: Prepared, fields: object) => faultsOf(prepared, fields, evaluateChange)

test('validation: agrees with ajv in both directions', () => {
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

const members = fc.dictionary(name, value, { maxKeys: 4, noNullPrototype: true })
const named = fc.dictionary(name, schema, { maxKeys: 3, noNullPrototype: true })

test('separable schema: validating the change alone: agrees with validating the whole document', () => {
  const e = { anyOf: [{ $ref: '#/$defs/d' }, { maxItems: 1 }] }
  const $defs = { d: { type: ['string', 'number', 'object'] }, e }
  const ofMembers = fc.record(
    {
      type: fc.constant('object'),
      properties: named,
      patternProperties: fc.dictionary(fc.constantFrom('^a', 'g$'), schema, { noNullPrototype: true }),
      additionalProperties: schema,
      propertyNames: schema,
      required: fc.uniqueArray(name, { maxLength: 1 }),
      title: fc.constant('any'),
    },
    { requiredKeys: [] },
  )
  const seen = { valid: 0, invalid: 0 }
  fc.assert(
    fc.property(ofMembers, fc.array(members, { minLength: 12, maxLength: 12 }), (said, documents) => {
      const prepared = prepare(checkSchema({ ...said, $defs }))
      expect(prepared.separable).toBe(true)
      const [document] = documents.filter((fields) => faultsOf(prepared, fields).length === 0)
      if (document === undefined) return
      for (const change of documents) {
        const alone = faultsOfChange(prepared, change).length === 0
        const whole = faultsOf(prepared, { ...document, ...change }).length === 0
        expect([said, document, change, alone]).toEqual([said, document, change, whole])
        seen[whole ? 'valid' : 'invalid'] += 1
      }
    }),
    { numRuns: 120, seed: 7 },
  )
  expect(Math.min(seen.valid, seen.invalid)).toBeGreaterThan(100)
})

test.each([
  { minProperties: 1 },
  { maxProperties: 1 },
  { dependentRequired: { a: ['b'] } },
  { dependentSchemas: { a: {} } },
  { allOf: [{}] },
  { anyOf: [{}] },
  { oneOf: [{}] },
  { not: {} },
  { if: {} },
  { enum: [{}] },
  { const: {} },
  { $ref: '#/$defs/d', $defs: { d: {} } },
])('schema %j: concerns the whole document', (said) => {
  expect(prepare(checkSchema(said)).separable).toBe(false)
})

test('keywords that do not constrain documents: are rejected in collections', () => {
  const isRefused = (keyword: string) => {
    try {
      checkSchema({ properties: { a: { [keyword]: Symbol('of no type') } } })
      return false
    } catch (error) {
      return String(error).includes('is not a keyword that is taken here')
    }
  }
  expect(Object.keys(KEYWORDS).filter(isRefused)).toEqual(['contentEncoding', 'contentMediaType'])
  expect(isRefused('toString')).toBe(true)
})
