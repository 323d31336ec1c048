/** Generates values for JSON Schemas of inputs, and odd values that fit none. */

import fc from 'fast-check'
import type { TSchema } from 'typebox'

type Schema = Readonly<Record<string, unknown>>

/** A number that JavaScript cannot hold; {@link jsonText} writes it as it stands. */
const RAW = '@@number:'

/** JSON with the numbers of {@link oddValue} written out. */
export const jsonText = (value: unknown): string =>
  (JSON.stringify(value) ?? 'null').replaceAll(/"@@number:([^"]*)"/g, '$1')

const nested = (levels: number, value: unknown): unknown => {
  let whole = value
  for (let level = 0; level < levels; level++) whole = level % 2 === 0 ? [whole] : { a: whole }
  return whole
}

export const oddText: fc.Arbitrary<string> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.constantFrom(
      ...[
        '',
        ' ',
        '\u0000',
        'a\u0000b',
        '"',
        "'",
        "' or 1=1 --",
        '\\',
        '%',
        '%00',
        '%ff',
        '../..',
        '/',
        '\n',
      ],
      ...[
        'null',
        'true',
        '0',
        '-1',
        '1e999',
        '9223372036854775808',
        '\u{1f600}',
        'e\u0301',
        '\ud800',
        '\u202e',
        '\ufeff',
      ],
      ...[
        '__proto__',
        'constructor',
        'toString',
        '$where',
        `\${ .x }`,
        `\${ `,
        '{{x}}',
        '*',
        '.',
        'a.b',
        'a->b',
        '(',
        '[',
      ],
      ...[
        '2026-02-30T00:00:00Z',
        '2026-01-01',
        '-000001-01-01T00:00:00Z',
        'PT-1S',
        '10m',
        '0 0 31 2 *',
        '^(a+)+$',
        '\\p{',
      ],
      ...[
        'http://127.0.0.1:1',
        'file:///etc/passwd',
        'x@y',
        'urn:x',
        'latest',
        'production',
        'role:',
        'ten_',
        'doc_',
      ],
    ),
  },
  { weight: 2, arbitrary: fc.string({ maxLength: 30 }) },
  { weight: 2, arbitrary: fc.string({ unit: 'binary', maxLength: 20 }) },
  { weight: 1, arbitrary: fc.nat({ max: 5 }).map((power) => 'x'.repeat(10 ** power)) },
)

export const oddValue: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 3, arbitrary: oddText },
  {
    weight: 3,
    arbitrary: fc.constantFrom<unknown>(
      ...[null, true, false, 0, -0, -1, 1, 1.5, 2 ** 31, 2 ** 53, -(2 ** 63), 1e21, 5e-324, Number.MAX_VALUE],
      ...['1e400', '-1e400', '9007199254740993', '1e-400', '0.1234567890123456789'].map((text) => RAW + text),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom<unknown>(
      ...[[], {}, [null], [[]], { '': '' }, { constructor: 1 }, { $ref: '#' }, { type: 'object' }],
      ...[nested(31, 1), nested(33, 1), nested(200, {}), Array(200).fill(0), Array(5_000).fill({})],
      Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`k${n}`, n])),
    ),
  },
  { weight: 2, arbitrary: fc.jsonValue({ maxDepth: 4 }) },
)

const known = new WeakMap<object, fc.Arbitrary<unknown>>()

/** Values that the schema mostly accepts: those of formats and nested conditions may not fit. */
export function valueFor(schema: TSchema): fc.Arbitrary<unknown> {
  const made = known.get(schema) ?? arbitraryOf(schema as Schema)
  known.set(schema, made)
  return made
}

function arbitraryOf(schema: Schema): fc.Arbitrary<unknown> {
  if ('const' in schema) return fc.constant(schema['const'])
  const choices = schema['enum'] as unknown[] | undefined
  if (choices !== undefined) return fc.constantFrom(...choices)
  const union = (schema['anyOf'] ?? schema['oneOf']) as TSchema[] | undefined
  if (union !== undefined) return fc.oneof(...union.map(valueFor))
  return TYPES[String(schema['type'])]?.(schema) ?? fc.jsonValue({ maxDepth: 2 })
}

const bound = (schema: Schema, name: string, otherwise: number): number =>
  typeof schema[name] === 'number' ? (schema[name] as number) : otherwise

const TYPES: Readonly<Record<string, (schema: Schema) => fc.Arbitrary<unknown>>> = {
  null: () => fc.constant(null),
  boolean: () => fc.boolean(),
  integer: (schema) => {
    const min = bound(schema, 'minimum', -10)
    return fc.integer({ min, max: Math.max(min, bound(schema, 'maximum', min + 1_000)) })
  },
  number: (schema) =>
    fc.double({ min: bound(schema, 'minimum', -1e6), max: bound(schema, 'maximum', 1e6), noNaN: true }),
  string: textOf,
  array: (schema) =>
    fc.array(valueFor((schema['items'] ?? {}) as TSchema), {
      minLength: bound(schema, 'minItems', 0),
      maxLength: Math.max(bound(schema, 'minItems', 0), Math.min(3, bound(schema, 'maxItems', 3))),
    }),
  object: (schema) => {
    const members = Object.entries((schema['properties'] ?? {}) as Record<string, TSchema>)
    if (members.length === 0)
      return fc.dictionary(fc.string({ minLength: 1, maxLength: 8 }), fc.jsonValue(), { maxKeys: 3 })
    const requiredKeys = (schema['required'] ?? []) as string[]
    return fc.record(Object.fromEntries(members.map(([name, member]) => [name, valueFor(member)])), {
      requiredKeys,
    })
  },
}

function textOf(schema: Schema): fc.Arbitrary<string> {
  const [minLength, maxLength] = [bound(schema, 'minLength', 0), Math.min(40, bound(schema, 'maxLength', 40))]
  if (schema['format'] === 'date-time')
    return fc
      .date({ min: new Date(0), max: new Date('2100'), noInvalidDate: true })
      .map((at) => at.toISOString())
  if (typeof schema['pattern'] !== 'string')
    return fc.string({ minLength, maxLength: Math.max(minLength, maxLength) })
  try {
    return fc.stringMatching(new RegExp(schema['pattern'], 'u'), {
      maxLength: Math.max(minLength, maxLength),
    })
  } catch {
    // Not every construct of patterns can be generated, such as a look-ahead.
    return oddText
  }
}
