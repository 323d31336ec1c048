// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Mistakes that authors make: the diagnostic says what to write instead. */

import { expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import { CATALOGUE } from '../../conformance/flows/scenario.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
/** It begins with a capital letter or a name, and ends with a full stop or a question mark. */
const SENTENCE = /^[A-Z`].*[.?]$/s
const task = (body: string) => `${HEAD}do:\n  - a: { ${body} }`

const catching = (retry: string) =>
  task(`try: [{ b: { set: {} } }], catch: { retry: { delay: PT1S, ${retry} } }`)
const nested = (depth: number) =>
  `${HEAD}do: ${'[{ t: { do: '.repeat(depth)}[{ z: { set: {} } }]${' } }]'.repeat(depth)}`

test.each([
  [`${HEAD}do:\n\t- a: { set: {} }`, 'yaml_syntax', 3, 'Indent with spaces.'],
  [task('set: { x: ${ {b: 1} } }'), 'yaml_syntax', 3, "Put expressions in quotes: '${ … }'."],
  [
    task("set: { x: 'Hello ${ .n }' }"),
    'expression_partial',
    3,
    'Write a text with values in it as ${ "Hello, ',
  ],
  [task("set: { x: '${ .a' }"), 'expression_partial', 3, '`}` is missing. Put `}` at the end'],
  [task("set: { x: '${ `a` }' }"), 'expression_invalid', 3, 'Texts are in double quotes'],
  [
    task("set: { x: '${ $env.A }' }"),
    'expression_invalid',
    3,
    'Put settings into the input or a collection, and passwords into `$secrets`',
  ],
  [task("set: { x: '${ $data.a }' }"), 'expression_invalid', 3, '`$context` for exported data'],
  [task("if: '.a === 1', set: {}"), 'expression_invalid', 3, 'Write `==` to compare.'],
  [task("if: '.a && .b', set: {}"), 'expression_invalid', 3, 'Write `and`.'],
  [task("if: '.a || .b', set: {}"), 'expression_invalid', 3, 'Write `or`'],
  [task("if: '.a = 1', set: {}"), 'condition_assigns', 3, '`==` compares.'],
  [task('set: {}, then: finsh').replace('a:', 'finish:'), 'unknown_target', 3, 'Did you mean finish?'],
  [`${HEAD}do:\n  a: { set: {} }`, 'wrong_type', 3, 'Put `- ` before each name: `- pay:`.'],
  [`${HEAD}do:\n  - a: { set: {} }\n    b: { set: {} }`, 'task_not_single', 4, 'Put `- ` before `b:`, too'],
  [`${HEAD}do:\n  - a:\n    set: {}`, 'task_not_single', 4, 'indent the keys of the task by two more spaces'],
  [task('set: {}, retry: { delay: PT1S }'), 'unknown_key', 3, 'Put `retry` in the `catch` of a `try`'],
  [task('forEach: { in: .a }, do: [{ b: { set: {} } }]'), 'unknown_key', 3, 'Write `for: {'],
  [task('set: {}, while: .a'), 'unknown_key', 3, 'Write `while` beside a `for`'],
  [
    task('try: [{ b: { set: {} } }], catch: [{ c: { set: {} } }]'),
    'wrong_type',
    3,
    'Write `catch: { do: [ … ] }`.',
  ],
  [catching('maxAttempts: 3'), 'unknown_key', 3, 'Write `limit: { attempt: { count: 3 } }`'],
  [
    catching('backoff: { exponential: { maxDelay: PT1M } }'),
    'unknown_key',
    3,
    'End the retries with `limit: { duration: PT1H }`',
  ],
  [task('wait: 5s'), 'duration_invalid', 3, 'Write {seconds: 2}'],
  [task('wait: 10'), 'wrong_type', 3, 'Write PT10S or {seconds: 10}.'],
  [task('wait: P1M'), 'duration_invalid', 3, 'write days, such as P30D'],
  [task("wait: { until: '2026-12-24' }"), 'value_invalid', 3, 'Write 2026-12-24T18:00:00Z'],
  [`${HEAD}schedule: { cron: '0 0 9 * * *' }`, 'cron_invalid', 2, 'Leave out the seconds: 0 9 * * *.'],
  [`${HEAD}schedule: { cron: '0 9 * *' }`, 'cron_invalid', 2, 'Write minute, hour'],
  [`${HEAD}schedule: { cron: '@daily' }`, 'cron_invalid', 2, 'Write 0 0 * * *.'],
  [`${HEAD}schedule: { cron: 0 9 * * *, timezone: Berlin }`, 'value_invalid', 2, 'Write Europe/Berlin.'],
  [task('approve: { approver: [ada] }'), 'unknown_key', 3, 'Did you mean approvers?'],
  [task('approve: { approvers: [ada], timeout: P1D }'), 'unknown_key', 3, 'Write `deadline`'],
  [task('listen: { one: { with: { type: x } } }'), 'unknown_key', 3, 'Write `listen: { to: { one: … } }`.'],
  [task('call: http, with: { method: get, url: x }'), 'unknown_key', 3, 'Write `endpoint`.'],
  [task('call: grpc'), 'unsupported_call', 3, 'Use `call: http` or `call: openapi`'],
  [task('run: { script: { language: js } }'), 'unsupported_feature', 3, 'Deploy a function and call it'],
  [HEAD.replace('1.0.3', '1.1.0'), 'dsl_version_unsupported', 1, "Write '1.0.3', the newest version."],
  [
    nested(25),
    'nesting_too_deep',
    2,
    'which is about 21 tasks within each other. Declare deep parts as functions',
  ],
  // Dates, as authors write them elsewhere.
  [task("set: { x: '${ $now }' }"), 'expression_invalid', 3, 'Write `now` for the seconds since 1970'],
  [
    task("set: { x: '${ now() }' }"),
    'expression_invalid',
    3,
    'A function without arguments has no parentheses',
  ],
  [task("set: { x: '${ new Date() }' }"), 'expression_invalid', 3, 'Write `now`'],
  [
    task(`set: { x: '\${ .at | date_add("P1D") }' }`),
    'expression_invalid',
    3,
    '`.at | fromdate + 86400 | todate`',
  ],
  [
    task(`set: { x: '\${ .at | in_zone("Europe/Berlin") }' }`),
    'expression_invalid',
    3,
    'Expressions support only UTC',
  ],
  [task(`set: { x: "\${ now | strftime('%Y') }" }`), 'expression_invalid', 3, 'Texts are in double quotes.'],
])('%s: the diagnostic says what to write', (source, code, line, remedy) => {
  const { diagnostics, warnings } = compile(source, { catalogue: CATALOGUE })
  const texts = [...diagnostics, ...warnings]
    .filter((one) => one.code === code && one.line === line)
    .map(({ message, hint = '' }) => `${message} ${hint}`)
  expect(texts.join('\n')).toContain(remedy)
  for (const { message, hint = 'None.' } of diagnostics)
    expect([message, hint]).toEqual([expect.stringMatching(SENTENCE), expect.stringMatching(SENTENCE)])
})

test.each([
  ['id: x\nspecVersion: "0.8"\nname: y\nstart: A\nstates: []', 2, 'Serverless Workflow 0.8'],
  ['{ "Comment": "x", "StartAt": "A", "States": {} }', 1, 'Amazon States Language'],
])('definition of another language: one diagnostic, which names it: %s', (source, line, language) => {
  const { diagnostics } = compile(source, { catalogue: CATALOGUE })
  expect(diagnostics).toEqual([
    expect.objectContaining({
      code: 'unknown_key',
      line,
      hint: expect.stringContaining(`This is ${language}. Write a flow`),
    }),
  ])
})
