// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/**
 * Executions that wait for external input: invalid input changes nothing, waits are independent, and
 * everything is bounded.
 */

import { expect, test } from 'vitest'
import type { Json, JsonObject } from '../../../flows-dsl/ir.ts'
import { Machine, newState } from '../../../flows-dsl/machine/machine.ts'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import type { StepEvent } from '../../../flows-dsl/tasks/task.ts'
import { compiled, INFO, START_MS } from '../../conformance/flows/scenario.ts'
import { threadMs } from '../../support/thread-time.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\ndo:\n"

function begun(tasks: string, input: Json = {}, steps: StepEvent[] = []): Machine {
  const ir = compiled(HEAD + tasks)
  const record = (event: StepEvent) => void steps.push(event)
  const surroundings = { nowMs: () => START_MS, random: () => 0.5, record }
  const machine = new Machine(ir, newState(ir, input, { ...INFO, started_by: 'starter' }), surroundings)
  machine.begin()
  return machine
}

const event = (id: number, more: JsonObject = {}): JsonObject => ({
  source: '/s',
  id: String(id),
  type: 't',
  ...more,
})

const ONE = '  - ask: { approve: { approvers: [ada, bob, starter], quorum: 2 } }'

test.each([
  ['another step', '/do/0/ask#1', { by: 'ada', approved: true }, /Nothing waits/],
  ['a step that is not there', '/do/7/x#0', { by: 'ada', approved: true }, /Nothing waits/],
  ['a stranger', '/do/0/ask#0', { by: 'eve', approved: true }, /`eve` is not an approver/],
  [
    'the subject that started the execution',
    '/do/0/ask#0',
    { by: 'starter', approved: true },
    /`starter` has started the execution/,
  ],
  ['a name in other letters', '/do/0/ask#0', { by: 'Ada', approved: true }, /is not an approver/],
  ['a subject that has decided before', '/do/0/ask#0', { by: 'bob', approved: false }, /decided already/],
  ['nobody', '/do/0/ask#0', { approved: true }, /needs `by`/],
  ['no decision', '/do/0/ask#0', { by: 'ada', approved: 'yes' }, /needs `approved`/],
  ['a comment that is no text', '/do/0/ask#0', { by: 'ada', approved: true, comment: {} }, /`comment`/],
])('invalid input: is rejected and changes nothing: %s', (_name, step, decision, reason) => {
  const machine = begun(ONE)
  expect(machine.decide('/do/0/ask#0', { by: 'bob', approved: true })).toEqual({ commands: [] })
  const before = JSON.stringify(machine.state)
  const { commands, refused } = machine.decide(step, decision as JsonObject)
  expect(refused).toMatch(reason)
  expect(commands).toEqual([])
  expect(JSON.stringify(machine.state)).toBe(before)
  machine.decide('/do/0/ask#0', { by: 'ada', approved: true })
  expect(machine.result).toMatchObject({ status: 'completed', output: { approved: true } })
  expect(machine.decide('/do/0/ask#0', { by: 'ada', approved: true }).refused).toMatch(/Nothing waits/)
})

const FORM = `  - ask:
      approve:
        approvers: [ada, bob, cyd]
        form: { type: object, properties: { sum: { type: integer, maximum: 9 } }, required: [sum], additionalProperties: false }`

test.each([
  [{ approved: true }, /The form does not match its schema/],
  [{ approved: true, form: {} }, /sum/],
  [{ approved: true, form: { sum: 10 } }, /\/sum/],
  [{ approved: false, form: { sum: 1, more: 1 } }, /more/],
  [{ approved: true, form: { sum: 'x'.repeat(2_000_000) } }, /\/sum/],
  [{ approved: true, form: { sum: 1 }, comment: 'x'.repeat(5_000) }, /`comment`/],
])('form that violates its schema: is rejected and changes nothing: %#', (decision, reason) => {
  const machine = begun(FORM)
  const before = JSON.stringify(machine.state)
  expect(machine.decide('/do/0/ask#0', { by: 'ada', ...decision } as JsonObject).refused).toMatch(reason)
  expect(JSON.stringify(machine.state)).toBe(before)
  // A rejection may leave the form unchanged.
  expect(machine.decide('/do/0/ask#0', { by: 'bob', approved: false }).refused).toBeUndefined()
  machine.decide('/do/0/ask#0', { by: 'ada', approved: true, form: { sum: 9 } })
  const decisions = [
    { by: 'bob', approved: false, at: INFO.started_at },
    { by: 'ada', approved: true, at: INFO.started_at, form: { sum: 9 } },
  ]
  expect(machine.result).toEqual({ status: 'completed', output: { approved: true, decisions } })
})

