// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** The compiler: every diagnostic has its location, and no definition takes long to compile. */

import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import { nearest } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import { canonical } from '../../../flows-dsl/ir.ts'
import { CATALOGUE as PRODUCT_CATALOGUE } from '../../../src/features/data-operations.ts'
import { CATALOGUE, compiled } from '../../conformance/flows/scenario.ts'
import { threadMs } from '../../support/thread-time.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const options = { catalogue: CATALOGUE }

/** `code line:column pointer` of each diagnostic. */
function faultsOf(source: string, more: object = {}): string[] {
  const { diagnostics } = compile(source, { ...options, ...more })
  return diagnostics.map(({ code, line, column, pointer }) => `${code} ${line}:${column} ${pointer}`)
}

/** Sources below the head, which is line 1, so that `do:` is on line 2. */
const TASKS: readonly (readonly [name: string, source: string, ...diagnostics: string[]])[] = [
  ['no tasks', 'do: []', 'wrong_type 2:5 /do'],
  ['tasks as a mapping', 'do: { a: { set: {} } }', 'wrong_type 2:5 /do'],
  ['a task of two names', 'do:\n  - a: { set: {} }\n    b: { set: {} }', 'task_not_single 4:5 /do/0/b'],
  ['a task that is text', 'do: [a]', 'task_not_single 2:6 /do/0'],
  ['a task that is empty', 'do:\n  - a:', 'wrong_type 3:7 /do/0/a'],
  ['twice the same name', 'do:\n  - a: { set: {} }\n  - a: { set: {} }', 'task_name_duplicate 4:5 /do/1/a'],
  ['a directive as name', 'do:\n  - exit: { set: {} }', 'task_name_reserved 3:5 /do/0/exit'],
  ['a name with signs', 'do:\n  - a/b~c: { sett: 1 }', 'task_kind_missing 3:14 /do/0/a~1b~0c/sett'],
  ['no kind', 'do:\n  - a: { if: .x }', 'task_kind_missing 3:5 /do/0/a'],
  ['two kinds', 'do:\n  - a: { set: {}, wait: PT1S }', 'task_kind_ambiguous 3:19 /do/0/a/wait'],
  ['an unknown key', 'do:\n  - a: { set: {}, thn: end }', 'unknown_key 3:19 /do/0/a/thn'],
  ['a timeout of nothing', 'do:\n  - a: { set: {}, timeout: {} }', 'missing_key 3:28 /do/0/a/timeout'],
  ['no such target', 'do:\n  - a: { set: {}, then: b }', 'unknown_target 3:25 /do/0/a/then'],
  [
    'a target of another list',
    'do:\n  - a: { do: [{ b: { set: {}, then: c } }] }\n  - c: { set: {} }',
    'unknown_target 3:37 /do/0/a/do/0/b/then',
  ],
  ['set of a text', 'do:\n  - a: { set: x }', 'wrong_type 3:15 /do/0/a/set'],
  [
    'an expression in words',
    "do:\n  - a: { set: { b: 'x ${ .y }' } }",
    'expression_partial 3:23 /do/0/a/set/b',
  ],
  ['an open expression', "do:\n  - a: { set: { b: '${ .y' } }", 'expression_partial 3:21 /do/0/a/set/b'],
  ['a bad expression', "do:\n  - a: { set: { b: '${ .y + }' } }", 'expression_invalid 3:29 /do/0/a/set/b'],
  ['a bad bare expression', 'do:\n  - a: { if: .x and, set: {} }', 'expression_invalid 3:20 /do/0/a/if'],
  [
    'a bad expression in a block',
    'do:\n  - a:\n      set:\n        b: >-\n          ${ .y\n          § 2 }',
    'expression_invalid 5:12 /do/0/a/set/b',
  ],
  [
    '$output too early',
    "do:\n  - a: { set: { b: '${ $output }' } }",
    'expression_invalid 3:24 /do/0/a/set/b',
  ],
  [
    '$input in input.from',
    'do:\n  - a: { input: { from: $input }, set: {} }',
    'expression_invalid 3:25 /do/0/a/input/from',
  ],
  ['a schema', 'do:\n  - a: { input: { schema: {} }, set: {} }', 'missing_key 3:27 /do/0/a/input/schema'],
  ['a condition that is a number', 'do:\n  - a: { if: 1, set: {} }', 'wrong_type 3:14 /do/0/a/if'],
  ['no such function', 'do:\n  - a: { call: colection.create }', 'unknown_function 3:16 /do/0/a/call'],
  ['a later call', 'do:\n  - a: { call: grpc, with: {} }', 'unsupported_call 3:16 /do/0/a/call'],
  [
    'openapi with wrong arguments',
    'do:\n  - a: { call: openapi, with: { document: { endpoint: x }, operationId: 5, output: all, paramters: {} } }',
    'value_invalid 3:55 /do/0/a/with/document/endpoint',
    'wrong_type 3:73 /do/0/a/with/operationId',
    'value_invalid 3:84 /do/0/a/with/output',
    'unknown_key 3:89 /do/0/a/with/paramters',
  ],
  ['an inherited name', 'do:\n  - a: { call: constructor }', 'unknown_function 3:16 /do/0/a/call'],
  [
    'wrong arguments',
    'do:\n  - a:\n      call: collection.create\n      with: { nam: g, document: {} }',
    'missing_argument 5:7 /do/0/a/with',
    'unknown_argument 5:15 /do/0/a/with/nam',
  ],
  ['no arguments', 'do:\n  - a: { call: event.publish }', 'missing_argument 3:8 /do/0/a'],
  [
    'http without endpoint',
    'do:\n  - a: { call: http, with: { method: GET } }',
    'missing_key 3:28 /do/0/a/with',
  ],
  [
    'http with a bad method and a relative endpoint',
    'do:\n  - a: { call: http, with: { method: FETCH, endpoint: /x } }',
    'value_invalid 3:38 /do/0/a/with/method',
    'value_invalid 3:55 /do/0/a/with/endpoint',
  ],
  [
    'http with an authentication of nothing',
    'do:\n  - a: { call: http, with: { method: GET, endpoint: { uri: "https://x", authentication: {} } } }',
    'missing_key 3:89 /do/0/a/with/endpoint/authentication',
  ],
  ['a wait of nothing', 'do:\n  - a: { wait: PT0S }', 'duration_invalid 3:16 /do/0/a/wait'],
  ['a wait without units', 'do:\n  - a: { wait: {} }', 'duration_invalid 3:16 /do/0/a/wait'],
  ['a wait of years', 'do:\n  - a: { wait: P1Y }', 'duration_invalid 3:16 /do/0/a/wait'],
  ['a wait of 366 days', 'do:\n  - a: { wait: { days: 366 } }', 'duration_invalid 3:16 /do/0/a/wait'],
  ['a wait of 1.5 s', 'do:\n  - a: { wait: { seconds: 1.5 } }', 'duration_invalid 3:27 /do/0/a/wait/seconds'],
  ['a wait of a wrong unit', 'do:\n  - a: { wait: { second: 1 } }', 'unknown_key 3:18 /do/0/a/wait/second'],
  ['a switch without cases', 'do:\n  - a: { switch: [] }', 'wrong_type 3:18 /do/0/a/switch'],
  [
    'a case without then',
    'do:\n  - a: { switch: [{ b: { when: .x } }] }',
    'missing_key 3:24 /do/0/a/switch/0/b',
  ],
  [
    'two defaults',
    'do:\n  - a: { switch: [{ b: { then: end } }, { c: { then: end } }] }',
    'value_invalid 3:43 /do/0/a/switch/1/c',
  ],
  ['use of nothing', 'use: []\ndo: [{ a: { set: {} } }]', 'wrong_type 2:6 /use'],
  ['a top key with a slip', 'imput: {}\ndo: [{ a: { set: {} } }]', 'unknown_key 2:1 /imput'],
  ['a duplicate key', 'do:\n  - a: { set: { b: 1, b: 2 } }', 'yaml_duplicate_key 3:23 /do/0/a/set/b'],
  ['a number as key', 'do:\n  - a: { set: { 1: x } }', 'yaml_key_not_string 3:17 /do/0/a/set'],
  ['not a number', 'do:\n  - a: { set: { b: .nan } }', 'yaml_value_not_json 3:20 /do/0/a/set/b'],
  [
    'an anchor and an alias',
    'do:\n  - a: { set: &s { b: 1 } }\n  - c: { set: *s }',
    'yaml_alias_refused 3:18 /do/0/a/set',
    'yaml_alias_refused 4:15 /do/1/c/set',
  ],
  ['bad YAML', 'do:\n  - a: { set: { b: 1 }', 'yaml_syntax 3:23 '],
  ['two documents', 'do: [{ a: { set: {} } }]\n---\nx: 1', 'yaml_multiple_documents 3:1 '],
  [
    'all at once, in order',
    'do:\n  - a: { sett: {}, then: nowhere }\n  - b: { call: http }\n  - c: { wait: soon }\nschedule: {}',
    'task_kind_missing 3:10 /do/0/a/sett',
    'unknown_target 3:26 /do/0/a/then',
    'missing_key 4:8 /do/1/b',
    'duration_invalid 5:16 /do/2/c/wait',
    'missing_key 6:11 /schedule',
  ],
]

