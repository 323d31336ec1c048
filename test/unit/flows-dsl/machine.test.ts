// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/**
 * The flow machine: schemas, timeouts, extensions, compensation and held tasks, simulated in virtual time.
 */

import { expect, test } from 'vitest'
import { ERRORS, FlowError } from '../../../flows-dsl/errors.ts'
import type { FlowIR, Json, TaskNode } from '../../../flows-dsl/ir.ts'
import { Machine, newState } from '../../../flows-dsl/machine/machine.ts'
import type { Command } from '../../../flows-dsl/machine/state.ts'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import type { Simulation } from '../../../flows-dsl/simulator/types.ts'
import { compiled, INFO } from '../../conformance/flows/scenario.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const run = (tasks: string, simulation: Simulation = {}) => simulate(compiled(`${HEAD}${tasks}`), simulation)
const lines = (trace: readonly { name: string; phase: string }[]) =>
  trace.map(({ name, phase }) => `${name} ${phase}`)

test('schemas of flow, task and export: an error has its location', () => {
  const schema = (type: string) => `schema: { document: { type: ${type} } }`
  const at = (flow: string, input: Json) => run(flow, { input }).error
  const task = (keys: string) => `do: [{ a: { ${keys}, set: { n: '\${ . }' } } }]`
  expect(at(`input: { ${schema('object')} }\n${task('if: true')}`, 'text')).toMatchObject({
    ...ERRORS.validation,
    instance: '/input/schema',
  })
  expect(at(`output: { ${schema('string')} }\n${task('if: true')}`, 1)).toMatchObject({
    instance: '/output/schema',
  })
  expect(at(task(`input: { ${schema('number')} }`), 'x')).toMatchObject({
    ...ERRORS.validation,
    instance: '/do/0/a',
  })
  expect(at(task(`output: { as: .n, ${schema('number')} }`), 'x')).toMatchObject({ instance: '/do/0/a' })
  expect(at(task(`export: { as: .n, ${schema('number')} }`), 'x')).toMatchObject({
    detail: expect.stringContaining('The exported value'),
  })
  expect(
    run(task(`input: { from: .v, ${schema('object')} }, output: { as: .n, ${schema('number')} }`), {
      input: { v: 7 },
    }),
  ).toMatchObject({ status: 'completed', output: 7 })
})

test('task timeout: can be caught, and the flow continues', () => {
  const slow = 'try: [{ nap: { wait: PT1H, timeout: { after: PT10S } } }]'
  const caught = run(
    `do: [{ a: { ${slow}, catch: { errors: { with: { status: 408 } }, do: [{ b: { set: { late: true } } }] } } }]`,
  )
  expect(caught).toMatchObject({ status: 'completed', output: { late: true }, duration_ms: 10_000 })
  const quick = run('do: [{ nap: { wait: PT1S, timeout: { after: PT10S } } }]')
  expect(quick).toMatchObject({ status: 'completed', duration_ms: 1_000 })
})

test('flow timeout: cannot be caught', () => {
  const flow = 'timeout: { after: PT1M }\ndo: [{ a: { try: [{ nap: { wait: PT1H } }], catch: {} } }]'
  expect(run(flow)).toMatchObject({
    status: 'faulted',
    error: { ...ERRORS.timeout, instance: '/timeout' },
    duration_ms: 60_000,
  })
})

const EXTENDED = (before: string, after: string) => `use:
  extensions:
    - log: { extend: set, when: '.n != null', before: [${before}], after: [${after}] }
do:
  - a: { set: { m: '\${ .n }' } }
  - b: { set: { log: '\${ $context }', m: '\${ .m }' } }`

test('extensions: run before and after their task, and their outputs are dropped', () => {
  const note = (name: string) =>
    `{ ${name}: { do: [{ x: { switch: [{ y: { then: continue } }] } }], export: { as: '\${ { ${name}: . } }' } } }`
  const { output, trace } = run(EXTENDED(note('one'), note('two')), { input: { n: 1 } })
  expect(output).toEqual({ log: { one: { n: 1 } }, m: 1 })
  expect(lines(trace).filter((line) => line.endsWith('started'))).toEqual([
    'a started',
    'one started',
    'x started',
    'b started',
  ])
})

test('extension that exits before its task: replaces the task', () => {
  const { output } = run(
    EXTENDED(
      '{ mock: { do: [{ x: { wait: PT1S } }], output: { as: "${ { m: 9 } }" }, then: exit } }',
      '{ z: { do: [{ x: { wait: PT1S } }] } }',
    ),
    { input: { n: 1 } },
  )
  expect(output).toMatchObject({ m: 9 })
})

/** The compensation is inserted into the compiled form: this test is about the machine alone. */
function undoable(ir: FlowIR, undo: Record<string, TaskNode[]>): FlowIR {
  return {
    ...ir,
    do: ir.do.map((task) => ({ ...task, ...(undo[task.name] && { compensate: undo[task.name] }) })),
  }
}

const SAGA = `${HEAD}do:
  - a: { call: collection.create, with: { name: n, document: { of: a } } }
  - b: { call: collection.create, with: { name: n, document: { of: b } } }
  - c: { raise: { error: { type: https://x.example/no, status: 409 } } }`