test('form whose validation exceeds the budget: is rejected, and no flow faults', () => {
  const machine = begun(`  - ask:
      approve:
        approvers: [ada]
        form: { type: array, uniqueItems: true, items: { type: array, uniqueItems: true } }`)
  const form = Array.from({ length: 1_000 }, () => Array.from({ length: 1_000 }, (_, n) => n))
  expect(machine.decide('/do/0/ask#0', { by: 'ada', approved: true, form }).refused).toMatch(/too many steps/)
  expect(machine.result).toBeUndefined()
  machine.decide('/do/0/ask#0', { by: 'ada', approved: true, form: [] })
  expect(machine.result?.status).toBe('completed')
})

test('form that was not requested: is rejected', () => {
  expect(begun(ONE).decide('/do/0/ask#0', { by: 'ada', approved: true, form: {} }).refused).toMatch(/no form/)
})

test('approvals in a loop: have ids of their own, so that a decision reaches its item only', () => {
  const machine = begun(
    `  - each:
      for: { in: .items }
      do: [{ ask: { approve: { approvers: [ada] }, output: { as: '\${ { n: (.n // 0) } }' } } }]`,
    { items: Array.from({ length: 40 }, (_, n) => n) },
  )
  const decide = (n: number) =>
    machine.decide(`/do/0/each/do/0/ask#${n}`, { by: 'ada', approved: true }).refused
  for (let n = 0; n < 37; n++) {
    expect(decide(37)).toMatch(/Nothing waits/)
    expect(decide(n)).toBeUndefined()
  }
  expect(decide(36)).toMatch(/Nothing waits/)
  expect(decide(37)).toBeUndefined()
  expect(decide(38)).toBeUndefined()
  expect(machine.result).toBeUndefined()
  expect(decide(39)).toBeUndefined()
  expect(machine.result).toMatchObject({ status: 'completed' })
})

test('approvals of concurrent iterations: may be decided in any order, and results keep the order of the items', () => {
  const machine = begun(
    `  - each:
      for: { in: .items, concurrency: 50 }
      do: [{ ask: { approve: { approvers: [ada] }, output: { as: '\${ [$item, .approved] }' } } }]`,
    { items: Array.from({ length: 50 }, (_, n) => n) },
  )
  for (let n = 49; n >= 0; n--) {
    const { refused } = machine.decide(`/do/0/each/do/0/ask#${n}`, { by: 'ada', approved: n !== 37 })
    expect(refused).toBeUndefined()
  }
  const output = Array.from({ length: 50 }, (_, n) => [n, n !== 37])
  expect(machine.result).toEqual({ status: 'completed', output })
})

test('approval in a cancelled branch: can no longer be decided', () => {
  const machine = begun(
    `  - race:
      fork:
        compete: true
        branches: [{ a: { approve: { approvers: [ada] } } }, { b: { approve: { approvers: [ada] } } }]`,
  )
  const { commands } = machine.decide('/do/0/race/fork/branches/1/b#0', { by: 'ada', approved: true })
  expect(commands).toEqual([
    { cancel: 'await', id: expect.any(Number) },
    { cancel: 'await', id: expect.any(Number) },
  ])
  expect(machine.decide('/do/0/race/fork/branches/0/a#0', { by: 'ada', approved: true }).refused).toMatch(
    /Nothing/,
  )
})

test('race of listens: the first complete one wins, and the others get nothing', () => {
  const steps: StepEvent[] = []
  const machine = begun(
    `  - race:
      fork:
        compete: true
        branches:
          - a: { listen: { to: { one: { with: { type: t } } } } }
          - b: { listen: { to: { one: { with: { type: t } } } } }
  - next: { listen: { to: { one: { with: { type: t } } } } }`,
    {},
    steps,
  )
  machine.event(event(1, { data: 1 }))
  const completed = steps.filter(({ phase }) => phase === 'completed')
  expect(completed.map(({ step }) => step.name)).toEqual(['a', 'race'])
  expect(machine.result).toBeUndefined()
  machine.event(event(2, { data: 2 }))
  expect(machine.result).toEqual({ status: 'completed', output: [2] })
})

