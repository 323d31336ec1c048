// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Compilation of schedules, expression modes and schemas. */

import { expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import { CATALOGUE, compiled, trace } from '../../conformance/flows/scenario.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const DO = '\ndo: [{ a: { set: {} } }]'

/**
 * Compiles a source in which `¦` marks the location of its only diagnostic; returns `code hint`, or `none`.
 */
function faultAt(marked: string): string {
  const offset = marked.indexOf('¦')
  const { diagnostics } = compile(HEAD + marked.replace('¦', ''), { catalogue: CATALOGUE })
  const [fault, second] = diagnostics
  if (fault === undefined) return 'none'
  const before = HEAD + marked.slice(0, offset)
  const line = before.split('\n').length
  const column = before.length - before.lastIndexOf('\n')
  expect([fault.line, fault.column, second]).toEqual([line, column, undefined])
  return fault.code
}

test('schedule: compiles intervals, cron expressions, pauses and events', () => {
  const { schedule } = compiled(`${HEAD}schedule:
  every: { minutes: 5 }
  cron: [ '0  9 * * mon-fri', '*/15 0-6/2 1,15 JAN-MAR 7' ]
  after: PT0S
  on: { any: [{ with: { type: com.example.placed } }, { with: { data: '\${ .total > 3 }' } }] }
  read: envelope${DO}`)
  expect(schedule).toMatchObject({
    everyMs: 300_000,
    cron: ['0 9 * * MON-FRI', '*/15 0-6/2 1,15 JAN-MAR 7'],
    afterMs: 0,
    on: { mode: 'any', filters: [{ with: [['type', { literal: 'com.example.placed' }]] }, {}] },
    read: 'envelope',
  })
  expect(compiled(`${HEAD}schedule: { cron: 0 0 29 2 * }${DO}`).schedule).toEqual({ cron: ['0 0 29 2 *'] })
})

test('time zone, overlap and catch-up: compile', () => {
  const { schedule } = compiled(`${HEAD}schedule:
  cron: 30 2 * * *
  timezone: europe/berlin
  overlap: cancel_other
  catchUp: PT1H
  jitter: { seconds: 30 }${DO}`)
  expect(schedule).toEqual({
    cron: ['30 2 * * *'],
    timezone: 'europe/berlin',
    overlap: 'cancel_other',
    catchUpMs: 3_600_000,
    jitterMs: 30_000,
  })
  for (const name of ['UTC', 'America/Argentina/Buenos_Aires', 'Etc/GMT+5'])
    expect(compiled(`${HEAD}schedule: { cron: 0 0 * * *, timezone: ${name} }${DO}`).schedule?.timezone).toBe(
      name,
    )
})

test('webhooks: compile, one or several, each with the data that its executions get', () => {
  expect(compiled(`${HEAD}schedule: { webhook: {} }${DO}`).schedule).toEqual({
    webhooks: [{ name: 'default' }],
  })
  const two = "[{ name: orders, headers: [x-event-type] }, { name: 'refunds-2' }]"
  expect(compiled(`${HEAD}schedule: { webhook: ${two} }${DO}`).schedule).toEqual({
    webhooks: [{ name: 'orders', headers: ['x-event-type'] }, { name: 'refunds-2' }],
  })
})

test.each([
  ['schedule: { webhook: ¦[] }', 'value_invalid'],
  ['schedule: { webhook: ¦soon }', 'wrong_type'],
  ['schedule: { webhook: [{ name: a }, ¦{ name: a }] }', 'value_invalid'],
  ['schedule: { webhook: [{}, ¦{ name: default }] }', 'value_invalid'],
  ['schedule: { webhook: { name: ¦"A b" } }', 'value_invalid'],
  ['schedule: { webhook: { ¦path: a } }', 'unknown_key'],
  ['schedule: { webhook: { headers: ¦x-a } }', 'wrong_type'],
  ['schedule: { webhook: { headers: [¦X-A] } }', 'value_invalid'],
  ['schedule: { webhook: { headers: [x-a, ¦authorization] } }', 'value_invalid'],
  ['schedule: { webhook: { headers: [¦x-api-key] } }', 'value_invalid'],
  ['schedule: { webhook: { headers: [¦x-hub-signature-256] } }', 'value_invalid'],
  ['schedule: { webhook: { verify: ¦gitlab } }', 'value_invalid'],
  ['schedule: { webhook: { verify: { hmac: { header: ¦X-Sig } } } }', 'value_invalid'],
  ['schedule: { webhook: { include: ¦raw } }', 'wrong_type'],
  ['schedule: { webhook: { respond: ¦soon } }', 'value_invalid'],
  ['schedule: ¦{}', 'missing_key'],
  ['schedule: ¦soon', 'wrong_type'],
  ['schedule: { ¦evry: PT1S, after: PT1S }', 'unknown_key'],
  ['schedule: { every: ¦PT0S }', 'duration_invalid'],
  ['schedule: { every: ¦PT0.5S }', 'duration_invalid'],
  ['schedule: { cron: 0 0 * * *, timezone: ¦Europe/Berln }', 'value_invalid'],
  ['schedule: { cron: 0 0 * * *, timezone: ¦"+02:00" }', 'value_invalid'],
  ['schedule: { cron: 0 0 * * *, timezone: ¦../../etc/localtime }', 'value_invalid'],
  ['schedule: { cron: 0 0 * * *, timezone: ¦1 }', 'wrong_type'],
  ['schedule: { every: PT1S, timezone: ¦UTC }', 'value_invalid'],
  ['schedule: { every: PT1S, overlap: ¦terminate_other }', 'value_invalid'],
  ['schedule: { after: PT1S, overlap: ¦skip }', 'value_invalid'],
  ['schedule: { after: PT1S, jitter: ¦PT1S }', 'value_invalid'],
  ['schedule: { on: { any: [] }, catchUp: ¦PT1M }', 'value_invalid'],
  ['schedule: { every: PT1S, catchUp: ¦PT9S }', 'duration_invalid'],
  ['schedule: { after: PT1S, catchUp: PT10S }', 'none'],
  ['schedule: { cron: [0 0 * * *, ¦0  0 * * *] }', 'value_invalid'],
  [`schedule: { cron: ¦[${Array.from({ length: 21 }, (_, n) => `${n} 0 * * *`)}] }`, 'value_invalid'],
  [`schedule: { cron: ¦"${Array(40).fill('1-59').join()} 0 * * *" }`, 'cron_invalid'],
  ['schedule: { cron: ¦[] }', 'wrong_type'],
  ['schedule: { cron: ¦0 0 * * }', 'cron_invalid'],
  ['schedule: { cron: ¦0 0 0 * * * }', 'cron_invalid'],
  ['schedule: { cron: ¦60 0 * * * }', 'cron_invalid'],
  ['schedule: { cron: 0 ¦24 * * * }', 'cron_invalid'],
  ['schedule: { cron: 0 0 ¦0 * * }', 'cron_invalid'],
  ['schedule: { cron: 0 0 * ¦13 * }', 'cron_invalid'],
  ['schedule: { cron: 0 0 * ¦JANU * }', 'cron_invalid'],
  ['schedule: { cron: 0 0 * * ¦8 }', 'cron_invalid'],
  ['schedule: { cron: 0 0 * * ¦FRI-MON }', 'cron_invalid'],
  ['schedule: { cron: "¦*/0 0 * * *" }', 'cron_invalid'],
  ['schedule: { cron: "¦1,,2 0 * * *" }', 'cron_invalid'],
  ['schedule: { cron: 0 0 ¦30 FEB * }', 'cron_invalid'],
  ['schedule: { cron: 0 0 30 FEB MON }', 'none'],
  ['schedule: { cron: ¦"@daily" }', 'cron_invalid'],
  ['schedule: { on: ¦{} }', 'missing_key'],
  ['schedule: { on: { one: { with: ¦{} } } }', 'value_invalid'],
  ['schedule: { on: { any: [], ¦until: "true" } }', 'unsupported_feature'],
  ['schedule: { on: { one: { with: { data: "${ ¦$context.a == .a }" } } } }', 'expression_invalid'],
  ['schedule: { on: { one: { with: { data: "${ .a > 3 }" } } } }', 'none'],
  ['schedule: { every: PT1S, read: ¦data }', 'value_invalid'],
  ['schedule: { on: { any: [] }, read: ¦body }', 'value_invalid'],
  ['evaluate: { language: ¦cel }', 'unsupported_feature'],
  ['evaluate: { mode: ¦lose }', 'value_invalid'],
  ['evaluate: { ¦modus: loose }', 'unknown_key'],
  ['evaluate: { language: jq, mode: strict }', 'none'],
  ['timeout: ¦soon', 'unknown_reference'],
  ['timeout: { after: ¦soon }', 'duration_invalid'],
  ['input: { schema: { ¦resource: { endpoint: "https://x.test" } } }', 'unsupported_feature'],
  ['input: { schema: { format: ¦avro, document: {} } }', 'value_invalid'],
  ['input: { schema: { format: "json:2020-12", document: { type: object } } }', 'none'],
  ['output: { schema: { document: { ¦typ: object } } }', 'unknown_key'],
])('%s: yields the expected diagnostic', (source, code) => {
  expect(faultAt(source + DO)).toBe(code)
})

test('loose mode: texts are expressions, and literals if they do not parse', async () => {
  const source = (mode: string) => `${HEAD}evaluate: { mode: ${mode} }
do:
  - a:
      set:
        sum: .x + 1
        text: Hello, world
        failed: .x.y.z
        quoted: '\${ .x }'
        name: com.example.order
        bomb: '[range(1e12)]'`
  const strict = await trace(source('strict'), { input: { x: 2 } })
  expect(strict.result).toMatchObject({ output: { sum: '.x + 1', quoted: 2, failed: '.x.y.z' } })
  const loose = await trace(source('loose').replace(/ +bomb.*/, ''), { input: { x: 2 } })
  expect(loose.result).toEqual({
    status: 'completed',
    output: { sum: 3, text: 'Hello, world', failed: '.x.y.z', quoted: 2, name: 'com.example.order' },
  })
  const bombed = await trace(source('loose'), { input: { x: 2 } })
  expect(bombed.result).toMatchObject({ error: { title: 'Expression error' } })
})

test('task schemas: compile beside the data transformations', () => {
  const [task] = compiled(`${HEAD}do:
  - a:
      set: {}
      input: { schema: { format: json, document: { type: object } }, from: .x }
      output: { schema: { document: true } }
      export: { schema: { document: { type: array } }, as: '[.]' }
      metadata: { owner: me, note: '\${ .not a thing' }`).do
  expect(task).toMatchObject({
    input: { schema: { type: 'object' }, from: { expression: { op: 'index' } } },
    output: { schema: true },
    export: { schema: { type: 'array' }, as: { expression: {} } },
    metadata: { owner: 'me', note: '${ .not a thing' },
  })
  expect(faultAt('do: [{ a: { set: {}, export: ¦{ schema: { document: true } } } }]')).toBe('missing_key')
})

const schema = (document: string) => `input: { schema: { document: ${document} } }${DO}`

test.each([
  ['¦5', 'wrong_type'],
  ['{ ¦propertys: {} }', 'unknown_key'],
  ['{ ¦unevaluatedProperties: false }', 'unsupported_feature'],
  ['{ type: ¦text }', 'value_invalid'],
  ['{ type: [string, ¦nul] }', 'value_invalid'],
  ['{ properties: { a: { minLength: ¦-1 } } }', 'value_invalid'],
  ['{ properties: { a: { minLength: ¦"1" } } }', 'wrong_type'],
  ['{ multipleOf: ¦0 }', 'value_invalid'],
  ['{ minimum: ¦"0" }', 'wrong_type'],
  ['{ enum: ¦[] }', 'wrong_type'],
  ['{ required: [¦1] }', 'wrong_type'],
  ['{ uniqueItems: ¦1 }', 'wrong_type'],
  ['{ anyOf: ¦{} }', 'wrong_type'],
  ['{ items: { not: { ¦foo: 1 } } }', 'unknown_key'],
  ['{ $schema: ¦"http://json-schema.org/draft-07/schema#" }', 'value_invalid'],
  ['{ $ref: ¦"https://x.test/schema" }', 'value_invalid'],
  ['{ $ref: ¦"#/$defs/b", $defs: { a: true } }', 'unknown_reference'],
  ['{ $ref: "#/$defs/a", $defs: { ¦a: { items: { $ref: "#/$defs/a" } } } }', 'circular_reference'],
  ["{ pattern: ¦'(a)\\1' }", 'pattern_refused'],
  ['{ pattern: "(a+)+$" }', 'none'],
  ['{ pattern: ¦"[" }', 'pattern_refused'],
  ['{ patternProperties: { ¦"a|(b": {} } }', 'pattern_refused'],
  ['{ pattern: "^[a-z]{2}-[0-9]+$" }', 'none'],
])('schema %s: yields the expected diagnostic', (document, code) => {
  expect(faultAt(schema(document))).toBe(code)
})

test.each([
  ['every: PT1M', '{ required: [n] }', '/schedule/every'],
  ["cron: '0 9 * * *', after: PT1M", '{ type: array }', '/schedule/cron /schedule/after'],
  ['on: { one: { with: { type: a } } }', '{ type: object }', '/schedule/on'],
  ['webhook: {}', '{ type: [array, string] }', '/schedule/webhook'],
  ['webhook: {}', '{ required: [order] }', '/schedule/webhook'],
  ['every: PT1M', 'false', '/schedule/every'],
  ['every: PT1M', '{ properties: { n: { type: number } } }', ''],
  ['on: { one: { with: { type: a } } }', '{ type: array, items: { type: object } }', ''],
  ['webhook: { include: [raw] }', '{ type: object, required: [body, raw] }', ''],
])('trigger { %s } with the input schema %s: faults at "%s"', (trigger, schema, at) => {
  const source = `${HEAD}input: { schema: { document: ${schema} } }\nschedule: { ${trigger} }${DO}`
  const diagnostics = compile(source, { catalogue: CATALOGUE }).diagnostics.filter(
    ({ code }) => code === 'trigger_input_invalid',
  )
  expect(diagnostics.map(({ pointer }) => pointer).join(' ')).toBe(at)
})
