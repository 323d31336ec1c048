// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/**
 * Compilation of `for`, `fork`, `try`, `raise` and `emit`: located diagnostics, and the scope of variables.
 */

import { describe, expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import { canonical } from '../../../flows-dsl/ir.ts'
import { faultsOf, HEAD, table } from '../../conformance/flows/diagnostic-table.ts'
import { CATALOGUE, compiled, trace } from '../../conformance/flows/scenario.ts'

const DO = 'do: [{ b: { set: {} } }]'
const TRY = 'try: [{ b: { set: {} } }]'

describe('for', () => {
  table([
    [`{ for: { in: .x }, ${DO} }`],
    [`{ for: { each: o, at: i, in: '\${ .x }' }, while: $o > $i, ${DO} }`],
    ['¦{ for: { in: .x } }', 'missing_key '],
    [`{ for: ¦.x, ${DO} }`, 'wrong_type /for'],
    [`{ for: ¦{}, ${DO} }`, 'missing_key /for'],
    [`{ for: { in: ¦{ x: 1 } }, ${DO} }`, 'wrong_type /for/in'],
    [`{ for: { in: ¦5 }, ${DO} }`, 'wrong_type /for/in'],
    [`{ for: { in: [{ x: 1 }, ¦2] }, ${DO} }`, 'wrong_type /for/in/1'],
    [`{ for: { in: .x +¦ }, ${DO} }`, 'expression_invalid /for/in'],
    [`{ for: { ¦eahc: o, in: .x }, ${DO} }`, 'unknown_key /for/eahc'],
    [`{ for: { in: .x, concurrency: 1000, onError: continue }, ${DO} }`],
    [`{ for: { in: .x, onError: fail }, while: .y, ${DO} }`],
    [`{ for: { in: .x, concurrency: ¦0 }, ${DO} }`, 'value_invalid /for/concurrency'],
    [`{ for: { in: .x, concurrency: ¦1001 }, ${DO} }`, 'value_invalid /for/concurrency'],
    [`{ for: { in: .x, concurrency: ¦'\${ .n }' }, ${DO} }`, 'wrong_type /for/concurrency'],
    [`{ for: { in: .x, onError: ¦collect }, ${DO} }`, 'value_invalid /for/onError'],
    [`{ for: { in: .x, concurrency: 5 }, ¦while: .y, ${DO} }`, 'value_invalid /while'],
    [`{ for: { each: ¦$o, in: .x }, ${DO} }`, 'value_invalid /for/each'],
    [`{ for: { each: ¦input, in: .x }, ${DO} }`, 'value_invalid /for/each'],
    [`{ for: { at: ¦secrets, in: .x }, ${DO} }`, 'value_invalid /for/at'],
    [`{ for: { each: o, at: ¦o, in: .x }, ${DO} }`, 'value_invalid /for/at'],
    [`{ for: { each: ¦index, in: .x }, ${DO} }`, 'value_invalid /for/each'],
    [`{ for: { each: ¦1, in: .x }, ${DO} }`, 'wrong_type /for/each'],
    [`{ for: { in: .x }, while: ¦1, ${DO} }`, 'wrong_type /while'],
    [`{ for: { in: .x }, ¦whlie: .x, ${DO} }`, 'unknown_key /whlie'],
    ['{ for: { in: .x }, do: ¦[] }', 'wrong_type /do'],
    ['{ for: { in: .x }, do: [{ b: { set: ¦1 } }] }', 'wrong_type /do/0/b/set'],
    ['{ for: { in: .x }, do: [{ b: { set: {}, then: ¦a } }] }', 'unknown_target /do/0/b/then'],
    [`{ for: { in: .x }, ${DO}, ¦set: {} }`, 'task_kind_ambiguous /set'],
  ])
})

describe('fork', () => {
  table([
    ['{ fork: { branches: [{ b: { set: {} } }] } }'],
    ['{ fork: { compete: false, branches: [{ b: { set: {}, then: exit } }] } }'],
    ['{ fork: ¦[] }', 'wrong_type /fork'],
    ['{ fork: ¦{} }', 'missing_key /fork'],
    ['{ fork: { branches: ¦[] } }', 'wrong_type /fork/branches'],
    ['{ fork: { branches: ¦{ b: { set: {} } } } }', 'wrong_type /fork/branches'],
    ['{ fork: ¦{ ¦branchs: [{ b: { set: {} } }] } }', 'missing_key /fork', 'unknown_key /fork/branchs'],
    ['{ fork: { compete: ¦yes, branches: [{ b: { set: {} } }] } }', 'wrong_type /fork/compete'],
    ['{ fork: { compete: ¦[], branches: [{ b: { set: {} } }] } }', 'wrong_type /fork/compete'],
    ['{ fork: { compete: ¦null, branches: [{ b: { set: {} } }] } }', 'wrong_type /fork/compete'],
    [
      '{ fork: { branches: [{ b: { set: {} } }, { ¦b: { set: {} } }] } }',
      'task_name_duplicate /fork/branches/1/b',
    ],
    [
      '{ fork: { branches: [{ b: { set: {}, then: ¦c } }, { c: { set: {} } }] } }',
      'unknown_target /fork/branches/0/b/then',
    ],
    [
      '{ fork: { branches: [{ b: { switch: [{ d: { then: ¦c } }] } }, { c: { set: {} } }] } }',
      'unknown_target /fork/branches/0/b/switch/0/d/then',
    ],
  ])
})

describe('try', () => {
  table([
    [`{ ${TRY}, catch: {} }`],
    [`{ ${TRY}, catch: { errors: {}, then: end } }`],
    [
      `{ ${TRY}, catch: { as: e, when: $e.status == 1, exceptWhen: $e, do: [{ c: { set: { e: '\${ $e }' } } }] } }`,
    ],
    [`¦{ ${TRY} }`, 'missing_key '],
    [`{ ${TRY}, catch: ¦}`, 'wrong_type /catch'],
    ['{ try: ¦[], catch: {} }', 'wrong_type /try'],
    ['{ ¦catch: {} }', 'task_kind_missing /catch'],
    [`{ ${TRY}, catch: { ¦error: {} } }`, 'unknown_key /catch/error'],
    [`{ ${TRY}, catch: { errors: { ¦whit: {} } } }`, 'unknown_key /catch/errors/whit'],
    [`{ ${TRY}, catch: { errors: { with: ¦{} } } }`, 'value_invalid /catch/errors/with'],
    [`{ ${TRY}, catch: { errors: { with: { ¦statsu: 1 } } } }`, 'unknown_key /catch/errors/with/statsu'],
    [`{ ${TRY}, catch: { errors: { with: { status: ¦'404' } } } }`, 'wrong_type /catch/errors/with/status'],
    [`{ ${TRY}, catch: { errors: { with: { status: ¦4.5 } } } }`, 'value_invalid /catch/errors/with/status'],
    [
      `{ ${TRY}, catch: { errors: { with: { type: ¦'\${ .x }' } } } }`,
      'value_invalid /catch/errors/with/type',
    ],
    [`{ ${TRY}, catch: { as: ¦context } }`, 'value_invalid /catch/as'],
    [`{ ${TRY}, catch: { as: e, when: ¦$error.status == 1 } }`, 'expression_invalid /catch/when'],
    [`{ ${TRY}, catch: { exceptWhen: ¦7 } }`, 'wrong_type /catch/exceptWhen'],
    [`{ ${TRY}, catch: { do: ¦[] } }`, 'wrong_type /catch/do'],
    [`{ ${TRY}, catch: { then: ¦b } }`, 'unknown_target /catch/then'],
    ["{ try: [{ b: { set: { e: '${ ¦$error }' } } }], catch: {} }", 'expression_invalid /try/0/b/set/e'],
    [`{ ${TRY}, catch: { retry: {} } }`],
    [
      `{ ${TRY}, catch: { retry: { delay: PT0S, backoff: { linear: {} }, limit: { attempt: { count: 1, duration: PT1S }, duration: P1D } } } }`,
    ],
    [
      `{ ${TRY}, catch: { retry: { when: $error.status == 503, exceptWhen: false, jitter: { from: PT1S, to: PT1S } } } }`,
    ],
    [`{ ${TRY}, catch: { retry: ¦again } }`, 'unknown_reference /catch/retry'],
    [`{ ${TRY}, catch: { retry: ¦5 } }`, 'wrong_type /catch/retry'],
    [`{ ${TRY}, catch: { retry: { ¦dealy: PT1S } } }`, 'unknown_key /catch/retry/dealy'],
    [`{ ${TRY}, catch: { retry: { delay: ¦soon } } }`, 'duration_invalid /catch/retry/delay'],
    [`{ ${TRY}, catch: { retry: { delay: ¦P366D } } }`, 'duration_invalid /catch/retry/delay'],
    [`{ ${TRY}, catch: { retry: { backoff: ¦{} } } }`, 'missing_key /catch/retry/backoff'],
    [`{ ${TRY}, catch: { retry: { backoff: ¦exponential } } }`, 'wrong_type /catch/retry/backoff'],
    [`{ ${TRY}, catch: { retry: { backoff: { ¦lineal: {} } } } }`, 'unknown_key /catch/retry/backoff/lineal'],
    [
      `{ ${TRY}, catch: { retry: { backoff: { constant: {}, ¦linear: {} } } } }`,
      'value_invalid /catch/retry/backoff/linear',
    ],
    [
      `{ ${TRY}, catch: { retry: { backoff: { linear: { ¦by: 1 } } } } }`,
      'unknown_key /catch/retry/backoff/linear/by',
    ],
    [`{ ${TRY}, catch: { retry: { backoff: { linear: ¦} } } }`, 'wrong_type /catch/retry/backoff/linear'],
    [`{ ${TRY}, catch: { retry: { limit: { ¦attempts: {} } } } }`, 'unknown_key /catch/retry/limit/attempts'],
    [
      `{ ${TRY}, catch: { retry: { limit: { attempt: { count: ¦0 } } } } }`,
      'value_invalid /catch/retry/limit/attempt/count',
    ],
    [
      `{ ${TRY}, catch: { retry: { limit: { attempt: { ¦cuont: 1 } } } } }`,
      'unknown_key /catch/retry/limit/attempt/cuont',
    ],
    [
      `{ ${TRY}, catch: { retry: { limit: { attempt: { duration: ¦PT0S } } } } }`,
      'duration_invalid /catch/retry/limit/attempt/duration',
    ],
    [`{ ${TRY}, catch: { retry: { limit: { duration: ¦5 } } } }`, 'wrong_type /catch/retry/limit/duration'],
    [`{ ${TRY}, catch: { retry: { jitter: ¦{ from: PT1S } } } }`, 'missing_key /catch/retry/jitter'],
    [
      `{ ${TRY}, catch: { retry: { jitter: { from: PT2S, to: ¦PT1S } } } }`,
      'value_invalid /catch/retry/jitter/to',
    ],
    [
      `{ ${TRY}, catch: { retry: { jitter: { from: PT1S, to: PT2S, ¦by: 1 } } } }`,
      'unknown_key /catch/retry/jitter/by',
    ],
    [`{ ${TRY}, catch: { retry: { when: ¦$eror } } }`, 'expression_invalid /catch/retry/when'],
  ])
})

describe('raise', () => {
  table([
    ["{ raise: { error: { type: urn:x, status: 400, title: t, detail: '${ .x }', instance: /do/0/a } } }"],
    ['{ raise: ¦x }', 'wrong_type /raise'],
    ['{ raise: ¦{} }', 'missing_key /raise'],
    ['{ raise: ¦{ ¦eror: x } }', 'missing_key /raise', 'unknown_key /raise/eror'],
    ['{ raise: { error: ¦named } }', 'unknown_reference /raise/error'],
    ['{ raise: { error: ¦5 } }', 'wrong_type /raise/error'],
    ['{ raise: { error: ¦¦{} } }', 'missing_key /raise/error', 'missing_key /raise/error'],
    ['{ raise: { error: { type: ¦a b, status: 400 } } }', 'value_invalid /raise/error/type'],
    ["{ raise: { error: { type: urn:x, status: ¦'400' } } }", 'wrong_type /raise/error/status'],
    ["{ raise: { error: { type: urn:x, status: ¦'${ 400 }' } } }", 'wrong_type /raise/error/status'],
    ['{ raise: { error: { type: urn:x, status: 400, ¦titel: x } } }', 'unknown_key /raise/error/titel'],
    ['{ raise: { error: { type: urn:x, status: 400, title: ¦5 } } }', 'wrong_type /raise/error/title'],
    [
      "{ raise: { error: { type: urn:x, status: 400, detail: 'a ¦${ .x }' } } }",
      'expression_partial /raise/error/detail',
    ],
    [
      '{ raise: { error: { type: urn:x, status: 400, instance: ¦here } } }',
      'value_invalid /raise/error/instance',
    ],
  ])
})

describe('emit', () => {
  table([
    ["{ emit: { event: { with: { type: t, source: s, subject: '${ .s }', id: i, time: t, data: [1] } } } }"],
    ['{ emit: ¦t }', 'wrong_type /emit'],
    ['{ emit: ¦{ ¦evnt: {} } }', 'missing_key /emit', 'unknown_key /emit/evnt'],
    ['{ emit: { event: ¦{} } }', 'missing_key /emit/event'],
    ['{ emit: { event: { with: ¦{} } } }', 'missing_key /emit/event/with'],
    ['{ emit: { event: { with: { type: ¦5 } } } }', 'wrong_type /emit/event/with/type'],
    ["{ emit: { event: { with: { type: ¦'' } } } }", 'value_invalid /emit/event/with/type'],
    ['{ emit: { event: { with: { type: t, ¦dta: 1 } } } }', 'unknown_key /emit/event/with/dta'],
    [
      "{ emit: { event: { with: { type: t, data: { x: '¦${ .y' } } } } }",
      'expression_partial /emit/event/with/data/x',
    ],
  ])

  test('emit: requires the function that publishes', () => {
    const { 'event.publish': _, ...without } = CATALOGUE
    const task = '  - a: { emit: { event: { with: { type: t } } } }'
    expect(faultsOf(task, without)).toEqual(['unknown_function 3:10 /do/0/a/emit'])
    expect(faultsOf(task)).toEqual([])
    expect(compiled(HEAD + task).facts.functions).toEqual(['event.publish'])
  })
})

describe('variables: scope', () => {
  const use = (name: string) => `{ set: { v: '\${ $${name} }' } }`
  test.each([
    ['before', `  - b: ${use('order')}\n  - a: { for: { each: order, in: .x }, ${DO} }`],
    ['after', `  - a: { for: { each: order, in: .x }, ${DO} }\n  - b: ${use('order')}`],
    ['in `in`', `  - a: { for: { each: order, in: $order }, ${DO} }`],
    ['in `if`', `  - a: { for: { in: .x }, if: $item, ${DO} }`],
    ['in output.as', `  - a: { for: { in: .x }, output: { as: $index }, ${DO} }`],
    ['by its default name', `  - a: { for: { each: order, in: .x }, do: [{ b: ${use('item')} }] }`],
    ['in `try`', `  - a: { try: [{ b: ${use('error')} }], catch: {} }`],
  ])('variable %s: is unknown there', (_name, tasks) => {
    const lines = tasks.split('\n')
    const line = lines.findIndex((text) => text.includes('$'))
    const place = `${line + 3}:${(lines[line] ?? '').lastIndexOf('$') + 1}`
    expect(faultsOf(tasks)).toEqual([expect.stringContaining(`expression_invalid ${place} /do/`)])
  })

  test('misspelt variable: the nearest name is suggested', () => {
    const { diagnostics } = compile(
      `${HEAD}  - a: { for: { each: order, in: .x }, do: [{ b: ${use('ordre')} }] }`,
      {
        catalogue: CATALOGUE,
      },
    )
    expect(diagnostics.map(({ hint }) => hint)).toEqual(['Did you mean $order?'])
  })

  test('nested variables: all outer ones are known, and the inner one takes precedence', async () => {
    const flow = `${HEAD}  - a:
      for: { in: '\${ ["x", "y"] }' }
      do:
        - b:
            for: { in: '\${ [$item + "1"] }', at: n }
            do:
              - c:
                  try: [{ d: { raise: { error: { type: urn:t, status: 400, detail: '\${ "\\($item)\\($index)\\($n)" }' } } } }]
                  catch:
                    do:
                      - e: { set: { all: '\${ .all + [$error.detail, $item, $index, $n] }' }, input: { from: '\${ { all: .all } }' } }`
    expect((await trace(flow, { input: {} })).result).toEqual({
      status: 'completed',
      output: { all: ['x100', 'x1', 0, 0, 'y110', 'y1', 1, 0] },
    })
  })
})

test('compiled flow with all kinds of tasks: is plain JSON and has one canonical text', () => {
  const ir = compiled(`${HEAD}  - a: { for: { in: .x }, while: $index < 3, ${DO} }
  - c: { fork: { branches: [{ d: { emit: { event: { with: { type: t } } } } }] } }
  - e: { ${TRY}, catch: { retry: { limit: { attempt: { count: 2 } } }, do: [{ f: { raise: { error: { type: urn:t, status: 1 } } } }] } }`)
  expect(ir).toEqual(JSON.parse(JSON.stringify(ir)))
  expect(canonical(JSON.parse(canonical(ir)))).toBe(canonical(ir))
})
