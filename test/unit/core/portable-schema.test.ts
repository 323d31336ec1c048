/** Schemas of tools for clients and providers of models: other words, at least the same values. */

import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { portableInput, portableOutput } from '../../../src/core/portable-schema.ts'
import { unportablePart } from '../../support/checks/portable-tools.ts'

type Schema = Readonly<Record<string, unknown>>

const ANY = { anyOf: ['string', 'number', 'boolean', 'object', 'array', 'null'].map((type) => ({ type })) }

const ITEM = ['string', 'number', 'boolean', 'object'].map((type) => ({ type }))
const LIST = { type: 'array', items: { anyOf: ITEM } }
const ARGUMENT = { anyOf: [...ITEM, LIST] }

/** Within a member, since the top of a schema is that of an object. */
const member = (write: (schema: Schema) => Schema, schema: unknown, more: Schema = {}) =>
  (write({ type: 'object', properties: { a: schema }, ...more })['properties'] as Schema)['a']

test.each([
  ['no keyword', { description: 'x' }, { description: 'x', ...ANY }],
  [
    'a list of types',
    { type: ['string', 'integer'], minLength: 1 },
    { anyOf: [{ type: 'string' }, { type: 'integer' }], minLength: 1 },
  ],
  [
    'a list of types beside anyOf',
    { type: ['string', 'integer'], anyOf: [{ minLength: 1 }] },
    { anyOf: [{ minLength: 1 }], allOf: [{ anyOf: [{ type: 'string' }, { type: 'integer' }] }] },
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
  [
    'names by a pattern in a closed object',
    { type: 'object', properties: {}, patternProperties: { '^x': {} }, additionalProperties: false },
    { type: 'object', properties: {} },
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
  [
    'a reference beside a description',
    { $ref: '#/$defs/city', description: 'Of birth.' },
    { type: 'string', minLength: 1, description: 'Of birth.' },
  ],
  [
    'a reference that leads to itself',
    { $ref: '#/$defs/tree' },
    { type: 'object', properties: { more: { type: 'array', items: ANY } } },
  ],
  ['a reference to another document', { $ref: 'https://example.com/x.json' }, ANY],
  [
    'a negated part that would be wider',
    { type: 'string', not: { $ref: '#/$defs/none' } },
    { type: 'string' },
  ],
])('%s: written in a portable way', (_what, schema, written) => {
  const $defs = {
    city: { type: 'string', minLength: 1 },
    tree: { type: 'object', properties: { more: { type: 'array', items: { $ref: '#/$defs/tree' } } } },
  }
  expect(member(portableOutput, schema, { $defs })).toEqual(written)
  // Of arguments, any value is none that is null, and of a list it is said what its items are.
  const input = JSON.parse(
    JSON.stringify(written).replaceAll(JSON.stringify(ANY.anyOf), JSON.stringify(ARGUMENT.anyOf)),
  )
  expect(member(portableInput, schema, { $defs })).toEqual(input)
})

test.each([
  ['a type or null', { type: ['string', 'null'], default: null }, { type: 'string' }],
  ['values or null', { type: ['string', 'null'], enum: ['A', null] }, { type: 'string', enum: ['A'] }],
  [
    'an alternative to null',
    { anyOf: [{ type: 'integer', minimum: 1 }, { type: 'null' }], default: null, title: 'N' },
    { type: 'integer', minimum: 1, title: 'N' },
  ],
  ['a list of anything', { type: 'array' }, LIST],
  ['a list or a text', { type: ['string', 'array', 'null'] }, { anyOf: [{ type: 'string' }, LIST] }],
  ['null alone', { type: 'null' }, { type: 'null' }],
  [
    'items or null',
    { type: 'array', items: { type: ['object', 'null'] } },
    { type: 'array', items: { type: 'object' } },
  ],
])('%s: arguments are shown without null, results with it', (_what, schema, written) => {
  expect(member(portableInput, schema)).toEqual(written)
  const validate = new Ajv2020({ strict: false }).compile(member(portableOutput, schema) as object)
  expect([null, [null]].some((value) => validate(value))).toBe(true)
})

test('alternatives at the top: one object with the members of all, which only members that all require are', () => {
  const part = (kind: string, name: string) => ({
    properties: { kind: { const: kind }, [name]: { type: 'string' }, id: { type: 'string' } },
    required: ['kind', name],
  })
  const schema = { description: 'x', oneOf: [part('a', 'first'), part('b', 'second')] }
  expect(portableInput({ ...schema, allOf: [{ properties: { at: {} }, required: ['at'] }] })).toEqual({
    type: 'object',
    description: 'x',
    properties: {
      kind: { anyOf: [{ const: 'a' }, { const: 'b' }] },
      first: { type: 'string' },
      second: { type: 'string' },
      id: { type: 'string' },
      at: ARGUMENT,
    },
    required: ['at', 'kind'],
  })
})

test('many references within each other: a bounded schema', () => {
  const level = (n: number) => ({
    type: 'object',
    properties: Object.fromEntries(['a', 'b', 'c', 'd'].map((name) => [name, { $ref: `#/$defs/l${n + 1}` }])),
  })
  const $defs = { ...Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`l${n}`, level(n)])), l30: {} }
  const text = JSON.stringify(portableInput({ ...level(0), $defs }))
  expect(text.length).toBeLessThan(2_000_000)
})