test.each(TASKS)('%s: yields the expected diagnostics', (_name, source, ...diagnostics) => {
  expect(faultsOf(HEAD + source)).toEqual(diagnostics)
})

const DOCUMENTS: readonly (readonly [source: string, ...diagnostics: string[]])[] = [
  ['', 'wrong_type 1:1 '],
  ['just text', 'wrong_type 1:1 '],
  ['{}', 'missing_key 1:1 ', 'missing_key 1:1 '],
  ['%YAML 1.1\n---\n{}', 'yaml_directive_refused 1:1 '],
  ['do: *x\ndocument: 1', 'yaml_alias_refused 1:5 /do', 'wrong_type 2:11 /document'],
]

test.each(DOCUMENTS)('document %j: yields the expected diagnostics', (source, ...diagnostics) => {
  expect(faultsOf(source)).toEqual(diagnostics)
})

const FIELDS: readonly (readonly [field: string, ...diagnostics: string[]])[] = [
  ["dsl: '1.0.4'", 'dsl_version_unsupported 2:8 /document/dsl'],
  ['dsl: 1.0', 'wrong_type 2:8 /document/dsl'],
  ['name: a_b', 'value_invalid 2:9 /document/name'],
  ['version: 1.0.0.0', 'value_invalid 2:12 /document/version'],
  ['titel: x', 'unknown_key 2:3 /document/titel'],
  ['title: 5', 'wrong_type 2:10 /document/title'],
]

