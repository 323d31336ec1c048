/** Test cases of flows: comparison of results, and validation of the cases. */

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { checkCase, checkCases, differences, isPassed } from '../../../flows-dsl/flow-tests/flow-tests.ts'
import type { Json } from '../../../flows-dsl/ir.ts'
import { compiled } from '../../conformance/flows/scenario.ts'

const FLOW = compiled(`document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }
do:
  - first: { if: .go, set: { n: 1 } }
  - get: { call: collection.get, with: { name: things, id: a } }
  - late: { if: .bad, raise: { error: { type: https://x.example/e, status: 418, title: Teapot } } }
`)

const checkOf = (expected: Json, more: object = {}) =>
  checkCase(FLOW, { name: 'one', expect: expected, ...more } as Json)

function differ(expected: Json, more: object = {}) {
  const { errors, differences: found } = checkOf(expected, more)
  expect(errors).toEqual([])
  return found.map((one) => [one.at, one.expected, one.found])
}

const ANSWER = { input: { go: true }, mocks: { get: { output: { a: [1, { b: 2 }] } } } }

test('case with the expected outcome: has no differences', () => {
  const steps = ['first', 'get', '-late']
  const calls = [{ task: 'get', function: 'collection.get', arguments: { id: 'a' } }]
  expect(differ({ output: { a: [1, { b: 2 }] }, steps, calls }, ANSWER)).toEqual([])
  expect(differ({}, ANSWER)).toEqual([])
})

test('difference: states its location, the expected and the actual value', () => {
  expect(differ({ output: { a: [1, { b: 3 }, 4], c: 1 } }, ANSWER)).toEqual([
    ['output.a[1].b', 3, 2],
    ['output.a[2]', 4, undefined],
    ['output.c', 1, undefined],
  ])
  expect(differ({ output: { a: [1] } }, ANSWER)).toEqual([['output.a[1]', undefined, { b: 2 }]])
  expect(differ({ output: {} }, ANSWER)).toEqual([['output.a', undefined, [1, { b: 2 }]]])
  expect(differ({ steps: ['get'] }, ANSWER)).toEqual([['steps', ['get'], ['first', 'get', '-late']]])
  expect(differ({ calls: [] }, ANSWER)).toMatchObject([
    ['calls[0]', undefined, { function: 'collection.get' }],
  ])
  expect(differ({ calls: [{ arguments: { id: 'b' } }] }, ANSWER)).toEqual([
    ['calls[0].arguments.id', 'b', 'a'],
  ])
})

test('no expected outcome: the execution is expected to complete', () => {
  const bad = { ...ANSWER, mocks: { get: { output: { bad: true } } } }
  expect(differ({}, bad)).toEqual([['status', 'completed', 'faulted']])
  expect(differ({ status: 'faulted', error: { status: 418 } }, bad)).toEqual([])
  expect(differ({ status: 'faulted', error: { status: 417 } }, bad)).toEqual([['error.status', 417, 418]])
  expect(differ({})).toEqual([['status', 'completed', 'waiting']])
})

test('objects: are compared field by field', () => {
  const tricky = JSON.parse('{"__proto__": 1, "x y": 2}') as Json
  expect(differences('', tricky, {}, false).map(({ at }) => at)).toEqual(['.__proto__', '["x y"]'])
  expect(differences('', {}, tricky, true)).toEqual([])
  const own = differences('', { constructor: 1 }, {}, true)
  expect(own).toEqual([{ at: '.constructor', expected: 1, found: undefined }])
  expect(differences('', null, {}, false)).toHaveLength(1)
  expect(differences('', [], {}, true)).toHaveLength(1)
})

const LOOP = compiled(`document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }
do:
  - each:
      for: { in: .ids }
      do: [{ get: { call: collection.get, with: { name: things, id: '\${ $item }' } } }]
  - ask: { approve: { approvers: [ada] } }
  - child: { run: { workflow: { namespace: n, name: other, version: latest } } }
  - job: { call: collection.get, with: { name: jobs, id: '\${ $callback.url }' }, awaitCallback: { timeout: PT1H } }
`)
const LOOPED = {
  name: 'loop',
  input: { ids: ['a', 'b', 'c'] },
  mocks: {
    get: { output: 1 },
    'n/other': { output: 2 },
    job: { output: 3 },
    'job.callback': { output: 4 },
  },
  decisions: [{ task: 'ask', decision: { by: 'ada', approved: true } }],
}
const ids = (...wanted: readonly string[]) => wanted.map((id) => ({ task: 'get', arguments: { id } }))

