/** Flow execution: identities of steps, errors inside and outside the flow, variables, and endless loops. */

import { expect, test } from 'vitest'
import { ERRORS, FlowError } from '../../../flows-dsl/errors.ts'
import { clip, utf8Length } from '../../../flows-dsl/json.ts'
import { type Effects, runFlow } from '../../../flows-dsl/machine/driver.ts'
import type { StepEvent } from '../../../flows-dsl/tasks/task.ts'
import { compiled, START_MS, trace } from '../../conformance/flows/scenario.ts'
import { threadMs } from '../../support/thread-time.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const INFO = { id: 'run-1', started_at: '2026-01-02T03:04:05.000Z' }

function effects(more: Partial<Effects> = {}): Effects & { readonly events: StepEvent[] } {
  const events: StepEvent[] = []
  const record = (event: StepEvent) => void events.push(event)
  const scope: Effects['scope'] = (work) => {
    void work()
    return { cancel: () => {} }
  }
  const world = { events, record, scope, nowMs: () => START_MS, random: () => 0 }
  return { ...world, call: async () => null, sleep: async () => {}, wait: async () => null, ...more }
}

test('step: has a pointer, an iteration and a summary; its events have times', async () => {
  const flow = `${HEAD}do:
  - outer: { do: [{ a/b: { wait: PT61S } }] }
  - again: { switch: [{ once: { when: .n == null, then: mark } }], then: end }
  - mark: { set: { n: 1 }, then: outer }`
  const { events } = await trace(flow, { input: {} })
  const lines = events.map(({ step, phase, at_ms }) => {
    return `${step.pointer}#${step.iteration} ${step.kind} ${phase} +${at_ms - START_MS}`
  })
  expect(lines).toEqual([
    '/do/0/outer#0 do started +0',
    '/do/0/outer/do/0/a~1b#0 wait started +0',
    '/do/0/outer/do/0/a~1b#0 wait completed +61000',
    '/do/0/outer#0 do completed +61000',
    '/do/1/again#0 switch started +61000',
    '/do/1/again#0 switch completed +61000',
    '/do/2/mark#0 set started +61000',
    '/do/2/mark#0 set completed +61000',
    '/do/0/outer#1 do started +61000',
    '/do/0/outer/do/0/a~1b#1 wait started +61000',
    '/do/0/outer/do/0/a~1b#1 wait completed +122000',
    '/do/0/outer#1 do completed +122000',
    '/do/1/again#1 switch started +122000',
    '/do/1/again#1 switch completed +122000',
  ])
  const summaries = new Map(events.map(({ step }) => [step.name, step.summary]))
  expect(Object.fromEntries(summaries)).toEqual({
    outer: 'outer: do a/b',
    'a/b': 'a/b: wait 1 minute 1 second',
    again: 'again: switch once',
    mark: 'mark: set n',
  })
})

test('summaries: describe calls', async () => {
  const flow = `${HEAD}do:
  - a: { call: collection.get, with: { name: x, id: y } }
  - b: { call: http, with: { method: post, endpoint: 'https://x.example/{id}' }, input: { from: '{ id: "ä/?" }' } }
  - c: { call: http, with: { method: '\${ "put" }', endpoint: '\${ "https://y.example" }' } }`
  const { events, calls } = await trace(flow, { input: {} })
  const summaries = events.filter(({ phase }) => phase === 'started').map(({ step }) => step.summary)
  expect(summaries).toEqual(['a: call collection.get', 'b: POST https://x.example/{id}', 'c: HTTP'])
  expect(calls.map((call) => call['arguments'])).toMatchObject([
    { name: 'x', id: 'y' },
    { method: 'POST', endpoint: 'https://x.example/%C3%A4%2F%3F' },
    { method: 'PUT', endpoint: 'https://y.example' },
  ])
})

test('step: lists the tasks around it with their iterations', async () => {
  const flow = `${HEAD}do:
  - all: { for: { each: n, in: '\${ [1, 2] }' }, do: [{ a/b: { do: [{ put: { set: { n: 1 } } }] } }] }
  - both: { fork: { branches: [{ left: { do: [{ put: { set: { n: 1 } } }] } }, { right: { set: { n: 2 } } }] } }`
  const { events } = await trace(flow, { input: {} })
  const ways = events
    .filter(({ phase }) => phase === 'started')
    .map(({ step }) => [step.name, step.breadcrumbs])
  expect(ways).toEqual([
    ['all', ''],
    ['a/b', 'all'],
    ['put', 'all / a/b'],
    ['a/b', 'all[1]'],
    ['put', 'all[1] / a/b'],
    ['both', ''],
    ['left', 'both'],
    ['put', 'both / left'],
    ['right', 'both'],
  ])
})

test('summary: has at most 200 bytes and ends at a code point', async () => {
  const flow = `${HEAD}do: [{ a: { set: { ${'😀'.repeat(80)}: 1 } } }]`
  const { events } = await trace(flow, { input: {} })
  const summary = events[0]?.step.summary ?? ''
  expect(utf8Length(summary)).toBeLessThanOrEqual(200)
  expect(summary.endsWith('😀')).toBe(true)
  expect(clip('aé😀', 2)).toBe('a')
  expect(clip('aé😀', 3)).toBe('aé')
})

test('variables: have the values of the specification', async () => {
  const flow = `${HEAD}do:
  - a: { set: { workflow: '\${ $workflow }', task: '\${ $task }', runtime: '\${ $runtime }', context: '\${ $context }' } }`
  const { result } = await trace(flow, { input: { i: 1 } })
  const startedAt = {
    iso8601: '2026-01-02T03:04:05.000Z',
    epoch: { seconds: START_MS / 1000, milliseconds: START_MS },
  }
  expect(result).toEqual({
    status: 'completed',
    output: {
      workflow: {
        id: 'run-1',
        definition: { document: { dsl: '1.0.3', namespace: 'n', name: 'x', version: '1.0.0' } },
        input: { i: 1 },
        startedAt,
      },
      task: { name: 'a', reference: '/do/0/a', startedAt, input: { i: 1 } },
      runtime: { name: 'tenon', version: '1', metadata: {} },
      context: {},
    },
  })
})

