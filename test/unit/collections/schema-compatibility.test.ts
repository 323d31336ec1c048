/** Schema changes that are judged compatible, against documents: none that was valid becomes invalid. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isCompatible } from '../../../src/features/collections/schemas/is-compatible.ts'
import {
  checkSchema,
  prepare,
  type SchemaObject,
} from '../../../src/features/collections/schemas/schema-language.ts'
import { faultsOf, schema, value } from '../../support/fixtures/json-schemas.ts'
import { repeated } from '../../support/stack/soak.ts'

const $defs = {
  d: { type: ['string', 'number', 'object'] },
  e: { anyOf: [{ $ref: '#/$defs/d' }, { maxItems: 1 }] },
}
const prepared = (below: unknown) => prepare(checkSchema({ properties: { v: below }, $defs }))

/** The same schema with one keyword left out somewhere, or with one of another schema. */
const changed = fc.tuple(schema, schema, fc.nat(), fc.boolean()).map(([from, other, at, drop]) => {
  const said = Object(from) as SchemaObject
  const names = Object.keys(said)
  const name = names[at % Math.max(names.length, 1)]
  const { [name ?? '']: _gone, ...rest } = said
  return [from, drop ? rest : { ...said, ...Object(other) }] as const
})

test('compatible change: no valid document becomes invalid', () => {
  const seen = { widens: 0, not: 0, fits: 0 }
  fc.assert(
    fc.property(
      fc.oneof(fc.tuple(schema, schema), changed),
      fc.array(value, { minLength: 12, maxLength: 12 }),
      ([from, to], values) => {
        const [was, is] = [prepared(from), prepared(to)]
        const wider = isCompatible(was.schema, is.schema)
        seen[wider ? 'widens' : 'not'] += 1
        if (!wider) return
        for (const v of values.filter((one) => faultsOf(was, { v: one }).length === 0)) {
          expect([from, to, v, faultsOf(is, { v })]).toEqual([from, to, v, []])
          seen.fits += 1
        }
      },
    ),
    { numRuns: repeated(250, 1_000), seed: 11 },
  )
  expect(Math.min(seen.widens, seen.not, seen.fits)).toBeGreaterThan(repeated(40, 150))
})

const OBJECT = { properties: { a: { type: 'string' } }, required: ['a'] }

test.each<[string, SchemaObject, SchemaObject, boolean]>([
  ['the same', OBJECT, OBJECT, true],
  ['less is required', OBJECT, { ...OBJECT, required: [] }, true],
  ['more is required', OBJECT, { ...OBJECT, required: ['a', 'b'] }, false],
  ['a title', OBJECT, { ...OBJECT, title: 'x' }, true],
  [
    'a new property of an open schema',
    OBJECT,
    { properties: { ...OBJECT.properties, b: { type: 'string' } } },
    false,
  ],
  [
    'a new property of a closed schema',
    { ...OBJECT, additionalProperties: false },
    { properties: { ...OBJECT.properties, b: { type: 'string' } }, additionalProperties: false },
    true,
  ],
  [
    'a property that goes from a closed schema',
    { ...OBJECT, additionalProperties: false },
    { additionalProperties: false },
    false,
  ],
  ['a property that goes from an open schema', OBJECT, {}, true],
  ['an enum that grows', { properties: { a: { enum: [1] } } }, { properties: { a: { enum: [1, 2] } } }, true],
  [
    'an enum that shrinks',
    { properties: { a: { enum: [1, 2] } } },
    { properties: { a: { enum: [1] } } },
    false,
  ],
  [
    'integer to number',
    { properties: { a: { type: 'integer' } } },
    { properties: { a: { type: 'number' } } },
    true,
  ],
  [
    'number to integer',
    { properties: { a: { type: 'number' } } },
    { properties: { a: { type: 'integer' } } },
    false,
  ],
  [
    'null as well',
    { properties: { a: { type: 'string' } } },
    { properties: { a: { type: ['string', 'null'] } } },
    true,
  ],
  ['longer texts', { properties: { a: { maxLength: 3 } } }, { properties: { a: { maxLength: 5 } } }, true],
  ['shorter texts', { properties: { a: { maxLength: 5 } } }, { properties: { a: { maxLength: 3 } } }, false],
  [
    'an enum behind a reference',
    { properties: { a: { $ref: '#/$defs/s' } }, $defs: { s: { enum: [1] } } },
    { properties: { a: { $ref: '#/$defs/s' } }, $defs: { s: { enum: [1, 2] } } },
    true,
  ],
])('change of %s: is judged as expected', (_what, from, to, wider) => {
  expect(isCompatible(prepare(checkSchema(from)).schema, prepare(checkSchema(to)).schema)).toBe(wider)
})