test('someCalls: are in their order among others; calls: are all', () => {
  const differ = (wanted: Json) =>
    checkCase(LOOP, { ...LOOPED, expect: wanted } as Json).differences.map(({ at }) => at)
  const rest = { task: 'job', function: 'collection.get' }
  expect(differ({ someCalls: [...ids('a', 'c'), rest] })).toEqual([])
  expect(differ({ someCalls: ids('c', 'a') })).toEqual(['someCalls[1]'])
  expect(differ({ someCalls: ids('b', 'b') })).toEqual(['someCalls[1]'])
  expect(differ({ calls: [...ids('a', 'b', 'c'), rest] })).toEqual([])
  expect(differ({ calls: ids('a') })).toEqual(['calls[1]', 'calls[2]', 'calls[3]'])
})

const NEVER = (mock: string) => `\`${mock}\` was not used: no step has asked for it.`
const ANSWER_1 = { output: 1 }

// The more of a case, and the whole of its errors.
test.each([
  [
    { mocks: { gett: ANSWER_1 } },
    '/mocks/gett',
    'No task, function or flow that this flow calls is named `gett`. Did you mean get?',
  ],
  [
    { mocks: { 'colection.get': ANSWER_1 } },
    '/mocks/colection.get',
    'is named `colection.get`. Did you mean collection.get?',
  ],
  [{ mocks: { 'n/othr': ANSWER_1 } }, '/mocks/n~1othr', 'Did you mean n/other?'],
  [{ mocks: { 'job.calback': ANSWER_1 } }, '/mocks/job.calback', 'Did you mean job.callback?'],
  [
    { mocks: { '/do/0/each/for/do/0/gt': ANSWER_1 } },
    '/mocks/~1do~10~1each~1for~1do~10~1gt',
    'Did you mean /do/0/each/',
  ],
  [
    { mocks: { zzzzzzzzz: ANSWER_1 } },
    '/mocks/zzzzzzzzz',
    'is named `zzzzzzzzz`. A mock can be get, collection.get, ask, ',
  ],
  [
    { mocks: { each: ANSWER_1 } },
    '/mocks/each',
    'The task `each` is a `for`, which asks for no answer; mock the calls within it.',
  ],
  [{ mocks: { 'collection.get': ANSWER_1 } }, '/mocks/collection.get', NEVER('collection.get')],
  [{ mocks: { workflow: ANSWER_1 } }, '/mocks/workflow', NEVER('workflow')],
  [{ input: { ids: [] } }, '/mocks/get', NEVER('get')],
  [
    { mocks: { get: [1, 2, 3, 4].map((output) => ({ output })) } },
    '/mocks/get',
    '`get` has 4 answers, of which 3 were used.',
  ],
  [
    { mocks: { get: { outptu: 1 } } },
    '/mocks/get/outptu',
    'The key `outptu` is not known. Did you mean output?',
  ],
  [{ mocks: { get: [{ output: 1, aftr: 'PT1S' }] } }, '/mocks/get/0/aftr', 'Did you mean after?'],
  [{ mocks: { get: { error: { typ: 'timeout' } } } }, '/mocks/get/error/typ', 'Did you mean type?'],
  [
    { mocks: { get: { error: { type: 'timeout', response: { stats: 1 } } } } },
    '/mocks/get/error/response/stats',
    'Did you mean status?',
  ],
  [{ events: [{ evnt: {} }] }, '/events/0/evnt', 'Did you mean event?'],
  [{ events: [1] }, '/events', '`events` cannot be [1].'],
  [{ decisions: [{ tsk: 'ask' }] }, '/decisions/0/tsk', 'Did you mean task?'],
  [{ decisions: [{ task: 'aks', decision: {} }] }, '/decisions', 'There is no task `aks`. Did you mean ask?'],
  [{ options: { strt: '2026-01-01T00:00:00Z' } }, '/options/strt', 'Did you mean start?'],
  [{ expect: { steps: ['each', 'gett'] } }, '/expect/steps/1', 'There is no task `gett`. Did you mean get?'],
  [{ expect: { steps: ['-chld'] } }, '/expect/steps/0', 'There is no task `chld`. Did you mean child?'],
  [{ expect: { calls: [{ task: 'gett' }] } }, '/expect/calls/0/task', 'Did you mean get?'],
  [{ expect: { someCalls: [{ task: 'gett' }] } }, '/expect/someCalls/0/task', 'Did you mean get?'],
  [{ expect: { calls: [{ tsk: 'get' }] } }, '/expect/calls/0/tsk', 'Did you mean task?'],
  [{ expect: { compensation: { undne: [] } } }, '/expect/compensation/undne', 'Did you mean undone?'],
  [{ expect: { constructor: 1 } }, '/expect/constructor', 'The key `constructor` is not known.'],
  [{ expect: { status: 'fine' } }, '/expect/status', '`status` cannot be "fine".'],
  [{ expect: { steps: [1] } }, '/expect/steps', '`steps` cannot be [1].'],
  [{ mock: {} }, '/mock', 'The key `mock` is not known. Did you mean mocks?'],
  [{ name: 1 }, '/name', '`name` cannot be 1.'],
  [{ name: undefined }, '', 'A case needs a name.'],
])('case with %j: has one error, which names what was meant', (more, at, message) => {
  const mocks = 'mocks' in more ? { ...LOOPED.mocks, ...more.mocks } : LOOPED.mocks
  const one = JSON.parse(JSON.stringify({ ...LOOPED, ...more, mocks }))
  const messages = checkCase(LOOP, one).errors.map((error) => [error.at, `${error.message} ${error.hint}`])
  expect(messages).toEqual([[at, expect.stringContaining(message)]])
})