test('FlowError of an effect: faults the flow at the location of the task', async () => {
  const world = effects({ call: () => Promise.reject(new FlowError(ERRORS.authorization, 'No.')) })
  const flow = compiled(`${HEAD}do: [{ a: { do: [{ b: { call: event.publish, with: { topic: t } } }] } }]`)
  const error = { ...ERRORS.authorization, detail: 'No.', instance: '/do/0/a/do/0/b' }
  expect(await runFlow(flow, null, world, INFO)).toEqual({ status: 'faulted', error })
  expect(world.events.map(({ phase, step }) => `${step.name} ${phase}`)).toEqual([
    'a started',
    'b started',
    'b faulted',
    'a faulted',
  ])
  expect(world.events.at(-1)?.error).toEqual(error)
})

test('error that has an instance: keeps it', () => {
  const error = new FlowError(ERRORS.timeout, 'late', '/do/1/x')
  expect(error.at('/do/0/y').toObject()).toEqual({ ...ERRORS.timeout, detail: 'late', instance: '/do/1/x' })
})

test.each([new Error('cancelled'), 'text', undefined])(
  'any other error: passes through unchanged: %s',
  async (thrown) => {
    const world = effects({ sleep: () => Promise.reject(thrown) })
    const run = runFlow(compiled(`${HEAD}do: [{ a: { wait: PT1S } }]`), null, world, INFO)
    await expect(run.catch((error: unknown) => Promise.reject({ error }))).rejects.toEqual({ error: thrown })
    expect(world.events.map(({ phase }) => phase)).toEqual(['started'])
  },
)

test('errors of the flow itself: have a location', async () => {
  const before = `${HEAD}input: { from: '\${ 1 + "a" }' }\ndo: [{ a: { set: {} } }]`
  const after = `${HEAD}output: { as: '\${ 1 + "a" }' }\ndo: [{ a: { set: {} } }]`
  expect((await trace(before, { input: null })).result).toMatchObject({ error: { instance: '/input/from' } })
  expect((await trace(after, { input: null })).result).toMatchObject({ error: { instance: '/output/as' } })
})

test('endless loop: ends after 10,000 tasks', async () => {
  const { result, steps } = await trace(`${HEAD}do: [{ a: { set: { n: 1 }, then: a } }]`, { input: null })
  expect(steps).toHaveLength(10_000)
  expect(result).toMatchObject({ status: 'faulted', error: { ...ERRORS.runtime, instance: '/do/0/a' } })
})

test('data that grows in a loop: ends the flow, not the worker', async () => {
  for (const grown of ['[.]', '{a: ., b: .}', '[., .]']) {
    const flow = `${HEAD}do: [{ a: { set: { v: '\${ .v | ${grown} }' }, then: a } }]`
    const start = threadMs()
    const { result } = await trace(flow, { input: { v: 'x' } })
    expect(result).toMatchObject({ status: 'faulted', error: { type: ERRORS.expression.type } })
    expect(threadMs() - start).toBeLessThan(5_000)
  }
})

test('value composed of many large ones: is bounded as a whole', async () => {
  const fields = Array.from({ length: 12 }, (_, i) => `f${i}: '\${ .v }'`).join(', ')
  const { result } = await trace(`${HEAD}do: [{ a: { set: { ${fields} } } }]`, {
    input: { v: 'x'.repeat(400_000) },
  })
  expect(result).toMatchObject({
    error: { detail: expect.stringMatching(/larger than/), instance: '/do/0/a' },
  })
})

test('evaluation between two effects: is bounded, and an effect restores the budget', async () => {
  const costly = `'\${ [${Array.from({ length: 400 }, () => '.').join(', ')}] | . == . }'`
  const loop = `${HEAD}do:
  - a: { set: { x: ${costly} }, then: a }`
  const rested = `${HEAD}do:
  - a: { set: { x: ${costly} } }
  - b: { wait: PT1S }
  - c: { switch: [{ go: { when: true, then: a } }] }`
  expect((await trace(loop, { input: {} })).result).toMatchObject({
    error: { detail: expect.stringMatching(/too many steps/) },
  })
  expect((await trace(rested, { input: {}, stepsMax: 4_000 })).result).toMatchObject({
    error: { type: ERRORS.runtime.type },
  })
})

test('older worker: an unknown task type: is named in the error', async () => {
  const ir = compiled(`${HEAD}do: [{ a: { set: {} } }]`)
  const newer = { ...ir, do: ir.do.map((task) => ({ ...task, kind: 'dance' })) }
  expect(await runFlow(newer, null, effects(), INFO)).toMatchObject({
    error: { type: ERRORS.configuration.type },
  })
})

test('endpoint variable: missing, null, empty or no text: faults before anything is sent', async () => {
  const flow = `${HEAD}do: [{ a: { call: http, with: { method: GET, endpoint: 'https://x.example/{id}' } } }]`
  for (const input of [{}, { id: null }, { id: '' }, null, 'x', { id: {} }, { id: [] }, { id: '..' }]) {
    const { calls, result } = await trace(flow, { input })
    expect(calls).toEqual([])
    expect(result).toMatchObject({ error: { type: ERRORS.expression.type } })
  }
  const half = await trace(flow, { input: { id: '\ud800' } })
  expect(half).toMatchObject({ calls: [], result: { error: { type: ERRORS.validation.type } } })
})
