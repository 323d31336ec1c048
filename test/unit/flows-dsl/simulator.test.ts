// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/**
 * The simulator against executions on fake effects, over the whole corpus, and its report if an answer is
 * missing.
 */

import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { Json } from '../../../flows-dsl/ir.ts'
import { Machine } from '../../../flows-dsl/machine/machine.ts'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import { type Mocks, SimulationInvalid } from '../../../flows-dsl/simulator/types.ts'
import {
  type Case,
  compiled,
  isSimulated,
  type SimulatedCase,
  trace,
} from '../../conformance/flows/scenario.ts'

const CORPUS = new URL('../../conformance/flows/corpus/', import.meta.url)
const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const read = (file: string) => readFileSync(new URL(file, CORPUS), 'utf8')

/** Answers of a corpus case in the form of mocks. */
function mocksOf(answers: Case['answers'] = {}): Mocks {
  const one = (answer: Json) => {
    const special = Object(answer) as { gives?: Json; fails?: { type: string }; after?: number }
    const isSpecial = 'gives' in special || 'fails' in special || 'after' in special
    const after = isSpecial && special.after !== undefined ? { after: { milliseconds: special.after } } : {}
    if (isSpecial && special.fails !== undefined) return { error: special.fails, ...after }
    return { output: isSpecial && 'gives' in special ? (special.gives ?? null) : answer, ...after }
  }
  const entries = Object.entries(answers).map(([name, answer]) => {
    const { next } = Object(answer) as { next?: Json[] }
    return [name, next === undefined ? one(answer) : next.map(one)] as const
  })
  const silent = ['http', 'collection.create', 'collection.get', 'event.publish'].map(
    (name) => [name, { output: null }] as const,
  )
  return Object.fromEntries([...silent, ...entries]) as Mocks
}

const corpus = readdirSync(CORPUS)
  .filter((file) => file.endsWith('.yaml'))
  .flatMap((file) => {
    const all: Record<string, Case | SimulatedCase> = JSON.parse(read(file.replace('.yaml', '.json')))
    return Object.entries(all).map(([name, one]) => ({ file, name, one }))
  })

// Limits of the simulator have a test of their own; waiting for external input works in the simulator only.
const cases = corpus.flatMap(({ one, ...more }) =>
  isSimulated(one) || one.stepsMax !== undefined ? [] : [{ ...more, one }],
)
const simulated = corpus.flatMap(({ one, ...more }) =>
  isSimulated(one) && one.invalid === undefined ? [{ ...more, one }] : [],
)

/** Runs `work` with machines whose state is discarded and restored from JSON before each event. */
function withRestoredState<T>(work: () => T): T {
  const { completeEffect, event, decide } = Machine.prototype
  const restoringState = <Argument, Answer>(method: (this: Machine, ...args: Argument[]) => Answer) =>
    function (this: Machine, ...args: Argument[]): Answer {
      const kept = JSON.parse(JSON.stringify(this.state))
      for (const key of Object.keys(this.state))
        delete (this.state as unknown as Record<string, unknown>)[key]
      Object.assign(this.state, kept)
      return method.apply(this, args)
    }
  Machine.prototype.completeEffect = restoringState(completeEffect)
  Machine.prototype.event = restoringState(event)
  Machine.prototype.decide = restoringState(decide as (...args: unknown[]) => ReturnType<typeof decide>)
  try {
    return work()
  } finally {
    Object.assign(Machine.prototype, { completeEffect, event, decide })
  }
}

describe.each(cases)('$file: $name', ({ file, one }) => {
  const ir = () => compiled(read(file))
  const { random } = one
  const simulation = {
    input: one.input,
    mocks: mocksOf(one.answers),
    options: { start: '2026-01-02T03:04:05Z', ...(random !== undefined && { random }) },
  }

  test('simulation: equals the execution', async () => {
    const run = await trace(read(file), one)
    const simulated = simulate(ir(), simulation)
    const { status } = simulated
    expect({ status, ...(status === 'completed' && { output: simulated.output }) }).toEqual({
      status: run.result.status,
      ...(run.result.status === 'completed' && { output: withRun(run.result.output) }),
    })
    const entered = simulated.trace.filter(({ phase }) => phase === 'started' || phase === 'skipped')
    expect(entered.map(({ name, phase }) => (phase === 'skipped' ? `-${name}` : name))).toEqual(run.steps)
  })

  test('simulation: the state is serialised after each event: equals the execution', () => {
    expect(withRestoredState(() => simulate(ir(), simulation))).toEqual(simulate(ir(), simulation))
  })
})

test.each(simulated)(
  '$file: $name: the state is serialised after each event: equals the execution',
  ({ file, one }) => {
    const ir = compiled(read(file))
    expect(withRestoredState(() => simulate(ir, one))).toEqual(simulate(ir, one))
  },
)

/** The simulated execution has a name of its own. */
const withRun = (output: Json): Json => JSON.parse(JSON.stringify(output).replaceAll('"run-1', '"simulation'))