test.each(FIELDS)('document with %s: yields the expected diagnostics', (field, ...diagnostics) => {
  const good = { dsl: "'1.0.0'", namespace: 'n', name: 'x', version: '1.0.0' }
  const rest = Object.entries(good).filter(([key]) => !field.startsWith(`${key}:`))
  const lines = rest.map(([key, value]) => `  ${key}: ${value}\n`).join('')
  expect(faultsOf(`document:\n  ${field}\n${lines}do: [{ a: { set: {} } }]`)).toEqual(diagnostics)
})

test('diagnostic: shows its line, a caret below the column, and the nearest name', () => {
  const { diagnostics } = compile(`${HEAD}do:\n  - keep:\n      call: colection.create`, options)
  expect(diagnostics).toEqual([
    {
      code: 'unknown_function',
      docs: '/docs/flows/diagnostics/unknown_function',
      message: 'There is no function `colection.create`.',
      line: 4,
      column: 13,
      pointer: '/do/0/keep/call',
      hint: 'Did you mean collection.create?',
      excerpt: '4 |       call: colection.create\n  |             ^',
    },
  ])
})

test('diagnostic: long line: the excerpt is a window around the column', () => {
  const long = `do: [{ a: { set: { b: "${'x'.repeat(500)}", b: 1 } } }]`
  const [fault] = compile(HEAD + long, options).diagnostics
  const [line = '', caret = ''] = fault?.excerpt?.split('\n') ?? []
  expect(line.length).toBeLessThan(130)
  expect(line[caret.indexOf('^')]).toBe('b')
})

test.each([
  ['lenght', ['length', 'width'], 'length'],
  ['THEN', ['then'], 'then'],
  ['xyz', ['then', 'switch'], undefined],
  ['swtich', ['set', 'switch'], 'switch'],
])('nearest name to %s: is the expected one', (name, known, wanted) => {
  expect(nearest(name, known)).toBe(wanted)
})

test('compiled flow: is plain JSON with the functions that it calls, and has one canonical text', () => {
  const source = `${HEAD}do:
  - b: { call: event.publish, with: { topic: '${'${ .t }'}', data: { k: [1, '${'${ $context }'}'] } } }
  - a: { call: collection.get, with: { id: x, name: y } }
  - c: { call: http, with: { method: get, endpoint: 'https://x/{id}' } }`
  const { ir } = compile(source, options)
  expect(ir).toEqual(JSON.parse(JSON.stringify(ir)))
  expect(ir).toMatchObject({ ir_version: 1, semantics: 1, document: { dsl: '1.0.3', name: 'x' } })
  expect(ir?.facts.functions).toEqual(['collection.get', 'event.publish', 'http'])
  const text = ir && canonical(ir)
  expect(JSON.parse(text ?? '')).toEqual(ir)
  const other = compile(source.replace('{ id: x, name: y }', '{ name: y,   id: x } # same'), options).ir
  expect(other && canonical(other)).not.toBe('')
  expect(text).toBe(canonical(JSON.parse(text ?? '')))
})

test('example of a recorded execution: compiles to the same text today', () => {
  const recorded = new URL('../../conformance/flows/histories/0.1.0-flow-hello.json', import.meta.url)
  const { history } = JSON.parse(readFileSync(recorded, 'utf8'))
  const { data } = history.events[0].workflowExecutionStartedEventAttributes.input.payloads[0]
  const { ir } = JSON.parse(Buffer.from(data, 'base64').toString())
  const source = readFileSync(new URL('../../../flows-dsl/examples/hello.yaml', import.meta.url), 'utf8')
  // Metadata of a flow grows with the compiler; the executable part stays the same.
  expect(canonical({ ...compiled(source, PRODUCT_CATALOGUE), facts: ir.facts })).toBe(canonical(ir))
})