test('unconsumed events: the last 1,000 are kept; events that all consumers have taken are not', () => {
  const machine = begun(
    '  - l: { listen: { to: { one: { with: { type: t } } } } }\n  - w: { wait: PT1S }\n  - m: { listen: { to: { any: [] } } }',
  )
  machine.event(event(-1))
  expect(machine.state.events).toEqual([])
  for (let n = 0; n < 1_500; n++) machine.event(event(n, { data: n }))
  expect(machine.state.events).toHaveLength(1_000)
  const [timer] = machine.pending()
  machine.completeEffect({ id: timer?.id ?? 0, output: null })
  expect(machine.result).toEqual({ status: 'completed', output: [500] })
})

test('events without an id: are all distinct', () => {
  const machine = begun("  - l: { listen: { to: { any: [], until: '.[1] != null' } } }")
  machine.event({ source: '/s', type: 't', data: 1 })
  machine.event({ source: '/s', type: 't', data: 1 })
  expect(machine.result).toEqual({ status: 'completed', output: [1, 1] })
})

test('kept events: are bounded in size, and the last one always stays', () => {
  const machine = begun('  - w: { wait: PT1S }')
  for (let n = 0; n < 10; n++) machine.event(event(n, { data: 'x'.repeat(500_000) }))
  expect(machine.state.events).toHaveLength(4)
  machine.event(event(10, { data: 'x'.repeat(5_000_000) }))
  expect(machine.state.events).toHaveLength(1)
})

test('events consumed in a fork: are kept until the fork ends', () => {
  const machine = begun(
    `  - both:
      fork:
        branches:
          - a: { listen: { to: { one: { with: { type: t } } } } }
          - b: { listen: { to: { one: { with: { type: end } } } } }
  - c: { listen: { to: { one: { with: { type: t } } } } }`,
  )
  machine.event(event(1))
  expect(machine.state.events).toHaveLength(1)
  machine.event(event(2, { type: 'end' }))
  expect(machine.state.events).toEqual([])
  expect(machine.result).toBeUndefined()
})

test('listen that collects more than a value may hold: faults', () => {
  const machine = begun("  - l: { listen: { to: { any: [], until: '.[9999999] != null' } } }")
  for (let n = 0; n < 10; n++) machine.event(event(n, { data: 'x'.repeat(500_000) }))
  expect(machine.result).toMatchObject({ status: 'faulted', error: { status: 500, instance: '/do/0/l' } })
})

test.each([
  ['{ a: 1 }', { a: 1, b: 2 }, true],
  ['{ a: { b: 1 } }', { a: { b: 1, c: 2 } }, true],
  ['{ a: { b: 1 } }', { a: { c: 2 } }, false],
  ['{ a: null }', {}, false],
  ['{ a: null }', { a: null }, true],
  ['{ toString: 1 }', {}, false],
  ['[{ a: 1 }]', [{ a: 1, b: 2 }], false],
  ['[{ a: 1 }]', [{ a: 1 }], true],
  ['[{ a: 1 }]', [{ b: 1 }], false],
  ['[1, 2]', [1, 2, 3], false],
  ['[1, 2]', [1], false],
  ['{}', {}, true],
  ['{}', [], false],
  ['{}', null, false],
  ['[]', {}, false],
  ['1', '1', false],
  ['a', ['a'], false],
  ["{ a: '${ .b }' }", { a: 1, b: 1 }, true],
  ["{ a: '${ .b }' }", { a: 1, b: 2 }, false],
  ["'${ .a }'", { a: true }, true],
  ["'${ .a }'", { a: false }, false],
  ["'${ .a }'", { a: 1 }, false],
  ["'${ .a.b.c }'", { a: 1 }, false],
  ["'${ . }'", 'x', true],
])('filter of %s on data %j: %s', (filter, data, isTaken) => {
  const machine = begun(`  - l: { listen: { to: { one: { with: { data: ${filter} } } } } }`)
  machine.event(event(1, { data: data as Json }))
  expect(machine.result?.status).toBe(isTaken ? 'completed' : undefined)
})

test('missing data: is null', () => {
  const machine = begun('  - l: { listen: { to: { one: { with: { data: null } } } } }')
  machine.event(event(1, { data: 0 }))
  expect(machine.result).toBeUndefined()
  machine.event(event(2))
  expect(machine.result).toEqual({ status: 'completed', output: [null] })
})

