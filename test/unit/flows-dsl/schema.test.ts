/** Schema validation in an execution: the verdicts of ajv, located errors, and bounded work. */

import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { newBudget } from '../../../flows-dsl/budget.ts'
import type { Json } from '../../../flows-dsl/json.ts'
import { schemaErrors } from '../../../flows-dsl/json-schema/validate.ts'

const NAMES = ['a', 'b', 'c', 'ab']
const name = fc.constantFrom(...NAMES)
const text = fc.constantFrom('', 'a', 'ab', 'b1', 'aaa', '😀', '😀b')
const number = fc.constantFrom(-1, 0, 0.5, 1, 2, 3, 1.5, 1e9)
const scalar = fc.oneof(fc.constant(null), fc.boolean(), number, text)

const { value } = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    scalar,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(name, tie('value'), { maxKeys: 3, noNullPrototype: true }),
  ),
}))

const count = fc.integer({ min: 0, max: 3 })
const names = fc.uniqueArray(name, { maxLength: 2 })
const pattern = fc.constantFrom('a', '^a', 'b$', '^[a-z]*$', '^.$', '[0-9]', '^a?b')
const type = fc.constantFrom('null', 'boolean', 'integer', 'number', 'string', 'array', 'object')

/** Ajv wrongly accepts an empty array for `contains` beside `prefixItems`. */
function withoutBoth(words: readonly (readonly [string, Json])[]): readonly (readonly [string, Json])[] {
  const has = words.some(([word]) => word === 'contains')
  return has ? words.filter(([word]) => word !== 'prefixItems') : words
}

const { schema } = fc.letrec<{ schema: Json }>((tie) => {
  const one = tie('schema')
  const some = fc.array(one, { minLength: 1, maxLength: 3 })
  const map = (key: fc.Arbitrary<string>) => fc.dictionary(key, one, { maxKeys: 3, noNullPrototype: true })
  const words: Record<string, fc.Arbitrary<unknown>> = {
    type: fc.oneof(type, fc.uniqueArray(type, { minLength: 1, maxLength: 3 })),
    enum: fc.uniqueArray(value, {
      minLength: 1,
      maxLength: 3,
      comparator: (a, b) => JSON.stringify(a) === JSON.stringify(b),
    }),
    const: value,
    minimum: number,
    maximum: number,
    exclusiveMinimum: number,
    exclusiveMaximum: number,
    multipleOf: fc.constantFrom(0.5, 1, 2, 3),
    minLength: count,
    maxLength: count,
    pattern,
    items: one,
    prefixItems: some,
    contains: one,
    minContains: count,
    maxContains: count,
    minItems: count,
    maxItems: count,
    uniqueItems: fc.boolean(),
    properties: map(name),
    patternProperties: map(pattern),
    additionalProperties: one,
    propertyNames: one,
    required: names,
    minProperties: count,
    maxProperties: count,
    dependentRequired: fc.dictionary(name, names, { maxKeys: 2, noNullPrototype: true }),
    dependentSchemas: map(name),
    allOf: some,
    anyOf: some,
    oneOf: some,
    not: one,
    if: one,
    // biome-ignore lint/suspicious/noThenProperty: a word of JSON Schema
    then: one,
    else: one,
    $ref: fc.constantFrom('#/$defs/x', '#/$defs/y~1z'),
    title: text,
    format: fc.constant('email'),
  }
  const pair = fc
    .constantFrom(...Object.keys(words))
    .chain((word) => fc.tuple(fc.constant(word), words[word] as fc.Arbitrary<Json>))
  const single = fc.array(pair, { minLength: 1, maxLength: 4 })
  /** Keywords that affect each other. */
  const family = fc
    .constantFrom(
      ['contains', 'minContains', 'maxContains'],
      ['if', 'then', 'else'],
      ['properties', 'patternProperties', 'additionalProperties'],
      ['prefixItems', 'items'],
    )
    .chain((group) =>
      fc.tuple(...group.map((word) => fc.tuple(fc.constant(word), words[word] as fc.Arbitrary<Json>))),
    )
  const object = fc
    .oneof(
      single,
      fc.tuple(family, single).map(([a, b]) => [...a, ...b]),
    )
    .map((pairs) => Object.fromEntries(withoutBoth(pairs)))
  return {
    schema: fc.oneof(
      { maxDepth: 3, depthSize: 'small' },
      fc.boolean(),
      object,
      object,
      object,
    ) as fc.Arbitrary<Json>,
  }
})

