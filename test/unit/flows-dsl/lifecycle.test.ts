/** Lifecycle events have the names and data of the specification, for every outcome of the execution. */

import { expect, test } from 'vitest'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import type { Simulation } from '../../../flows-dsl/simulator/types.ts'
import { compiled } from '../../conformance/flows/scenario.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: pets, name: adopt, version: '1.0.0' }\n"
const lifecycleOf = (source: string, simulation: Simulation = {}) =>
  simulate(compiled(`${HEAD}${source}`), { ...simulation, options: { lifecycle: true } }).lifecycle ?? []

test('execution that completes: emits started and completed events', () => {
  const events = lifecycleOf('do: [{ rest: { wait: PT1S } }, { never: { if: false, set: {} } }]', {
    input: { n: 1 },
  })
  const workflow = 'adopt-simulation.pets'
  const [begun, later] = ['2026-01-01T00:00:00.000Z', '2026-01-01T00:00:01.000Z']
  expect(events).toEqual([
    {
      type: 'io.serverlessworkflow.workflow.started.v1',
      time: begun,
      data: {
        name: workflow,
        startedAt: begun,
        definition: { namespace: 'pets', name: 'adopt', version: '1.0.0' },
      },
    },
    {
      type: 'io.serverlessworkflow.task.started.v1',
      time: begun,
      data: { workflow, task: '/do/0/rest', startedAt: begun },
    },
    {
      type: 'io.serverlessworkflow.task.completed.v1',
      time: later,
      data: { workflow, task: '/do/0/rest', completedAt: later, output: { n: 1 } },
    },
    {
      type: 'io.serverlessworkflow.workflow.completed.v1',
      time: later,
      data: { name: workflow, completedAt: later, output: { n: 1 } },
    },
  ])
})

const short = (events: ReturnType<typeof lifecycleOf>) =>
  events.map(({ type }) => type.replace('io.serverlessworkflow.', '').replace('.v1', ''))

test('execution that retries and faults: emits retried and faulted events', () => {
  const flow = `do:
  - again:
      try: [{ no: { raise: { error: { type: https://x.example/no, status: 500 } } } }]
      catch: { retry: { delay: PT1S, limit: { attempt: { count: 1 } } } }`
  const events = lifecycleOf(flow)
  expect(short(events)).toEqual([
    'workflow.started',
    'task.started',
    'task.started',
    'task.faulted',
    'task.retried',
    'task.started',
    'task.faulted',
    'task.faulted',
    'workflow.faulted',
  ])
  expect(events.at(-1)?.data).toMatchObject({ error: { status: 500, instance: '/do/0/again/try/0/no' } })
})

test('held step: is reported as suspended', () => {
  const flow =
    'onFault: hold\ndo: [{ no: { raise: { error: { type: https://x.example/no, status: 500 } } } }]'
  expect(short(lifecycleOf(flow))).toEqual(['workflow.started', 'task.started', 'task.suspended'])
})