const undoOf = (name: string) =>
  compiled(
    `${HEAD}do: [{ undo-${name}: { call: collection.get, with: { name: n, id: '\${ .output.id }' } } }]`,
  ).do.map((task) => ({ ...task, pointer: `/do/${name}/compensate/0/undo-${name}` }))

test('compensation: runs in reverse order, each with its own retries', () => {
  const ir = undoable(compiled(SAGA), { a: undoOf('a'), b: undoOf('b') })
  const no = { error: { type: 'communication', detail: 'No.' } }
  const { status, error, compensation, trace, duration_ms } = simulate(ir, {
    mocks: {
      a: { output: { id: 1 } },
      b: { output: { id: 2 } },
      'undo-b': [no, no, no, no],
      'undo-a': [no, { output: null }],
    },
  })
  expect(status).toBe('faulted')
  expect(error).toMatchObject({ status: 409, instance: '/do/2/c' })
  expect(compensation).toEqual({
    undone: ['/do/0/a#0'],
    failures: [{ step: '/do/1/b#0', error: expect.objectContaining({ detail: 'No.' }) }],
  })
  expect(duration_ms).toBe(1_000 + 2_000 + 4_000 + 1_000)
  expect(
    trace
      .filter(({ phase, name }) => phase === 'started' && name.startsWith('undo'))
      .map(({ name, asks }) => [name, Object(asks?.['arguments'])['id']]),
  ).toEqual([...Array.from({ length: 4 }, () => ['undo-b', 2]), ['undo-a', 1], ['undo-a', 1]])
})

test('cancelled execution: compensates completed tasks, ends cancelled', () => {
  const waiting = compiled(`${HEAD}do:
  - a: { call: collection.create, with: { name: n, document: {} } }
  - nap: { wait: PT1H }`)
  const machine = new Machine(undoable(waiting, { a: undoOf('a') }), newState(waiting, {}, INFO), {
    nowMs: () => 0,
    random: () => 0,
    record: () => {},
  })
  const begun = (commands: readonly Command[]) =>
    commands.map((command) => ('begin' in command ? command.step.name : `-${command.cancel}`))
  const idOf = (commands: readonly Command[]) => commands[0]?.id ?? 0
  const first = machine.begin()
  const second = machine.completeEffect({ id: idOf(first), output: { id: 5 } })
  expect(begun(second)).toEqual(['nap'])
  const undoing = machine.cancel()
  expect(begun(undoing)).toEqual(['-sleep', 'undo-a'])
  expect(machine.result).toBeUndefined()
  expect(machine.completeEffect({ id: undoing[1]?.id ?? 0, output: null })).toEqual([])
  expect(machine.result).toEqual({
    status: 'cancelled',
    compensation: { undone: ['/do/0/a#0'], failures: [] },
  })
})

test('uncaught error with `onFault: hold`: the task is held until a decision', () => {
  const source = `${HEAD}do:
  - caught: { try: [{ x: { raise: { error: { type: https://x.example/e, status: 400 } } } }], catch: {} }
  - ask: { call: collection.get, with: { name: n, id: '1' }, then: end }`
  const ir: FlowIR = { ...compiled(source), onFault: 'hold' }
  const no = { error: { type: 'communication', detail: 'No.' } }
  expect(simulate(ir, { mocks: { ask: no } })).toMatchObject({
    status: 'suspended',
    held: { '/do/1/ask#0': { detail: 'No.', instance: '/do/1/ask' } },
  })
  for (const [decision, result] of [
    [{ skip: { by: 'hand' } }, { status: 'completed', output: { by: 'hand' } }],
    [{ fail: true }, { status: 'faulted', error: expect.objectContaining({ detail: 'No.' }) }],
    [{ retry: true }, undefined],
  ] as const) {
    const machine = new Machine(ir, newState(ir, {}, INFO), {
      nowMs: () => 0,
      random: () => 0,
      record: () => {},
    })
    const [call] = machine.begin()
    machine.completeEffect({ id: call?.id ?? 0, error: failed() })
    const again = machine.release('/do/1/ask#0', decision)
    expect(machine.held()).toEqual({})
    expect(machine.result).toEqual(result)
    expect(again).toHaveLength(result === undefined ? 1 : 0)
  }
})

const failed = () => new FlowError(ERRORS.communication, 'No.')

test('state of another version: is rejected', () => {
  const ir = compiled(`${HEAD}do: [{ a: { set: {} } }]`)
  const surroundings = { nowMs: () => 0, random: () => 0, record: () => {} }
  expect(() => new Machine(ir, { ...newState(ir, {}, INFO), semantics: 99 }, surroundings)).toThrow(
    /semantics 99/,
  )
})

test('continuation: starts the effects that were open', () => {
  const ir = compiled(
    `${HEAD}do: [{ f: { fork: { branches: [{ a: { wait: PT1H } }, { b: { call: event.publish, with: { topic: t } } }] } } }]`,
  )
  const surroundings = { nowMs: () => 0, random: () => 0, record: () => {} }
  const machine = new Machine(ir, newState(ir, {}, INFO), surroundings)
  const begun = machine.begin()
  const later = new Machine(ir, JSON.parse(JSON.stringify(machine.state)), {
    ...surroundings,
    nowMs: () => 60_000,
  })
  expect(later.pending()).toEqual(begun)
})
