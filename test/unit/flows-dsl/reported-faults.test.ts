// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Faults that others had in retries and loops: how often a call is made, and when (docs/contributing/trackers.md). */

import { expect, test } from 'vitest'
import type { Json } from '../../../flows-dsl/ir.ts'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import { compiled } from '../../conformance/flows/scenario.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const CALL = 'call: http, with: { method: get, endpoint: https://p.example/poll }'

/** The times of the attempts of a call that always fails, in milliseconds of virtual time. */
function attempts(retry: string): number[] {
  const flow = compiled(`${HEAD}do: [{ a: { try: [{ ask: { ${CALL} } }], catch: { retry: { ${retry} } } } }]`)
  const mocks = { ask: { error: { type: 'communication', status: 503 } } }
  const { trace, status } = simulate(flow, { mocks })
  expect(status).toBe('faulted')
  return trace
    .filter(({ name, phase }) => name === 'ask' && phase === 'started')
    .map(({ at }) => Date.parse(at))
}

const gapsOf = (times: readonly number[]) => times.slice(1).map((time, index) => time - (times[index] ?? 0))

test.each(['exponential', 'linear', 'constant'])(
  '%s backoff over 200 retries: delays never fall and stay finite',
  (kind) => {
    const gaps = gapsOf(attempts(`delay: PT1S, backoff: { ${kind}: {} }, limit: { attempt: { count: 200 } }`))
    expect(gaps).toHaveLength(200)
    expect(gaps).toEqual(gaps.toSorted((a, b) => a - b))
    expect([gaps[0], gaps.every((gap) => Number.isFinite(gap) && gap >= 1_000)]).toEqual([1_000, true])
  },
)

test.each([1, 2, 5])(
  '`attempt.count: %i`: that many retries after the first attempt, each after the delay',
  (count) => {
    const gaps = gapsOf(attempts(`delay: PT3S, limit: { attempt: { count: ${count} } }`))
    expect(gaps).toEqual(Array.from({ length: count }, () => 3_000))
  },
)

test('`while` of a loop: is asked with what the iteration before has exported', () => {
  const flow = compiled(`${HEAD}do:
  - poll:
      for: { each: i, in: '\${ [range(20)] }' }
      while: '\${ $context.status != "ready" }'
      do:
        - ask: { ${CALL}, export: { as: '\${ { status: .status } }' } }
        - rest: { wait: PT1M, if: '\${ $context.status != "ready" }' }
`)
  const answers = Array.from({ length: 8 }, (_, n) => ({
    output: { status: n === 7 ? 'ready' : 'pending' } as Json,
  }))
  const { status, trace, unused, duration_ms } = simulate(flow, { mocks: { ask: answers } })
  const polls = trace.filter(({ name, phase }) => name === 'ask' && phase === 'started')
  expect([status, polls.length, unused, duration_ms]).toEqual(['completed', 8, undefined, 7 * 60_000])
})
