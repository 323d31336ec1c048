// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** The compiler on random texts: it never throws, and every diagnostic lies within the text. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import { DIAGNOSTICS } from '../../../flows-dsl/diagnostics/catalogue.ts'
import { CATALOGUE } from '../../conformance/flows/scenario.ts'
import { repeated } from '../../support/stack/soak.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const options = { catalogue: CATALOGUE }

const good = `${HEAD}do:
  - a: { if: .x, input: { from: .y }, set: { b: '\${ .c + 1 }' }, output: { as: .b }, then: c }
  - b: { switch: [{ one: { when: .n == 1, then: a } }, { other: { then: end } }] }
  - c: { call: collection.create, with: { name: g, document: { k: [1, two, null] } } }
  - d: { do: [{ e: { wait: PT1S } }] }
  - f: { call: http, with: { method: GET, endpoint: 'https://x.example/{id}' } }
  - g: { for: { each: o, in: .all, at: i }, while: $i < 9, do: [{ h: { raise: { error: { type: urn:x, status: 400 } } } }] }
  - k: { fork: { compete: true, branches: [{ l: { emit: { event: { with: { type: t, data: 1 } } } } }] } }
  - m: { try: [{ n: { wait: PT1S } }], catch: { errors: { with: { status: 5 } }, retry: { delay: PT1S, limit: { attempt: { count: 2 } } }, do: [{ p: { set: { e: '\${ $error }' } } }], then: a } }`
const known = new Set(Object.keys(DIAGNOSTICS))

function check(source: string): void {
  const { ir, diagnostics } = compile(source, options)
  expect(ir === undefined).toBe(diagnostics.length > 0)
  const lines = source.split('\n')
  for (const { code, line, column, excerpt } of diagnostics) {
    expect(known.has(code)).toBe(true)
    expect(line).toBeGreaterThanOrEqual(1)
    expect(line).toBeLessThanOrEqual(lines.length)
    expect(column).toBeGreaterThanOrEqual(1)
    expect(column).toBeLessThanOrEqual((lines[line - 1]?.length ?? 0) + 1)
    expect(excerpt).toContain('^')
  }
  const places = diagnostics.map(({ line, column }) => line * 1e6 + column)
  expect(places).toEqual([...places].sort((a, b) => a - b))
}

test('sample: compiles', () => {
  expect(compile(good, options).diagnostics).toEqual([])
})

test('mutated definition: yields a result', () => {
  const junk = fc.constantFrom(
    '',
    ' ',
    '\n',
    '\r\n',
    '\t',
    '{',
    '}',
    '[',
    ']',
    ':',
    '- ',
    '? ',
    '&a ',
    '*a ',
    '!!',
    '!!set ',
    '!!binary ',
    '%',
    '---\n',
    '...\n',
    '"',
    "'",
    '|',
    '>',
    '#',
    '${',
    '}',
    'null',
    '.inf',
    '0x',
    '<<: ',
    '\u0000',
    '\ufeff',
    '\u2028',
    '\ud800',
    '😀',
    '__proto__: ',
    'then: ',
    'do: ',
    'switch: ',
    'call: ',
    'with: ',
    'wait: ',
    'for: ',
    'try: ',
    'catch: ',
    '$error',
  )
  const edit = fc.record({ at: fc.nat(good.length), cut: fc.nat(12), put: junk })
  fc.assert(
    fc.property(fc.array(edit, { minLength: 1, maxLength: 4 }), (edits) => {
      check(edits.reduce((text, { at, cut, put }) => text.slice(0, at) + put + text.slice(at + cut), good))
    }),
    { seed: 20_260_103, numRuns: repeated(100, 400) },
  )
})

test('any text: yields a result', () => {
  fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 200 }), check), {
    seed: 20_260_104,
    numRuns: repeated(150, 500),
  })
})

test('any JSON below any key: yields a result', () => {
  const keys = fc.constantFrom(
    'document',
    'do',
    'set',
    'switch',
    'call',
    'with',
    'wait',
    'input',
    'from',
    'then',
    'if',
    'uri',
    'for',
    'while',
    'fork',
    'branches',
    'try',
    'catch',
    'retry',
    'raise',
    'error',
    'emit',
    'event',
  )
  const value = fc.letrec((tie) => ({
    any: fc.oneof(
      { maxDepth: 6 },
      fc.jsonValue({ maxDepth: 1 }),
      tie('map'),
      fc.array(tie('any'), { maxLength: 3 }),
    ),
    map: fc.dictionary(keys, tie('any'), { maxKeys: 4 }),
  })).any
  fc.assert(
    fc.property(value, (inner) => {
      check(JSON.stringify(inner))
      check(`${HEAD}do: [{ a: ${JSON.stringify(inner)} }]`)
    }),
    { seed: 20_260_105, numRuns: repeated(60, 200) },
  )
})