test('endless listen: keeps no events', () => {
  const machine = begun('  - l: { listen: { to: { any: [], until: false } } }')
  for (let n = 0; n < 5; n++) machine.event(event(n, { data: 'x'.repeat(500_000) }))
  expect(machine.result).toBeUndefined()
  expect(JSON.stringify(machine.state).length).toBeLessThan(5_000)
})

test('events of a listen: share no object with the caller', () => {
  const machine = begun(
    `  - l:
      listen: { to: { all: [{ with: { type: t }, correlate: { __proto__: { from: .constructor } } }, { with: { type: t }, correlate: { __proto__: { from: .constructor } } }] } }`,
  )
  machine.event(event(1))
  machine.event(event(2, { constructor: 'a' }))
  machine.event(event(3, { constructor: 'b' }))
  expect(machine.result).toBeUndefined()
  machine.event(event(4, { constructor: 'a', data: 4 }))
  expect(machine.result).toEqual({ status: 'completed', output: [null, 4] })
})

const COSTLY = (count: number) => `  - all:
      for: { in: .items, concurrency: 100 }
      do: [{ l: { listen: { to: { one: { with: { type: t, data: '\${ ([range(${count})] | length) > . }' } } } } } }]`

test('costly filter: does not prevent others from receiving', () => {
  const machine = begun(COSTLY(100_000), { items: [1, 2, 3, 4, 5, 6, 7, 8] })
  const before = machine.stepsUsed
  machine.event(event(1, { data: 1 }))
  // Together they take more steps than a turn has.
  expect(machine.stepsUsed - before).toBeGreaterThan(1_000_000)
  expect(machine.result).toMatchObject({ status: 'completed' })
})

test('filter that exceeds the budget: the missed event is reported', () => {
  const machine = begun(COSTLY(10_000_000), { items: [1] })
  machine.event(event(0, { type: 'other', data: 1 }))
  expect(machine.result).toBeUndefined()
  machine.event(event(1, { data: 1 }))
  const error = { instance: '/do/0/all/do/0/l', detail: expect.stringContaining('too many steps') }
  expect(machine.result).toMatchObject({ status: 'faulted', error })
})

const FAN_OUT = (policy: string) => `  - all:
      for: { in: .items, concurrency: 20${policy} }
      do: [{ get: { call: collection.get, with: { name: x, id: '\${ $item }' } } }]`
const ITEMS = Array.from({ length: 1_000 }, (_, n) => n)
/** 1 % of the calls fail. */
const ANSWERS = ITEMS.map((n) =>
  n % 100 === 50 ? { error: { type: 'communication' }, after: 'PT1S' } : { output: n, after: 'PT1S' },
)

test('1,000 items of which 1 % fail: `continue`: all have their results', () => {
  const { status, output, duration_ms } = simulate(compiled(HEAD + FAN_OUT(', onError: continue')), {
    input: { items: ITEMS },
    mocks: { get: ANSWERS },
  })
  const wanted = ITEMS.map((n) => (n % 100 === 50 ? { error: expect.objectContaining({ status: 500 }) } : n))
  expect([status, output, duration_ms]).toEqual(['completed', wanted, 50_000])
})

test('1,000 items of which 1 % fail: `fail`: the first one ends the loop', () => {
  const { status, error, trace } = simulate(compiled(HEAD + FAN_OUT(', onError: fail')), {
    input: { items: ITEMS },
    mocks: { get: ANSWERS },
  })
  expect([status, error?.instance]).toEqual(['faulted', '/do/0/all/do/0/get'])
  // Those that began before it failed, and no more.
  expect(trace.filter(({ phase, name }) => phase === 'started' && name === 'get')).toHaveLength(70)
})

test.each([1, 20, 1_000])(
  'time for %i concurrent items: grows with the items, not with their square',
  (concurrency) => {
    const ir = compiled(
      `${HEAD}  - all:
      for: { in: .items, concurrency: ${concurrency} }
      do: [{ one: { set: { n: '\${ $index }' } } }]`,
    )
    const timeOf = (count: number) => {
      const input = { items: ITEMS.slice(0, count) }
      const start = threadMs()
      for (let n = 0; n < 1_000 / count; n++) expect(simulate(ir, { input }).status).toBe('completed')
      return threadMs() - start
    }
    timeOf(100)
    // The same work in ten parts, or at once; quadratic work would be ten times as much.
    const [parts, whole] = [Math.min(timeOf(100), timeOf(100)), Math.min(timeOf(1_000), timeOf(1_000))]
    expect(whole).toBeLessThan(parts * 4)
  },
)