const root = fc
  .record({ top: schema, x: scalar.map((one) => ({ const: one })), y: type.map((one) => ({ type: one })) })
  .map(
    ({ top, x, y }) =>
      (typeof top === 'object' && top !== null && !Array.isArray(top)
        ? { ...top, $defs: { x, 'y/z': y } }
        : { allOf: [top], $defs: { x, 'y/z': y } }) as Json,
  )

test('verdict on every schema and value: is that of ajv', () => {
  let valid = 0
  fc.assert(
    fc.property(root, fc.array(value, { minLength: 10, maxLength: 20 }), (one, values) => {
      const ajv = new Ajv2020({ strict: false, validateFormats: false, validateSchema: false, logger: false })
      // Annotations for `unevaluated…`, which no schema here has, mislead ajv.
      ajv.opts.unevaluated = false
      const validate = ajv.compile(one as object)
      for (const value of values) {
        const errors = schemaErrors(one, value, newBudget())
        expect({ value, errors: errors.length === 0 }).toEqual({ value, errors: validate(value) })
        if (errors.length === 0) valid += 1
      }
    }),
    { numRuns: 500, seed: 7 },
  )
  expect(valid).toBeGreaterThan(2_000)
})

function errorsOf(one: Json, value: Json): string[] {
  return schemaErrors(one, value, newBudget()).map(({ pointer, message }) => `${pointer} ${message}`)
}

test('errors: have locations and reasons, all at once', () => {
  const order = {
    type: 'object',
    required: ['id', 'lines'],
    additionalProperties: false,
    properties: {
      id: { type: 'string', minLength: 3, pattern: '^o' },
      'a/b': { type: ['integer', 'null'] },
      lines: { type: 'array', minItems: 1, uniqueItems: true, items: { $ref: '#/$defs/line' } },
    },
    $defs: { line: { type: 'object', properties: { count: { minimum: 1 }, size: { enum: ['s', 'm'] } } } },
  }
  expect(errorsOf(order, { id: 'o-1', lines: [{ count: 1 }] })).toEqual([])
  expect(errorsOf(order, { id: 'x', 'a/b': 'y', lines: [{ count: 0, size: 'l' }], more: 1 })).toEqual([
    '/more is not allowed',
    '/id must have at least 3 characters',
    '/id must match ^o',
    '/a~1b must be an integer or null',
    '/lines/0/count must be at least 1',
    '/lines/0/size must be one of "s", "m"',
  ])
  expect(errorsOf(order, {})).toEqual([' must have the property `id`', ' must have the property `lines`'])
})

test('names that every object inherits: are ordinary names', () => {
  const one = JSON.parse(
    '{"required":["__proto__"],"properties":{"__proto__":{"type":"string"},"constructor":false}}',
  )
  expect(errorsOf(one, {})).toEqual([' must have the property `__proto__`'])
  expect(errorsOf(one, JSON.parse('{"__proto__":1}'))).toEqual(['/__proto__ must be a string'])
  expect(errorsOf(one, JSON.parse('{"__proto__":"x"}'))).toEqual([])
})

test('schema that repeats its checks: ends with the budget', () => {
  const names = Array.from({ length: 30 }, (_, i) => `d${i}`)
  const $defs = Object.fromEntries(
    names.map((one, i) => [
      one,
      i === 29 ? true : { allOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] },
    ]),
  )
  const ask = () => schemaErrors({ $ref: '#/$defs/d0', $defs }, 1, newBudget())
  expect(ask).toThrow(/too many steps/)
})

test('long chain of references: ends with an error of its own', () => {
  const $defs = Object.fromEntries(
    Array.from({ length: 20_000 }, (_, i) => [`d${i}`, i === 19_999 ? true : { $ref: `#/$defs/d${i + 1}` }]),
  )
  expect(() => schemaErrors({ $ref: '#/$defs/d0', $defs }, 1, newBudget())).toThrow(/deeper/)
})

test('work on long values: is charged in advance', () => {
  const long = 'a'.repeat(200_000)
  const budget = newBudget()
  expect(() => schemaErrors({ pattern: '(a|b)*c' }, long, budget)).toThrow(/too many steps/)
  const spent = newBudget()
  schemaErrors({ maxLength: 5, pattern: '^a*$' }, long.slice(0, 20_000), spent)
  expect(newBudget().steps - spent.steps).toBeGreaterThan(20_000)
})
