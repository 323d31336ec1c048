// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** The bounds on the tasks of an execution, and the message that tells where they went. */

import { expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import { CATALOGUE, compiled } from '../../conformance/flows/scenario.ts'

const DOCUMENT = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const LOOP = (body: string) => `do: [{ l: { for: { in: '\${ [range(.n)] }' }, do: [{ b: ${body} }] } }]`
const run = (flow: string, n: number) =>
  simulate(compiled(DOCUMENT + flow), { input: { n }, mocks: { b: { output: 1 } } })

test('more than 10,000 tasks: faults, and names the task that was entered most often', () => {
  const { error } = run(LOOP('{ set: { x: 1 } }'), 10_001)
  expect(error).toMatchObject({ title: 'Runtime error', instance: '/do/0/l/do/0/b' })
  expect(run(`limits: { tasks: 20 }\n${LOOP('{ wait: PT1S }')}`, 30).error?.detail).toBe(
    'The execution has entered more than 20 tasks, most of them at /do/0/l/do/0/b (×20). Does `then` form a loop? If not, raise `limits.tasks`, or run parts as flows of their own.',
  )
})

test('limits.tasks: raises the bound', () => {
  const flow = LOOP('{ call: collection.get, with: { name: a, id: b } }')
  expect(run(flow, 10_001).status).toBe('faulted')
  expect(run(`limits: { tasks: 20000 }\n${flow}`, 10_001).status).toBe('completed')
})

test('limits.tasks: does not raise how many tasks may follow each other without a call', () => {
  expect(run(`limits: { tasks: 100000 }\n${LOOP('{ set: { x: 1 } }')}`, 10_001).error?.detail).toBe(
    'The execution has entered more than 10000 tasks without a call or a wait.',
  )
})

test.each(['{}', '{ tasks: 0 }', '{ tasks: 100001 }', "{ tasks: '5' }", '{ tasks: 5, x: 1 }'])(
  'limits: %s: is an error',
  (limits) => {
    const source = `${DOCUMENT}limits: ${limits}\ndo: [{ a: { set: {} } }]`
    expect(compile(source, { catalogue: CATALOGUE }).diagnostics).toHaveLength(1)
  },
)
