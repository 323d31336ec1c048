/** Test cases of flows: comparison of results, and validation of the cases. */

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { casesIn, checkCase, differences } from '../../../flows-dsl/flow-tests/flow-tests.ts'
import type { Json } from '../../../flows-dsl/ir.ts'
import { compiled } from '../../conformance/flows/scenario.ts'

const FLOW = compiled(`document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }
do:
  - first: { if: .go, set: { n: 1 } }
  - get: { call: collection.get, with: { name: things, id: a } }
  - late: { if: .bad, raise: { error: { type: https://x.example/e, status: 418, title: Teapot } } }
`)

function differ(expected: Json, more: object = {}) {
  const [one] = casesIn([{ name: 'one', expect: expected, ...more }] as Json)
  if (one === undefined) throw new Error('no case')
  return checkCase(FLOW, one).differences.map(({ at, expected: e, found }) => [at, e, found])
}

const ANSWER = { input: { go: true }, mocks: { get: { output: { a: [1, { b: 2 }] } } } }

test('case with the expected outcome: has no differences', () => {
  const steps = ['first', 'get', '-late']
  const calls = [{ function: 'collection.get', arguments: { id: 'a' } }]
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

test.each([
  [{}, '', 'Cases are a list.'],
  [[1], '/0', 'It must be a mapping.'],
  [[{}], '/0', 'A case needs a name.'],
  [[{ name: 1 }], '/0/name', '`name` cannot be 1.'],
  [
    [{ name: 'a', expect: { calls: [{ task: 'put' }] } }],
    '/0/expect/calls/0/task',
    'The key `task` is not known. Known here: function, arguments.',
  ],
  [[{ name: 'a', mock: {} }], '/0/mock', 'The key `mock` is not known. Did you mean mocks?'],
  [[{ name: 'a', expect: { status: 'fine' } }], '/0/expect/status', '`status` cannot be "fine".'],
  [[{ name: 'a', expect: { steps: [1] } }], '/0/expect/steps', '`steps` cannot be [1].'],
  [
    [{ name: 'a', expect: { constructor: 1 } }],
    '/0/expect/constructor',
    'The key `constructor` is not known.',
  ],
])('case %j: is rejected', (given, pointer, message) => {
  let thrown: unknown
  try {
    casesIn(given as Json)
  } catch (error) {
    thrown = error
  }
  expect(thrown).toMatchObject({ pointer, message: expect.stringContaining(message) })
})

test('cases of the README: belong to its first flow', () => {
  const readme = readFileSync('flows-dsl/README.md', 'utf8')
  const blockOf = (start: string) =>
    new RegExp(`\`\`\`yaml\\n(${start}[\\s\\S]*?)\`\`\``).exec(readme)?.[1] ?? ''
  const flow = compiled(blockOf('document:'))
  const cases = casesIn(parse(blockOf('# greet.cases.yaml')))
  expect([flow.document.name, cases.length]).toEqual(['greet', 2])
  expect(cases.flatMap((one) => checkCase(flow, one).differences)).toEqual([])
})
