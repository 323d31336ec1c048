// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Branches: cancelled ones leave no records, order follows from the effects, and limits apply. */

import { expect, test } from 'vitest'
import type { Json } from '../../../flows-dsl/ir.ts'
import { type CallRequest, runFlow } from '../../../flows-dsl/machine/driver.ts'
import type { StepRef } from '../../../flows-dsl/tasks/task.ts'
import { type Case, compiled, INFO, trace, World } from '../../conformance/flows/scenario.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"

const lines = (world: Pick<World, 'events'>) => world.events.map(({ step, phase }) => `${step.name} ${phase}`)

async function ticks(): Promise<void> {
  for (let i = 0; i < 5; i++) await new Promise(setImmediate)
}

const RACE = `${HEAD}do:
  - race:
      fork:
        compete: true
        branches:
          - quick: { wait: PT1S }
          - tie: { wait: PT1S, export: { as: { from: tie } } }
          - slow:
              try:
                - nap: { wait: PT2S }
                - inner: { fork: { branches: [{ x: { wait: PT1S } }] } }
              catch: { retry: { delay: PT1S }, do: [{ never: { set: {} } }] }
  - after: { wait: PT9S }
output: { as: '\${ $context }' }`

test('losing branches: are cancelled without catching, exporting or recording anything', async () => {
  const world = new World()
  const result = await world.until(runFlow(compiled(RACE), null, world, INFO))
  await ticks()
  expect(result).toEqual({ status: 'completed', output: {} })
  expect(world.cancelled).toEqual(['nap'])
  expect(world.pending.size).toBe(0)
  expect(world.waits).toEqual([1000, 1000, 2000, 9000])
  expect(lines(world)).toEqual([
    'race started',
    'quick started',
    'tie started',
    'slow started',
    'nap started',
    'quick completed',
    'race completed',
    'after started',
    'after completed',
  ])
})

test('cancellation from outside: passes through fork and try without a record', async () => {
  const world = new World()
  const results: unknown[] = []
  const { cancel } = world.scope(async () => {
    results.push(await runFlow(compiled(RACE), null, world, INFO))
  })
  await ticks()
  cancel()
  await ticks()
  expect(results).toEqual([{ status: 'cancelled' }])
  expect(world.cancelled).toEqual(['quick', 'tie', 'nap'])
  expect(world.pending.size).toBe(0)
  expect(lines(world).filter((line) => !line.endsWith('started'))).toEqual([])
})

test('error of the platform: passes through, and the other branches are cancelled', async () => {
  class Broken extends World {
    override call(): Promise<Json> {
      return Promise.reject(new TypeError('ours'))
    }
  }
  const world = new Broken()
  const flow = compiled(`${HEAD}do:
  - a:
      try: [{ f: { fork: { branches: [{ b: { wait: PT1S } }, { c: { call: event.publish, with: { topic: t } } }] } } }]
      catch: {}`)
  await expect(world.until(runFlow(flow, null, world, INFO))).rejects.toThrow(new TypeError('ours'))
  expect(world.cancelled).toEqual(['b'])
  expect(world.pending.size).toBe(0)
})

test('`end` in a fork within a loop: ends the whole flow', async () => {
  const flow = `${HEAD}do:
  - a:
      for: { in: '\${ [1, 2, 3] }' }
      do:
        - b:
            fork:
              branches:
                - c: { wait: PT5S }
                - d: { do: [{ e: { wait: PT1S } }, { f: { if: $item == 2, set: { ended: '\${ $item }' }, then: end } }] }
        - g: { set: { after: '\${ $item }' } }
  - h: { set: { never: true } }`
  const { result, cancelled } = await trace(flow, { input: {} })
  expect(result).toEqual({ status: 'completed', output: { ended: 2 } })
  expect(cancelled).toEqual(['c'])
})

/** Each effect takes some more promises than it needs. */
class Slow extends World {
  readonly #extra: number

  constructor(testCase: Pick<Case, 'answers'>, extra: number) {
    super(testCase)
    this.#extra = extra
  }