test('cases: each has its own errors, and one without a name is counted', () => {
  const names = checkCases(LOOP, [LOOPED, 1, { nam: 'x' }] as Json).map(({ name, errors }) => [
    name,
    ...errors.map((one) => one.at),
  ])
  expect(names).toEqual([['loop'], ['case 2', ''], ['case 3', '/nam']])
  expect(() => checkCases(LOOP, {})).toThrow('Cases are a list.')
})

const SHOP = compiled(`document: { dsl: '1.0.3', namespace: t, name: tst, version: '1.0.0' }
schedule: { cron: '30 2 * * *', timezone: Europe/Berlin }
concurrency: { limit: 1 }
do:
  - get: { call: http, with: { method: get, endpoint: 'https://x.example/{id}' } }
  - each:
      for: { in: .items, concurrency: 3, onError: continue }
      do:
        - put: { call: http, with: { method: post, endpoint: 'https://x.example/put', body: { i: '\${ $item }' } } }
  - sub: { run: { workflow: { namespace: t, name: child, version: latest, input: { n: 1 } } } }
  - pick: { switch: [{ a: { when: '.sq > 0', then: fin } }, { b: { then: bad } }] }
  - bad: { raise: { error: { type: runtime, status: 500 } } }
  - fin: { set: { ok: true } }
`)
const PUTS = [
  ANSWER_1,
  { error: { type: 'communication', status: 500, response: { status: 500 } } },
  ANSWER_1,
]
const ITEMS = { get: { output: { items: [1, 2, 3] } }, sub: { output: { sq: 4 } } }

test.each([
  [
    'some of the calls',
    {
      mocks: { ...ITEMS, put: PUTS },
      expect: { someCalls: [{ task: 'put', arguments: { body: { i: 2 } } }] },
    },
    [],
  ],
  [
    'one call of four',
    { mocks: { ...ITEMS, put: PUTS }, expect: { calls: [{ task: 'put' }] } },
    ['calls[0].task', 'calls[1]', 'calls[2]', 'calls[3]'],
  ],
  ['no mock of the loop', { mocks: ITEMS }, ['status', '/mocks/sub']],
  ['typo in a mock', { mocks: { gett: { output: {} } } }, ['status', '/mocks/gett']],
  ['wrong outcome', { mocks: { get: { output: { items: [] } }, sub: { output: { sq: -1 } } } }, ['status']],
])('case with %s: tells all that is wrong', (name, more, wrong) => {
  const { errors, differences } = checkCase(SHOP, { name, input: { id: 1 }, ...more } as Json)
  expect([...differences, ...errors].map(({ at }) => at)).toEqual(wrong)
})

test('cases of the README: belong to its first flow', () => {
  const readme = readFileSync('flows-dsl/README.md', 'utf8')
  const blockOf = (start: string) =>
    new RegExp(`\`\`\`yaml\\n(${start}[\\s\\S]*?)\`\`\``).exec(readme)?.[1] ?? ''
  const flow = compiled(blockOf('document:'))
  const cases = checkCases(flow, parse(blockOf('# greet.cases.yaml')))
  expect([flow.document.name, cases.length]).toEqual(['greet', 2])
  expect(cases.filter((one) => !isPassed(one))).toEqual([])
})