const CALLS = `${HEAD}do:
  - ask: { call: collection.get, with: { name: pets, id: '7' } }
  - rest: { wait: PT1H }
  - size:
      switch: [{ large: { when: .n > 10, then: big } }, { small: { then: end } }]
  - big: { if: .n > 100, set: { big: true } }`

test('missing answer: the simulation waits and reports it', () => {
  const { status, wanted, trace: lines } = simulate(compiled(CALLS), { input: {} })
  expect(status).toBe('waiting')
  expect(wanted).toEqual([
    {
      step: '/do/0/ask#0',
      what: 'the answer of collection.get',
      hint: expect.stringContaining('mocks: { ask: { output: … } }'),
    },
  ])
  expect(lines).toEqual([
    expect.objectContaining({
      name: 'ask',
      phase: 'started',
      asks: { function: 'collection.get', arguments: { name: 'pets', id: '7' } },
    }),
  ])
})

test('virtual time: is reported with the tasks and branches that were not taken', () => {
  const simulated = simulate(compiled(CALLS), {
    mocks: { 'collection.get': { output: { n: 50 }, after: 'PT2S' } },
  })
  expect(simulated).toMatchObject({ status: 'completed', output: { n: 50 }, duration_ms: 3_602_000 })
  expect(simulated.coverage).toEqual({
    tasks: { entered: 3, total: 4, missed: ['/do/3/big'] },
    ways: { taken: 2, total: 4, missed: ['/do/2/size: small', '/do/3/big: entered'] },
  })
  expect(simulated.trace.map(({ name, phase, at, took }) => [name, phase, at.slice(11, 19), took])).toEqual([
    ['ask', 'started', '00:00:00', undefined],
    ['ask', 'completed', '00:00:02', undefined],
    ['rest', 'started', '00:00:02', undefined],
    ['rest', 'completed', '01:00:02', undefined],
    ['size', 'started', '01:00:02', undefined],
    ['size', 'completed', '01:00:02', 'large'],
    ['big', 'skipped', '01:00:02', undefined],
  ])
})

test('mocks: a list answers once each, a task takes precedence over its function, errors have names', () => {
  const flow = compiled(`${HEAD}do:
  - again:
      try: [{ ask: { call: http, with: { method: get, endpoint: https://x.example } } }]
      catch: { errors: { with: { status: 408 } }, retry: { delay: PT1M, limit: { attempt: { count: 3 } } } }`)
  const late = { error: { type: 'timeout', detail: 'Late.' } } as const
  const simulated = simulate(flow, {
    mocks: { ask: [late, late, { output: 'at last' }], http: { output: 'no' } },
  })
  expect(simulated).toMatchObject({ status: 'completed', output: 'at last', duration_ms: 120_000 })
  expect(simulate(flow, { mocks: { ask: [late] } })).toMatchObject({ status: 'waiting' })
})

test.each([
  [{ mocks: { ask: { outptu: 1 } } }, '/mocks/ask/outptu'],
  [{ mocks: { ask: {} } }, '/mocks/ask'],
  [{ mocks: { ask: [{ output: 1, after: 'soon' }] } }, '/mocks/ask/0/after'],
  [{ mocks: { ask: { error: {} } } }, '/mocks/ask/error/type'],
  [{ options: { start: 'today' } }, '/options/start'],
  [{ events: [{ event: {}, after: -1 }] }, '/events/0/after'],
  [{ decisions: [{ task: 'ask', decision: {} }] }, '/decisions'],
] as const)('invalid simulation %j: is rejected with its location', (simulation, pointer) => {
  const run = () => simulate(compiled(CALLS), simulation as unknown as Parameters<typeof simulate>[1])
  expect(run).toThrow(SimulationInvalid)
  expect(run).toThrow(expect.objectContaining({ pointer }))
})

test('endless computation: ends at the limit', () => {
  const costly = `\${ [${Array.from({ length: 400 }, () => '.').join(', ')}] | . == . }`
  const flow = compiled(`${HEAD}do:
  - a: { set: { x: '${costly}' } }
  - b: { wait: PT1S, then: a }`)
  expect(() => simulate(flow, {})).toThrow(/too long to be simulated/)
})

test('1,000 steps without effects', () => {
  const tasks = Array.from({ length: 1_000 }, (_, n) => `  - s${n}: { set: { n: '\${ .n + 1 }' } }`)
  const flow = compiled(`${HEAD}do:\n${tasks.join('\n')}`)
  expect(simulate(flow, { input: { n: 0 } }).output).toEqual({ n: 1_000 })
})

test('missing answer with a timeout around it: reported as missing, not as a timeout', () => {
  const call = '{ call: http, with: { method: get, endpoint: https://example.com } }'
  for (const flow of [
    `timeout: { after: PT1M }\ndo: [{ a: ${call} }]`,
    `do: [{ a: { do: [{ b: ${call} }], timeout: { after: PT1M } } }]`,
  ]) {
    const { status, wanted } = simulate(compiled(HEAD + flow), {})
    expect([status, wanted?.[0]?.what]).toEqual(['waiting', 'the answer of http'])
    const slow = simulate(compiled(HEAD + flow), { mocks: { http: { output: 1, after: 'PT2M' } } })
    expect([slow.status, slow.error?.status]).toEqual(['faulted', 408])
  }
})