  override async sleep(durationMs: number, step: StepRef): Promise<void> {
    await super.sleep(durationMs, step)
    for (let i = 0; i < this.#extra; i++) await Promise.resolve()
  }

  override async call(request: CallRequest): Promise<Json> {
    const answer = await super.call(request)
    for (let i = 0; i < this.#extra; i++) await Promise.resolve()
    return answer
  }
}

test('order of commands: does not depend on the number of promises', async () => {
  const task = (name: string, id: string) => `${name}: { call: collection.get, with: { name: n, id: ${id} } }`
  const pure = (count: number) => Array.from({ length: count }, (_, i) => `{ p${i}: { set: { v: 1 } } }`)
  const branch = (name: string, count: number) => {
    const tasks = [
      ...pure(count),
      `{ ${task('one', `${name}1`)} }`,
      `{ q: { do: [${pure(count)}] } }`,
      `{ ${task('two', `${name}2`)} }`,
    ]
    return `{ ${name}: { do: [${tasks.join(', ')}] } }`
  }
  const flow = `${HEAD}do: [{ f: { fork: { branches: [${branch('a', 9)}, ${branch('b', 1)}, ${branch('c', 4)}] } } }]`
  const outcomes = [0, 1, 2, 5].map(async (extra) => {
    const world = new Slow({ answers: { 'collection.get': { after: 10, gives: 1 } } }, extra)
    await world.until(runFlow(compiled(flow), null, world, INFO))
    return { ids: world.calls.map((call) => (call['arguments'] as { id: string }).id), lines: lines(world) }
  })
  const [first, ...others] = await Promise.all(outcomes)
  expect(first?.ids).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'c2'])
  for (const other of others) expect(other).toEqual(first)
})

test('fork within a branch: continues in the turn of the branch', async () => {
  const put = (name: string) => `{ ${name}: { set: { by: ${name} } } }`
  const inner = `{ inner: { do: [{ deep: { fork: { branches: [${put('a')}, ${put('b')}] } } }, ${put('c')}] } }`
  const flow = (compete: boolean) =>
    `${HEAD}do: [{ f: { fork: { compete: ${compete}, branches: [${inner}, ${put('d')}] } } }]`
  const all = await trace(flow(false), { input: {} })
  expect(all.steps).toEqual(['f', 'inner', 'deep', 'a', 'b', 'c', 'd'])
  const race = await trace(flow(true), { input: {} })
  expect(race.result).toEqual({ status: 'completed', output: { by: 'c' } })
})

test('task limit within `try`: is neither retried nor caught', async () => {
  const flow = `${HEAD}do:
  - a:
      try: [{ b: { set: {}, then: b } }]
      catch: { retry: { limit: { attempt: { count: 3 } } }, do: [{ c: { set: {} } }] }`
  const { result, steps } = await trace(flow, { input: null, stepsMax: 50 })
  expect(result).toMatchObject({ status: 'faulted', error: { status: 500, instance: '/do/0/a/try/0/b' } })
  expect(steps).toHaveLength(50)
})

test('retry without delay: is bounded by the number of tasks that it enters', async () => {
  const raise = '{ raise: { error: { type: urn:t, status: 400 } } }'
  const flow = `${HEAD}do: [{ a: { try: [{ b: ${raise} }], catch: { retry: { limit: { attempt: { count: 999 } } } } } }]`
  const { result, steps, waits } = await trace(flow, { input: null, stepsMax: 50 })
  expect(result).toMatchObject({ error: { detail: expect.stringContaining('more than 50 tasks') } })
  expect(steps).toHaveLength(50)
  expect(waits).toEqual([])
})

