/** The evaluation of schemas against another implementation. */

import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { checkSchema } from '../../src/resources/schemas/language.ts'
import { type Prepared, prepare } from '../../src/resources/schemas/prepare.ts'
import { validateChange } from '../../src/resources/schemas/validate.ts'
import { faultsOf, name, schema, value } from '../support/json-schemas.ts'
import { repeated } from '../support/soak.ts'

const faultsOfChange = (prepared: Prepared, fields: object) => faultsOf(prepared, fields, validateChange)

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

const members = fc.dictionary(name, value, { maxKeys: 4, noNullPrototype: true })
const named = fc.dictionary(name, schema, { maxKeys: 3, noNullPrototype: true })

test('a change of a separable schema is judged as the whole document is', () => {
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

/** Members as most declarations have them: a type, and one thing more. */
const plain = fc
  .tuple(
    fc.constantFrom({}, { type: 'string' }, { type: 'number' }, { type: 'integer' }, { type: 'boolean' }),
    fc.oneof(
      fc.constantFrom(
        {},
        { maxLength: 0 },
        { maxLength: 1 },
        { maxLength: 3 },
        { minimum: 1 },
        { maximum: 1 },
      ),
      fc.constantFrom({ format: 'date-time' }, { format: 'uuid' }, { format: 'email' }),
      fc.constantFrom({ type: ['string', 'null'] }, { pattern: '^a' }, { minLength: 1 }),
      fc
        .uniqueArray(fc.constantFrom('a', 'ab', '', 1, 2.5, true, null), { minLength: 1 })
        .map((list) => ({ enum: list })),
    ),
  )
  .map(([type, more]) => ({ ...type, ...more }))
const plainValue = fc.constantFrom<unknown[]>(
  ...['a', 'ab', 'abcd', '', '👩‍👩‍👧', 'x'.repeat(2_000), 0, 1, 2.5, -3, true, null, {}, [], ['a']],
  ...['2026-01-01T00:00:00Z', '2026-13-01T00:00:00Z', 'a@b.c', '0198c0f5-0000-7000-8000-000000000000'],
)
const few = fc.constantFrom('p', 'q', 'r', 'toString')

test('what is seen to fit at a glance fits', () => {
  const schemas = fc.record(
    {
      type: fc.constant('object'),
      properties: fc.dictionary(few, plain, { maxKeys: 3, noNullPrototype: true }),
      required: fc.uniqueArray(few, { maxLength: 2 }),
      additionalProperties: fc.boolean(),
    },
    { requiredKeys: ['type', 'properties'] },
  )
  const seen = { fits: 0, looked: 0, faults: 0 }
  fc.assert(
    fc.property(
      schemas,
      fc.array(fc.dictionary(few, plainValue, { noNullPrototype: true })),
      (said, documents) => {
        const { glance, ...slow } = prepare(checkSchema(said))
        for (const document of documents) {
          for (const [whole, judge] of [[true, faultsOf] as const, [false, faultsOfChange] as const]) {
            const fits = judge(slow, document).length === 0
            seen[fits ? 'fits' : 'faults'] += 1
            if (glance?.(document, whole) !== true) continue
            seen.looked += 1
            expect([said, document, whole, fits]).toEqual([said, document, whole, true])
          }
        }
      },
    ),
    { numRuns: repeated(400, 1_500), seed: 7 },
  )
  expect(seen.looked).toBeGreaterThan(seen.fits / 4)
  expect(seen.faults).toBeGreaterThan(500)
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
])('%j says something of the whole document', (said) => {
  expect(prepare(checkSchema(said)).separable).toBe(false)
})
