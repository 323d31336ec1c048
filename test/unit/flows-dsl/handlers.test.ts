// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** `onError` and `finally` of a flow: when they run, what they see, and what they change. */

import { describe, expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import { graphOf } from '../../../flows-dsl/graph/build-graph.ts'
import { mermaidOf } from '../../../flows-dsl/graph/mermaid.ts'
import type { Json, JsonObject } from '../../../flows-dsl/ir.ts'
import { Machine, newState } from '../../../flows-dsl/machine/machine.ts'
import { type Command, pack, unpack } from '../../../flows-dsl/machine/state.ts'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import { CATALOGUE, compiled, INFO, START_MS } from '../../conformance/flows/scenario.ts'

const DOCUMENT = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const NO = "raise: { error: { type: 'https://example.com/no', status: 409, title: No } }"
const BOOK = `
  - book:
      call: collection.create
      with: { name: rooms, document: { a: 1 } }
      export: { as: '\${ { room: .id } }' }
      compensate: [{ free: { call: event.publish, with: { topic: freed } } }]`
const TELL =
  "tell: { call: event.publish, with: { topic: '${ .status // $error.title }', data: '${ [., $context.room] }' } }"
const ON_ERROR = `onError:\n  - ${TELL}\n`
const FINALLY = `finally:\n  - last: { call: event.publish, with: { topic: last, data: '\${ . }' } }\n`
const mocks = { book: { output: { id: 7 } }, 'event.publish': { output: null } }

const run = (flow: string, input: Json = {}, more = {}) =>
  simulate(compiled(DOCUMENT + flow), { input, mocks: { ...mocks, ...more } })
const stepsOf = ({ trace }: ReturnType<typeof run>) =>
  trace.filter(({ phase }) => phase === 'started').map(({ name }) => name)
const argumentsOf = ({ trace }: ReturnType<typeof run>, name: string) =>
  trace.find((entry) => entry.name === name && entry.asks)?.asks?.['arguments']

describe('execution that faults', () => {
  test('onError runs after the compensation with $error, $context and the input, then finally; the fault stays', () => {
    const simulated = run(`do:${BOOK}\n  - no: { ${NO} }\n${ON_ERROR}${FINALLY}`, { order: 1 })
    expect(stepsOf(simulated)).toEqual(['book', 'no', 'free', 'tell', 'last'])
    expect(argumentsOf(simulated, 'tell')).toEqual({ topic: 'No', data: [{ order: 1 }, 7] })
    expect(argumentsOf(simulated, 'last')).toMatchObject({
      data: { status: 'faulted', error: { status: 409 } },
    })
    expect(simulated).toMatchObject({ status: 'faulted', error: { title: 'No', instance: '/do/1/no' } })
    expect(simulated).toMatchObject({ compensation: { undone: ['/do/0/book#0'] } })
    expect(simulated.handlerErrors).toBeUndefined()
  })

  test('onError that ends the flow: its output is that of the flow', () => {
    const flow = `do: [{ a: { ${NO} } }]\nonError:\n  - b: { set: { sorry: '\${ $error.status }' }, then: end }\n${FINALLY}`
    const simulated = run(flow)
    expect(simulated).toMatchObject({ status: 'completed', output: { sorry: 409 } })
    expect(argumentsOf(simulated, 'last')).toEqual({
      topic: 'last',
      data: { status: 'completed', output: { sorry: 409 } },
    })
  })

  test('onError whose output violates the schema of the output: the fault stays', () => {
    const schema = 'output: { schema: { document: { type: array } } }\n'
    expect(
      run(`${schema}do: [{ a: { ${NO} } }]\nonError: [{ b: { set: { x: 1 }, then: end } }]`),
    ).toMatchObject({
      status: 'faulted',
      error: { title: 'No' },
      handlerErrors: { onError: { title: 'Validation error', instance: '/output/schema' } },
    })
  })

  test('onError and finally that fault themselves: are recorded and hide nothing', () => {
    const bad = (n: number) => `[{ b${n}: { raise: { error: { type: timeout, status: ${n} } } } }]`
    expect(run(`do: [{ a: { ${NO} } }]\nonError: ${bad(1)}\nfinally: ${bad(2)}`)).toMatchObject({
      status: 'faulted',
      error: { title: 'No' },
      handlerErrors: { onError: { status: 1 }, finally: { status: 2 } },
    })
    expect(run(`do: [{ a: { set: { x: 1 } } }]\nfinally: ${bad(2)}`)).toMatchObject({
      status: 'completed',
      output: { x: 1 },
      handlerErrors: { finally: { status: 2 } },
    })
  })

  test.each([
    ['invalid input', 'input: { schema: { document: { type: array } } }\ndo: [{ a: { set: {} } }]'],
    ['timeout of the flow', 'timeout: { after: PT1M }\ndo: [{ a: { wait: PT1H } }]'],
    [
      'too many tasks',
      'limits: { tasks: 3 }\ndo: [{ a: { set: {}, then: b } }, { b: { set: {}, then: a } }]',
    ],
    ['output that fails', 'output: { as: \'${ 1 + "x" }\' }\ndo: [{ a: { set: {} } }]'],
  ])('%s: runs both', (_, flow) => {
    const simulated = run(`${flow}\n${ON_ERROR}${FINALLY}`)
    expect([simulated.status, ...stepsOf(simulated).slice(-2)]).toEqual(['faulted', 'tell', 'last'])
  })

  test('onFault: hold of the flow: does not hold the tasks of the end', () => {
    const flow = `onFault: hold\ndo: [{ a: { set: { x: 1 } } }]\nfinally: [{ b: { ${NO} } }]`
    expect(run(flow)).toMatchObject({ status: 'completed', handlerErrors: { finally: { title: 'No' } } })
  })
})

test('execution that completes: finally runs and changes nothing; onError does not run', () => {
  const simulated = run(`do:${BOOK}\n  - done: { set: { x: 1 } }\n${ON_ERROR}${FINALLY}`)
  expect(stepsOf(simulated)).toEqual(['book', 'done', 'last'])
  expect(simulated).toMatchObject({ status: 'completed', output: { x: 1 } })
})

test('finally that takes longer than an hour: is ended, and recorded', () => {
  expect(run('do: [{ a: { set: { x: 1 } } }]\nfinally: [{ b: { wait: P2D } }]')).toMatchObject({
    status: 'completed',
    duration_ms: 3_600_000,
    handlerErrors: { finally: { status: 408, detail: '`finally` took longer than 1 hour.' } },
  })
})

/** A machine with its open effects, by the function that they call. */
class Harness {
  machine: Machine
  readonly open = new Map<string, number>()
  readonly #ir

  constructor(flow: string) {
    this.#ir = compiled(DOCUMENT + flow)
    this.machine = this.#machineOf(newState(this.#ir, { order: 1 }, INFO))
    this.apply(this.machine.begin())
  }

  #machineOf(state: Machine['state']): Machine {
    return new Machine(this.#ir, state, { nowMs: () => START_MS, random: () => 0, record: () => {} })
  }

  /** No call that is cancelled was sent. */
  apply(commands: readonly Command[]): void {
    for (const command of commands) {
      if ('begin' in command) this.open.set(command.step.name, command.id)
      else for (const [name, id] of this.open) if (id === command.id) this.open.delete(name)
    }
    for (const command of commands)
      if ('cancel' in command && command.settles) this.apply(this.machine.settle(command.id, undefined))
  }

  complete(name: string): void {
    const id = this.open.get(name) ?? 0
    this.open.delete(name)
    this.apply(this.machine.completeEffect({ id, output: { id: 7 } }))
  }

  /** Continues as new. */
  move(): void {
    this.machine = this.#machineOf(unpack(JSON.parse(JSON.stringify(pack(this.machine.state)))))
  }
}

describe('execution that is cancelled', () => {
  const FLOW = `do:${BOOK}\n  - nap: { wait: PT1H }\n${ON_ERROR}${FINALLY}`

  test('compensates, skips onError, runs finally shielded, and ends cancelled', () => {
    const harness = new Harness(FLOW)
    harness.complete('book')
    expect([...harness.open.keys()]).toEqual(['nap'])
    harness.apply(harness.machine.cancel())
    harness.move()
    harness.complete('free')
    expect([...harness.open.keys()]).toEqual(['last', 'x'])
    expect(harness.machine.isShielded).toBe(true)
    harness.apply(harness.machine.cancel())
    harness.move()
    expect([...harness.open.keys()]).toEqual(['last', 'x'])
    harness.complete('last')
    expect(harness.machine.result).toEqual({
      status: 'cancelled',
      compensation: { undone: ['/do/0/book#0'], failures: [] },
    })
    expect(harness.open.size).toBe(0)
  })

  test('during onError: onError is cancelled, finally runs, and the execution ends faulted', () => {
    const harness = new Harness(`do: [{ a: { ${NO} } }]\n${ON_ERROR}${FINALLY}`)
    expect([...harness.open.keys()]).toEqual(['tell'])
    expect(harness.machine.isShielded).toBe(false)
    harness.apply(harness.machine.cancel())
    expect([...harness.open.keys()]).toEqual(['last', 'x'])
    harness.complete('last')
    expect(harness.machine.result).toMatchObject({ status: 'faulted', error: { title: 'No' } })
  })
})

describe('approval that is reopened by a patch', () => {
  const APPROVED = `do:
  - ask: { approve: { approvers: [ada] }, export: { as: '\${ { n: 1 } }' } }
  - pay: { call: event.publish, with: { topic: paid }, compensate: [{ refund: { call: event.publish, with: { topic: refunded } } }] }
${ON_ERROR}finally:
  - first: { call: event.publish, with: { topic: first, data: '\${ .status }' } }
  - last: { call: event.publish, with: { topic: last } }`
  const decide = (harness: Harness, approved: boolean) => {
    const { commands, refused } = harness.machine.decide('/do/0/ask#0', { by: 'ada', approved })
    expect(refused).toBeUndefined()
    harness.apply(commands)
  }
  const patched = () => {
    const harness = new Harness(APPROVED)
    decide(harness, true)
    expect(harness.machine.patch({ context: { n: 2 } })).toBeUndefined()
    harness.complete('pay')
    harness.move()
    // Nothing of the end begins while the approval is open.
    expect([harness.machine.isReopened, harness.machine.result, harness.open.size]).toEqual([
      true,
      undefined,
      0,
    ])
    return harness
  }

  test('and granted again after the tasks have completed: finally runs once, then the execution completes', () => {
    const harness = patched()
    decide(harness, true)
    harness.complete('first')
    harness.complete('last')
    expect(harness.machine.result).toMatchObject({ status: 'completed' })
    expect(harness.machine.state.entered).toMatchObject({ '/finally/0/first': 1, '/finally/1/last': 1 })
  })

  test('and decided without the form that it requires: refused as the first time, and granted with it', () => {
    const form = '{ type: object, required: [reason] }'
    const harness = new Harness(APPROVED.replace('[ada] }', `[ada], form: ${form} }`))
    const send = (decision: JsonObject) => {
      const { commands, refused } = harness.machine.decide('/do/0/ask#0', { by: 'ada', ...decision })
      harness.apply(commands)
      return refused
    }
    expect(send({ approved: true })).toContain('reason')
    expect(send({ approved: true, form: { reason: 'a' } })).toBeUndefined()
    expect(harness.machine.patch({ context: { n: 2 } })).toBeUndefined()
    expect(send({ approved: true })).toContain('reason')
    expect(harness.machine.isReopened).toBe(true)
    expect(send({ approved: true, form: { reason: 'b' } })).toBeUndefined()
    expect(harness.machine.isReopened).toBe(false)
  })

  test('and rejected after the tasks have completed: they are undone, onError and finally run once', () => {
    const harness = patched()
    decide(harness, false)
    for (const name of ['refund', 'tell', 'first', 'last']) harness.complete(name)
    expect(harness.machine.result).toMatchObject({
      status: 'faulted',
      error: { title: 'Rejected' },
      compensation: { undone: ['/do/1/pay#0'] },
    })
    const { entered } = harness.machine.state
    expect(entered).toMatchObject({ '/onError/0/tell': 1, '/finally/0/first': 1, '/finally/1/last': 1 })
  })

  test('and cancelled after the tasks have completed: finally runs once', () => {
    const harness = patched()
    harness.apply(harness.machine.cancel())
    for (const name of ['refund', 'first', 'last']) harness.complete(name)
    expect(harness.machine.result).toMatchObject({ status: 'cancelled' })
    expect(harness.machine.state.entered).toMatchObject({ '/finally/0/first': 1, '/finally/1/last': 1 })
  })

  test('a patch while finally runs is refused: it runs with the data that were approved', () => {
    const harness = new Harness(APPROVED)
    decide(harness, true)
    harness.complete('pay')
    expect([...harness.open.keys()]).toEqual(['first', 'x'])
    expect(harness.machine.patch({ context: { n: 2 } })).toContain('`finally` runs')
    expect(harness.machine.patch({ context: { n: 1 } })).toBeUndefined()
    for (const name of ['first', 'last']) harness.complete(name)
    expect(harness.machine.result).toMatchObject({ status: 'completed' })
  })

  test('a patch while finally runs after a fault is taken: no approval is asked for again', () => {
    const harness = new Harness(APPROVED)
    decide(harness, true)
    harness.apply(harness.machine.cancel())
    expect(harness.machine.patch({ context: { n: 2 } })).toBeUndefined()
    for (const name of ['first', 'last']) harness.complete(name)
    expect(harness.machine.result).toMatchObject({ status: 'cancelled' })
  })
})

test('compilation: $error is defined in onError only, and an empty list is an error', () => {
  const diagnostics = (flow: string) =>
    compile(`${DOCUMENT}do: [{ a: { set: {} } }]\n${flow}`, { catalogue: CATALOGUE }).diagnostics.map(
      ({ code, pointer }) => `${code} ${pointer}`,
    )
  expect(diagnostics("finally: [{ b: { set: { x: '${ $error }' } } }]")).toEqual([
    'expression_invalid /finally/0/b/set/x',
  ])
  expect(diagnostics('onError: []')).toEqual(['wrong_type /onError'])
  expect(diagnostics('onError: [{ b: { set: {}, then: a } }]')).toEqual(['unknown_target /onError/0/b/then'])
})

test('graph: onError and finally have nodes of their own', () => {
  const { ir, definition } = compile(`${DOCUMENT}do: [{ a: { set: {} } }]\n${ON_ERROR}${FINALLY}`, {
    catalogue: CATALOGUE,
  })
  if (ir === undefined) throw new Error('It does not compile.')
  const graph = graphOf(ir, definition)
  const edges = graph.edges.map(({ from, to, kind }) => `${from} ${kind} ${to}`)
  expect(edges).toEqual([
    'start next /do/0/a',
    '/do/0/a next finally',
    'start catch onError',
    'onError next /onError/0/tell',
    '/onError/0/tell next finally',
    'finally next /finally/0/last',
    '/finally/0/last next end',
  ])
  expect(mermaidOf(graph)).toContain('-.->|"catch#58; faulted"|')
  expect(ir.facts.functions).toContain('event.publish')
})