test('branches: share the task limit, and their outputs are one value', async () => {
  const loop = (name: string) => `{ ${name}: { do: [{ x: { set: {}, then: x } }] } }`
  const endless = `${HEAD}do: [{ f: { fork: { branches: [${loop('a')}, ${loop('b')}] } } }]`
  const bounded = await trace(endless, { input: null, stepsMax: 50 })
  expect(bounded.steps).toHaveLength(50)
  const names = Array.from({ length: 12 }, (_, i) => `{ b${i}: { set: { v: '\${ .v }' } } }`)
  const large = `${HEAD}do: [{ f: { fork: { branches: [${names.join(', ')}] } } }]`
  const { result } = await trace(large, { input: { v: 'x'.repeat(400_000) } })
  expect(result).toMatchObject({
    error: { detail: expect.stringMatching(/larger than/), instance: '/do/0/f' },
  })
})

test('random numbers: are requested for jitter only', async () => {
  class Fixed extends World {
    override random(): number {
      throw new Error('asked')
    }
  }
  const flow = (retry: string) => `${HEAD}do:
  - a: { try: [{ b: { raise: { error: { type: urn:t, status: 400 } } } }], catch: { retry: ${retry}, do: [{ c: { set: {} } }] } }`
  const limit = 'limit: { attempt: { count: 1 } }'
  for (const [jitter, wanted] of [
    ['', 'completed'],
    ['jitter: { from: PT1S, to: PT2S }, ', 'asked'],
  ] as const) {
    const world = new Fixed()
    const run = world.until(runFlow(compiled(flow(`{ ${jitter}${limit} }`)), null, world, INFO))
    expect(
      await run.then(
        ({ status }) => status,
        (error: Error) => error.message,
      ),
    ).toBe(wanted)
  }
})

test('summaries: name the action and the purpose of the delay', async () => {
  const flow = `${HEAD}do:
  - a:
      for: { each: order, in: '\${ [1] }' }
      do:
        - b: { fork: { branches: [{ c: { wait: PT1S } }, { d: { wait: PT2S } }] } }
        - e: { fork: { compete: true, branches: [{ f: { emit: { event: { with: { type: t } } } } }] } }
        - g:
            try: [{ h: { raise: { error: { type: 'https://x.example/e', status: 400 } } } }]
            catch:
              retry: { delay: PT3S, backoff: { linear: {} }, limit: { attempt: { count: 2, duration: PT1M } } }
              do: [{ i: { emit: { event: { with: { type: '\${ "x" }' } } } } }]
        - j: { try: [{ k: { raise: { error: { type: '\${ "t" }', status: 500, title: Late } } } }], catch: {} }`
  const { events, sleeps } = await trace(flow, { input: null })
  const started = events.filter(({ phase, step }) => phase === 'started' && step.iteration === 0)
  expect(started.map(({ step }) => step.summary)).toEqual([
    'a: for each order b, e, g, j',
    'b: fork c, d',
    'c: wait 1 second',
    'd: wait 2 seconds',
    'e: race f',
    'f: emit t',
    'g: try h, retry 2×, catch i',
    'h: raise 400 https://x.example/e',
    'i: emit an event',
    'j: try k',
    'k: raise 500 Late',
  ])
  expect(sleeps).toEqual([
    'c: wait 1 second',
    'd: wait 2 seconds',
    'g: retry 1 of 2 in 3 seconds',
    'g: retry 2 of 2 in 6 seconds',
  ])
})

test('attempt at its time limit: keeps its exports, and its own error takes precedence', async () => {
  const flow = `${HEAD}do:
  - a:
      try:
        - b: { set: { v: 1 }, export: { as: { tried: true } } }
        - c: { wait: PT9S }
      catch: { errors: { with: { status: 408 } }, retry: { limit: { attempt: { duration: PT1S, count: 1 } } }, do: [{ d: { set: { c: '\${ $context }', e: '\${ $error }' } } }] }`
  const { result, sleeps, cancelled } = await trace(flow, { input: null })
  expect(result).toMatchObject({
    output: {
      c: { tried: true },
      e: { status: 408, detail: 'The task took longer than 1 second.', instance: '/do/0/a' },
    },
  })
  expect(sleeps).toEqual([
    'c: wait 9 seconds',
    'a: at most 1 second',
    'c: wait 9 seconds',
    'a: at most 1 second',
  ])
  expect(cancelled).toEqual(['c', 'c'])
})
