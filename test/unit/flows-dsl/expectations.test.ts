/** `expect` of a flow: literal durations within bounds, and no effect on an execution. */

import { expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import { CATALOGUE, compiled } from '../../conformance/flows/scenario.ts'

const DOCUMENT = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const flow = (expectations: string) =>
  `${DOCUMENT}expect: ${expectations}\ndo: [{ a: { wait: PT1H } }, { b: { set: { done: true } } }]`

test.each([
  ['{ duration: PT15M, interval: P1D }', { durationMs: 900_000, intervalMs: 86_400_000 }],
  ['{ duration: { seconds: 1 } }', { durationMs: 1_000 }],
  ['{ interval: P365D }', { intervalMs: 31_536_000_000 }],
])('expect: %s: is compiled to milliseconds', (source, compiledTo) => {
  expect(compiled(flow(source)).expect).toEqual(compiledTo)
})

const LEAST = 'must be between 1 second and 365 days.'

test.each([
  ['{}', 'missing_key', '`expect` has neither `duration` nor `interval`.', '/expect'],
  ['PT1S', 'wrong_type', expect.any(String), '/expect'],
  ['{ duration: PT0S }', 'duration_invalid', `\`duration\` ${LEAST}`, '/expect/duration'],
  ['{ duration: PT0.999S }', 'duration_invalid', `\`duration\` ${LEAST}`, '/expect/duration'],
  ['{ interval: P366D }', 'duration_invalid', `\`interval\` ${LEAST}`, '/expect/interval'],
  ['{ interval: daily }', 'duration_invalid', '`daily` is not a duration.', '/expect/interval'],
  ['{ interval: 60 }', 'wrong_type', expect.any(String), '/expect/interval'],
  ["{ duration: '${ .limit }' }", 'duration_invalid', expect.any(String), '/expect/duration'],
  [
    '{ duration: PT1S, intervall: PT1S }',
    'unknown_key',
    expect.stringContaining('intervall'),
    '/expect/intervall',
  ],
])('expect: %s: is an error with its location', (source, code, message, pointer) => {
  const [fault, ...more] = compile(flow(source), { catalogue: CATALOGUE }).diagnostics
  expect(fault).toMatchObject({ code, message, pointer, line: 2 })
  expect(more).toEqual([])
})

test('simulation that lasts longer than `expect.duration`: completes', () => {
  expect(simulate(compiled(flow('{ duration: PT1S, interval: PT1S }')), { input: {} })).toMatchObject({
    status: 'completed',
    output: { done: true },
  })
})

test.each([
  ['every: PT1H', 'PT1H', ['interval_too_short']],
  ['every: PT1H', 'PT59M', ['interval_too_short']],
  ['every: PT1H', 'PT65M', []],
  ['cron: 0 2 * * *', 'PT1H', []],
])('schedule { %s } with an expected interval of %s: warnings %j', (schedule, interval, codes) => {
  const source = `${flow(`{ interval: ${interval} }`)}\nschedule: { ${schedule} }`
  const { diagnostics, warnings } = compile(source, { catalogue: CATALOGUE })
  expect(diagnostics).toEqual([])
  expect(warnings.map(({ code, pointer }) => [code, pointer])).toEqual(
    codes.map((code) => [code, '/expect/interval']),
  )
})