test('canonical JSON: sorts keys by code point and keeps `__proto__`', () => {
  const ir = JSON.parse('{"b":{"😀":1,"ｚ":2,"__proto__":{"z":1}},"a":[{"d":1,"c":null}]}')
  expect(canonical(ir)).toBe('{"a":[{"c":null,"d":1}],"b":{"__proto__":{"z":1},"ｚ":2,"😀":1}}')
})

test('size limit: counts bytes: a definition at the limit compiles, one byte more is rejected', () => {
  const source = `${HEAD}do: [{ a: { set: { b: é } } }]`
  const bytes = Buffer.byteLength(source)
  expect(faultsOf(source, { sizeBytesMax: bytes })).toEqual([])
  expect(faultsOf(source, { sizeBytesMax: bytes - 1 })).toEqual(['source_too_large 1:1 '])
})

test.each([
  ['flow', (n: number) => `${'['.repeat(n)}x${']'.repeat(n)}`],
  ['block', (n: number) => `${'- '.repeat(n)}x`],
  ['maps', (n: number) => `${'{ k: '.repeat(n)}x${' }'.repeat(n)}`],
])('64 levels of %s: compile; 65: are rejected', (_name, nest) => {
  expect(faultsOf(nest(64))).not.toContainEqual(expect.stringContaining('nesting_too_deep'))
  expect(faultsOf(nest(65))).toEqual([expect.stringContaining('nesting_too_deep')])
})

test('definition: has more tokens than the limit: is rejected', () => {
  const tasks = (count: number) => Array.from({ length: count }, (_, n) => `- t${n}: { set: { a: 1 } }`)
  expect(faultsOf(`${HEAD}do:\n${tasks(1_500).join('\n')}`)).toEqual([])
  expect(faultsOf(`${HEAD}do:\n${tasks(4_000).join('\n')}`)).toEqual([
    expect.stringMatching(/^source_too_large \d+:\d+ /),
  ])
})

describe('costly definitions: yield a diagnostic', () => {
  const laughs = Array.from(
    { length: 20 },
    (_, i) => `a${i}: &a${i} [${Array(9).fill(i ? `*a${i - 1}` : 'x')}]\n`,
  )
  const bombs: Readonly<Record<string, readonly [source: string, limitMs: number]>> = {
    brackets: ['['.repeat(20_000), 500],
    'more brackets': ['['.repeat(250_000), 500],
    braces: ['{a: '.repeat(50_000), 500],
    dashes: ['- '.repeat(100_000), 500],
    questions: ['? '.repeat(100_000), 500],
    'indented keys': [Array.from({ length: 650 }, (_, i) => `${' '.repeat(i)}a:`).join('\n'), 500],
    laughs: [laughs.join(''), 500],
    'far too large': ['x'.repeat(50_000_000), 500],
    quotes: ['"'.repeat(250_000), 5_000],
    commas: [`[${','.repeat(200_000)}`, 5_000],
    aliases: ['*a '.repeat(80_000), 5_000],
    escapes: [`"${'\\x'.repeat(100_000)}"`, 5_000],
    documents: ['---\n'.repeat(60_000), 5_000],
    'wrong keys': [Array.from({ length: 20_000 }, (_, i) => `k${i}: 1`).join('\n'), 5_000],
    'long names': [`${HEAD}do: [{ ${'a'.repeat(100_000)}: { set: {}, then: ${'b'.repeat(100_000)} } }]`, 500],
    'wrong targets': [
      `${HEAD}do:\n${Array.from({ length: 4_000 }, (_, i) => `- t${i}: { set: {}, then: x${i} }`).join('\n')}`,
      5_000,
    ],
    expressions: [`${HEAD}do: [{ a: { set: { b: '\${ ${'('.repeat(100_000)} }' } } }]`, 5_000],
  }

  test.each(Object.entries(bombs))('%s: ends within its limit', (_name, [source, limitMs]) => {
    // CPU time instead of elapsed time, so that other processes do not count.
    const beforeMs = threadMs()
    const { diagnostics } = compile(source, options)
    expect(threadMs() - beforeMs).toBeLessThan(limitMs * 2)
    expect(diagnostics.length).toBeGreaterThan(0)
    expect(diagnostics.length).toBeLessThanOrEqual(100)
  })
})

test('source with errors only: compilation stops after 20', () => {
  expect(faultsOf('- "\\q"\n'.repeat(1_000))).toHaveLength(20)
})
