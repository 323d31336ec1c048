// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Texts that look like expressions or names and mean something else: errors and warnings with their location. */

import { describe, expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import { faultsOf, HEAD, table } from '../../conformance/flows/diagnostic-table.ts'
import { CATALOGUE } from '../../conformance/flows/scenario.ts'

const DOCUMENT = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const compiled = (source: string) => compile(source, { catalogue: CATALOGUE })
const warningsOf = (task: string) =>
  compiled(`${HEAD}  - a: ${task}`).warnings.map(({ code, column, hint }) => [code, column, hint])

describe('concurrency.key', () => {
  const keyed = (key: string) =>
    compiled(`${DOCUMENT}concurrency: { limit: 1, key: ${key} }\ndo: [{ a: { set: {} } }]`)

  test.each(['.k', 'all', '5', '{ a: 1 }'])('without an expression (%s): is an error', (key) => {
    const [fault] = keyed(key).diagnostics
    expect([fault?.code, fault?.line, fault?.column]).toEqual(['value_invalid', 2, 31])
  })

  test('in ${ }, or in loose mode: compiles', () => {
    expect(keyed("'${ .k }'").diagnostics).toEqual([])
    const loose = 'evaluate: { mode: loose }\nconcurrency: { limit: 1, key: .k }\ndo: [{ a: { set: {} } }]'
    expect(compiled(DOCUMENT + loose).diagnostics).toEqual([])
  })
})

describe('approvers', () => {
  table([
    ['{ approve: { approvers: [¦.who] } }', 'value_invalid /approve/approvers/0'],
    ['{ approve: { approvers: [ada, ¦$input.who] } }', 'value_invalid /approve/approvers/1'],
    ['{ approve: { approvers: ¦\'"ada"\' } }', 'value_invalid /approve/approvers'],
    ["{ approve: { approvers: ['${ .who }', a.b, .5x] } }"],
    ['{ approve: { approvers: .who } }'],
  ])
})

describe('types of errors', () => {
  const raising = (type: string) => `{ raise: { error: { type: ${type}, status: 500 } } }`
  const catching = (type: string) =>
    `{ try: [{ b: { set: {} } }], catch: { errors: { with: { type: ${type} } } } }`
  table([
    [raising('timeout')],
    [raising('https://example.com/e')],
    [raising('urn:e')],
    [raising('¦tiemout'), 'value_invalid /raise/error/type'],
    [catching('communication')],
    [catching('rejected')],
    [catching('¦comunication'), 'value_invalid /catch/errors/with/type'],
    [catching('¦declined'), 'value_invalid /catch/errors/with/type'],
  ])

  test('unknown short name: the nearest standard name is suggested', () => {
    expect(compiled(`${HEAD}  - a: ${catching('comunication')}`).diagnostics[0]?.hint).toBe(
      'Did you mean communication?',
    )
  })
})

describe('warnings', () => {
  const hearing = (filter: string) => `{ listen: { to: { one: ${filter} } } }`

  test('expect without ${ }: warns; any other text does not', () => {
    const expecting = (value: string) =>
      hearing(`{ with: { type: a }, correlate: { o: { from: .data.o, expect: ${value} } } }`)
    expect(warningsOf(expecting('.id'))).toEqual([['looks_like_expression', 93, "Write '${ .id }'."]])
    expect(warningsOf(expecting('$input.id'))).toHaveLength(1)
    for (const plain of ["'${ .id }'", 'id', '7', '.5', 'a.b'])
      expect(warningsOf(expecting(plain))).toEqual([])
  })

  test('attribute within its own filter: warns, and says what to write', () => {
    expect(warningsOf(hearing("{ with: { data: '${ .data.team == 1 }' } }"))).toEqual([
      ['attribute_within_itself', 47, 'Write `.team` instead of `.data.team`.'],
    ])
    expect(warningsOf(hearing("{ with: { type: '${ .type == 1 }' } }"))).toHaveLength(1)
    for (const right of ['.team', '.a.data', '.a | .data']) {
      expect(warningsOf(hearing(`{ with: { data: '\${ ${right} == 1 }' } }`))).toEqual([])
    }
  })

  test('condition that assigns: warns in every kind of condition; an update within data does not', () => {
    const conditions = [
      '{ if: .a = 1, set: {} }',
      '{ if: .a == 1 and .b = 2, set: {} }',
      '{ switch: [{ x: { when: .a = 1, then: end } }] }',
      '{ for: { in: .l }, while: .a = 1, do: [{ b: { set: {} } }] }',
      '{ try: [{ b: { set: {} } }], catch: { when: .a = 1 } }',
      '{ listen: { to: { any: [], until: .a = 1 } } }',
    ]
    for (const task of conditions)
      expect([task, warningsOf(task)]).toEqual([task, [expect.arrayContaining(['condition_assigns'])]])
    expect(warningsOf('{ if: (.a = 1 | .a == 1), set: {} }')).toEqual([])
    expect(warningsOf("{ set: '${ .a = 1 }' }")).toEqual([])
  })
})

describe('invalid YAML', () => {
  test('unquoted expression: one diagnostic per line, with a hint', () => {
    expect(faultsOf('  - a:\n      set: { x: ${ .a } }\n  - b: { set: {} }')).toEqual([
      'yaml_syntax 4 18 '.replace('4 18', '4:18'),
    ])
  })

  test.each([
    ['as: $context + { text: .text }', "Put the expression in quotes: as: '$context + { text: .text }'."],
    ['from: .a: "x"', "Put the expression in quotes: from: '…'."],
  ])('%s: the hint shows the quoted expression', (line, hint) => {
    const { diagnostics } = compiled(`${HEAD}  - a:\n      set: {}\n      export:\n        ${line}\n`)
    expect(diagnostics.map((fault) => fault.hint)).toEqual([hint])
  })
})

test('name instead of id for a function: the hint says that id takes a name', () => {
  const catalogue = { 'function.invoke': { description: '', required: ['id'], optional: ['input'] } }
  const { diagnostics } = compile(`${HEAD}  - a: { call: function.invoke, with: { name: f } }`, { catalogue })
  expect(diagnostics.map(({ hint }) => hint)).toContain('Did you mean id? It accepts a name, too.')
})