describe('decision without a time', () => {
  const flow = compiled(
    `${HEAD}do:\n  - fetch: { call: http, with: { method: get, endpoint: https://example.com } }
  - ask: { approve: { approvers: [ada, bob], form: { type: object, properties: { note: { type: string } } } } }
  - never: { if: false, approve: { approvers: [ada] } }`,
  )
  const mocks = { fetch: { output: 1, after: 'PT1M' } }
  const yes = { task: 'ask', decision: { by: 'ada', approved: true } }

  test('before the task waits: is made as soon as it does', () => {
    expect(simulate(flow, { mocks, decisions: [yes] })).toMatchObject({
      status: 'completed',
      duration_ms: 60_000,
    })
  })

  test('for a task that never waits: invalid, with a hint', () => {
    const decided = (task: string) => () => simulate(flow, { mocks, decisions: [yes, { ...yes, task }] })
    expect(decided('fetch')).toThrow('fetch: Nothing waits for a decision there.')
    expect(decided('never')).toThrow(/never: Nothing has waited for a decision there\. Without/)
    expect(decided('aks')).toThrow('There is no task `aks`. Did you mean ask?')
  })

  test('with a time that is too early: invalid, with a hint', () => {
    expect(() => simulate(flow, { mocks, decisions: [{ ...yes, after: 'PT1S' }] })).toThrow(
      /ask: Nothing waits for a decision there at that time\. Without `after`/,
    )
  })
})

describe('Retry-After of a failed call', () => {
  const FLOW = compiled(`${HEAD}do:
  - all:
      try: [{ ask: { call: http, with: { method: get, endpoint: 'https://example.com' } } }]
      catch: { retry: { delay: PT1S, limit: { attempt: { count: 1 }, duration: PT1H } } }
`)
  const failing = (headers: Record<string, string>) => ({
    error: { type: 'communication', status: 429, response: { status: 429, headers } },
  })
  test.each([
    ['seconds', { 'Retry-After': '90' }, 90_000],
    ['less than the delay', { 'Retry-After': '0' }, 1_000],
    ['a date by our clock', { 'Retry-After': 'Thu, 01 Jan 2026 00:02:00 GMT' }, 120_000],
    [
      'a date by the clock of the server',
      { 'Retry-After': 'Wed, 01 Jan 2025 00:00:30 GMT', Date: 'Wed, 01 Jan 2025 00:00:00 GMT' },
      30_000,
    ],
    ['a date in the past', { 'Retry-After': 'Wed, 01 Jan 2025 00:00:00 GMT' }, 1_000],
    ['neither', { 'Retry-After': 'soon' }, 1_000],
    ['negative', { 'Retry-After': '-5' }, 1_000],
  ])('%s: the retry waits at least as long', (_name, headers, durationMs) => {
    const simulated = simulate(FLOW, { mocks: { ask: [failing(headers), { output: 7 }] } })
    expect([simulated.output, simulated.duration_ms]).toEqual([7, durationMs])
  })

  test('without `limit.duration`: delays the retry by an hour at most, unless its own delay is longer', () => {
    const unlimited = (delay: string) =>
      compiled(`${HEAD}do:
  - all:
      try: [{ ask: { call: http, with: { method: get, endpoint: 'https://example.com' } } }]
      catch: { retry: { delay: ${delay}, limit: { attempt: { count: 1 } } } }
`)
    for (const [delay, after, durationMs] of [
      ['PT1S', '3000', 3_000_000],
      ['PT1S', '9999999999', 3_600_000],
      ['PT1S', 'Sun, 01 Jan 2034 00:00:00 GMT', 3_600_000],
      ['PT2H', '9999999999', 7_200_000],
    ] as const) {
      const mocks = { ask: [failing({ 'retry-after': after }), { output: 7 }] }
      const simulated = simulate(unlimited(delay), { mocks })
      expect([simulated.output, simulated.duration_ms], `${delay} ${after}`).toEqual([7, durationMs])
    }
  })

  test('longer than the limit of the retry allows: there is none', () => {
    const simulated = simulate(FLOW, {
      mocks: { ask: [failing({ 'retry-after': '99999999999' }), failing({})] },
    })
    expect(simulated.status).toBe('faulted')
    const day = simulate(FLOW, { mocks: { ask: [failing({ 'retry-after': '86400' })] } })
    expect(day).toMatchObject({ status: 'faulted', duration_ms: 0 })
  })
})

test('coverage of an approval with onReject: fault – a rejection counts, although the step faults', () => {
  const ir = compiled(`document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }
do:
  - ask: { approve: { approvers: [ann], fourEyes: false, onReject: fault } }
`)
  const rejection = { by: 'ann', approved: false }
  const simulated = simulate(ir, { decisions: [{ task: 'ask', decision: rejection }] })
  expect(simulated.status).toBe('faulted')
  expect(simulated.coverage.ways).toEqual({ taken: 1, total: 2, missed: ['/do/0/ask: approved'] })
})
