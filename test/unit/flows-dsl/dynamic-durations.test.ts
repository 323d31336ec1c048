// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Durations by expression, wherever the language has a duration; and waits until a time. */

import { describe, expect, test } from 'vitest'
import type { Json } from '../../../flows-dsl/ir.ts'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import { faultsOf, table } from '../../conformance/flows/diagnostic-table.ts'
import { compiled } from '../../conformance/flows/scenario.ts'

const DOCUMENT = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const run = (flow: string, input: Json = {}, mocks = {}) =>
  simulate(compiled(DOCUMENT + flow), { input, mocks })
const task = (body: string) => `do: [{ a: ${body} }]`
const failing = (retry: string) =>
  task(
    `{ try: [{ b: { call: http, with: { method: get, endpoint: https://example.com } } }], catch: { retry: ${retry} } }`,
  )
const DOWN = { b: [{ error: { type: 'communication', status: 503 } }, { output: 1 }] }

describe('duration by expression', () => {
  test.each<[string, string, Json, number]>([
    ['wait', task("{ wait: '${ .for }' }"), { for: 'PT2H' }, 7_200_000],
    ['wait, as a mapping', task("{ wait: '${ .for }' }"), { for: { minutes: 2 } }, 120_000],
    ['parts of a wait', task("{ wait: { minutes: 1, seconds: '${ .s * 2 }' } }"), { s: 5 }, 70_000],
    [
      'wait until a time',
      task("{ wait: { until: '${ .due }' } }"),
      { due: '2026-01-01T01:30:00+01:00' },
      1_800_000,
    ],
    ['wait until a literal time', task("{ wait: { until: '2026-01-02T00:00:00Z' } }"), {}, 86_400_000],
    [
      'wait until a time in the past',
      task("{ wait: { until: '${ .due }' } }"),
      { due: '2025-01-01T00:00:00Z' },
      0,
    ],
    ['retry.delay, with the error', failing("{ delay: { seconds: '${ $error.status - 500 }' } }"), {}, 3_000],
    ['retry.jitter', failing("{ jitter: { from: '${ .j }', to: '${ .j }' } }"), { j: 'PT4S' }, 4_000],
    [
      'approve.deadline',
      task("{ approve: { approvers: [ada], deadline: '${ .d }', onDeadline: approve } }"),
      { d: 'P3D' },
      259_200_000,
    ],
  ])('%s: is evaluated when the execution comes to it', (_, flow, input, ms) => {
    expect(run(flow, input, DOWN)).toMatchObject({ status: 'completed', duration_ms: ms })
  })

  test.each<[string, string, string]>([
    ['timeout of the flow', "timeout: { after: '${ .max }' }\ndo: [{ a: { wait: PT1H } }]", '/timeout'],
    [
      'timeout of a task',
      "do: [{ a: { wait: PT1H, timeout: { after: { minutes: '${ 1 }' } } } }]",
      '/do/0/a',
    ],
    [
      'limit of attempts',
      task(
        "{ try: [{ b: { wait: PT1H } }], catch: { errors: { with: { status: 500 } }, retry: { limit: { attempt: { duration: '${ .max }' } } } } }",
      ),
      '/do/0/a',
    ],
  ])('%s: ends the work after that time', (_, flow, instance) => {
    expect(run(flow, { max: 'PT1M' })).toMatchObject({
      duration_ms: 60_000,
      error: { status: 408, instance },
    })
  })

  test('retry.limit.duration: ends the retries', () => {
    const { duration_ms, status } = run(
      failing("{ delay: PT4S, limit: { duration: '${ .max }' } }"),
      { max: 'PT10S' },
      { b: { error: { type: 'communication' } } },
    )
    expect([status, duration_ms]).toEqual(['faulted', 8_000])
  })

  test.each<[string, string, string]>([
    ['wait', task("{ wait: '${ .v }' }"), '`wait` yields'],
    ['wait.until', task("{ wait: { until: '${ .v }' } }"), '`wait.until` yields'],
    ['timeout', task("{ wait: PT1S, timeout: { after: '${ .v }' } }"), '`timeout.after` yields'],
    ['flow timeout', "timeout: { after: '${ .v }' }\ndo: [{ a: { wait: PT1S } }]", '`timeout.after` yields'],
    ['delay', failing("{ delay: '${ .v }' }"), '`delay` of `retry` yields'],
    ['deadline', task("{ approve: { approvers: [ada], deadline: '${ .v }' } }"), '`deadline` yields'],
  ])('%s: a value that is no duration faults with the place and the value', (_, flow, place) => {
    for (const v of [
      'soon',
      'PT-1S',
      '-PT1S',
      'P366D',
      5,
      null,
      '',
      'P1Y',
      { seconds: -1 },
      { second: 1 },
      { seconds: 1.5 },
      { seconds: 1e300 },
      [],
      '2026-13-01T00:00:00Z',
      '2026-01-01',
      'x'.repeat(5_000),
    ]) {
      const { status, error } = run(flow, { v }, { b: { error: { type: 'communication' } } })
      expect([v, status, error?.title]).toEqual([v, 'faulted', 'Expression error'])
      expect(error?.detail).toContain(`${place} ${JSON.stringify(v).slice(0, 20)}`)
      expect(error?.detail.length).toBeLessThan(400)
    }
  })

  test('time that is more than 365 days ahead: faults', () => {
    expect(run(task("{ wait: { until: '2028-01-01T00:00:00Z' } }")).error?.detail).toBe(
      '`wait.until` is more than 365 days ahead.',
    )
  })

  test('jitter whose end is before its start: faults', () => {
    const { error } = run(failing("{ jitter: { from: '${ .j }', to: PT1S } }"), { j: 'PT4S' }, DOWN)
    expect(error?.detail).toBe('`jitter.to` of `retry` is shorter than `jitter.from`.')
  })
})