const TYPES = ['string', 'number', 'object', 'array', 'null', 'boolean']
const SCHEMAS = fc.letrec((tie) => ({
  schema: fc.oneof(
    { maxDepth: 4, depthSize: 'small' },
    fc.constant({}),
    fc.boolean(),
    fc.constant({ $ref: '#/$defs/named' }),
    fc.record({ type: fc.uniqueArray(fc.constantFrom(...TYPES), { minLength: 1 }) }),
    fc.record({
      anyOf: fc.array(tie('schema'), { minLength: 1, maxLength: 3 }),
      type: fc.constant(['object', 'array']),
    }),
    fc.record({ oneOf: fc.array(tie('schema'), { minLength: 1, maxLength: 3 }) }),
    fc.record({ allOf: fc.array(tie('schema'), { minLength: 1, maxLength: 2 }) }),
    fc.record(
      {
        properties: fc.dictionary(fc.constantFrom('a', 'b'), tie('schema')),
        required: fc.constant(['a']),
        patternProperties: fc.dictionary(fc.constantFrom('^', '^a'), tie('schema')),
        additionalProperties: tie('schema'),
        items: tie('schema'),
        contains: tie('schema'),
        not: tie('schema'),
        if: tie('schema'),
        else: tie('schema'),
      },
      { requiredKeys: [] },
    ),
  ),
})).schema as fc.Arbitrary<Schema | boolean>

test('schemas at random: portable, and results that fitted before fit', () => {
  const ajv = new Ajv2020({ strict: false, addUsedSchema: false })
  const values = fc.array(fc.jsonValue({ maxDepth: 3 }), { minLength: 5, maxLength: 5 })
  fc.assert(
    fc.property(SCHEMAS, SCHEMAS, fc.boolean(), values, (one, named, isTop, more) => {
      const $defs = {
        named: typeof named === 'object' && !JSON.stringify(named).includes('$ref') ? named : {},
      }
      const top = typeof one === 'object' && isTop ? { ...one, $defs } : { properties: { v: one }, $defs }
      for (const write of [portableInput, portableOutput])
        expect(unportablePart(write(top)), JSON.stringify(top)).toBeUndefined()
      const before = ajv.compile(top as object)
      const [after, input] = [portableOutput, portableInput].map((write) => ajv.compile(write(top) as object))
      for (const value of [...more, {}, { a: 1 }, { b: null, a: [] }]) {
        const tried = isTop ? value : { v: value }
        if (typeof tried !== 'object' || tried === null || Array.isArray(tried)) continue
        if (verdict(before, tried) !== true) continue
        const message = JSON.stringify([top, tried])
        // Ajv compiles some combinations of `if` with `items` or `patternProperties` to code that fails on a variable without a value.
        expect(verdict(after, tried) ?? true, message).toBe(true)
        const isPlain = !isTop && !/null|\[\[|,\[/.test(JSON.stringify(tried))
        if (isPlain) expect(verdict(input, tried) ?? true, message).toBe(true)
      }
    }),
    { numRuns: 150 },
  )
})

function verdict(validate: ((value: unknown) => unknown) | undefined, value: unknown): boolean | undefined {
  try {
    return validate?.(value) === true
  } catch (error) {
    if (error instanceof ReferenceError || error instanceof TypeError) return undefined
    throw error
  }
}