describe('compilation', () => {
  table([
    ["{ wait: { seconds: '${ .x + ¦}' } }", 'expression_invalid /wait/seconds'],
    [
      "{ wait: { seconds: ¦'${ .x }s' } }".replace("¦'${ .x }s'", "'¦${ .x }s'"),
      'expression_partial /wait/seconds',
    ],
    ["{ wait: { seconds: '${ .x }', minutes: ¦-1 } }", 'duration_invalid /wait/minutes'],
    ["{ wait: { seconds: '${ .x }', ¦hour: 1 } }", 'unknown_key /wait/hour'],
    ['{ wait: { until: ¦tomorrow } }', 'value_invalid /wait/until'],
    ["{ wait: { until: ¦'2026-12-24' } }", 'value_invalid /wait/until'],
    ["{ wait: { until: '${ .x }', ¦seconds: 1 } }", 'unknown_key /wait/seconds'],
    ['{ wait: { until: ¦5 } }', 'wrong_type /wait/until'],
  ])

  test('schedule: stays static', () => {
    expect(faultsOf("  - a: { set: {} }\nschedule: { every: '${ .x }' }")).toEqual([
      'duration_invalid 4:20 /schedule/every',
    ])
  })
})

test('exponential back-off over 200 retries: no delay falls, overflows or exceeds a year', () => {
  const retry = '{ delay: PT1S, backoff: { exponential: {} }, limit: { attempt: { count: 200 } } }'
  const call = 'call: http, with: { method: get, endpoint: https://example.com }'
  const ir = compiled(`document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }
do: [{ a: { try: [{ b: { ${call} } }], catch: { retry: ${retry} } } }]`)
  const error = { type: 'communication', status: 503 }
  const { status, trace } = simulate(ir, { mocks: { b: Array.from({ length: 201 }, () => ({ error })) } })
  const times = trace
    .filter(({ name, phase }) => name === 'b' && phase === 'started')
    .map(({ at }) => Date.parse(at))
  const delays = times.slice(1).map((ms, index) => ms - (times[index] ?? 0))
  expect([status, delays.length, delays[0]]).toEqual(['faulted', 200, 1_000])
  for (const [index, ms] of delays.entries()) expect(ms).toBeGreaterThanOrEqual(delays[index - 1] ?? 0)
  expect(delays.at(-1)).toBe(365 * 86_400_000)
})
