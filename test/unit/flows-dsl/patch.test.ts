// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Manual patches of a paused execution, and stable paths of its steps. */

import { describe, expect, test } from 'vitest'
import { ERRORS, FlowError } from '../../../flows-dsl/errors.ts'
import type { Json } from '../../../flows-dsl/ir.ts'
import { Machine, newState } from '../../../flows-dsl/machine/machine.ts'
import type { Command } from '../../../flows-dsl/machine/state.ts'
import type { StepEvent } from '../../../flows-dsl/tasks/task.ts'
import { compiled, INFO } from '../../conformance/flows/scenario.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"

/** Runs an execution as far as it can. */
function begun(tasks: string, input: Json = {}) {
  const ir = compiled(`${HEAD}${tasks}`)
  const events: StepEvent[] = []
  const record = (event: StepEvent) => void events.push(event)
  const machine = new Machine(ir, newState(ir, input, INFO), { nowMs: () => 0, random: () => 0, record })
  return { machine, events, commands: machine.begin() }
}

/** The first effect that is started. */
function requestIn(commands: readonly Command[]) {
  const [command] = commands.filter((one) => 'begin' in one)
  if (command === undefined || !('begin' in command)) throw new Error('nothing is begun')
  return command
}

describe('patch of data', () => {
  const CONTEXT = `do:
  - a: { set: { n: 1 }, export: { as: '\${ { kept: 1, gone: 2, deep: { x: 1, y: 2 } } }' } }
  - nap: { wait: PT1S }
  - b: { set: { seen: '\${ $context }' } }`

  test('merge patch of the context: is visible to the next tasks', () => {
    const { machine, commands } = begun(CONTEXT)
    expect(machine.patch({ context: { gone: null, deep: { y: null, z: [3] }, more: 'x' } })).toBeUndefined()
    machine.completeEffect({ id: requestIn(commands).id, output: null })
    expect(machine.result).toEqual({
      status: 'completed',
      output: { seen: { kept: 1, deep: { x: 1, z: [3] }, more: 'x' } },
    })
  })

  test('patch that is no object: replaces the context', () => {
    const { machine, commands } = begun(CONTEXT)
    machine.patch({ context: [1] })
    machine.completeEffect({ id: requestIn(commands).id, output: null })
    expect(machine.result).toMatchObject({ output: { seen: [1] } })
  })

  test('running branches: each sees the patch', () => {
    const { machine, commands } = begun(`do:
  - f: { fork: { branches: [
      { a: { do: [{ nap: { wait: PT1S } }, { x: { set: { a: '\${ $context.n }' } } }] } },
      { b: { do: [{ nap: { wait: PT1S } }, { x: { set: { b: '\${ $context.n }' } } }] } } ] } }
  - after: { set: { both: '\${ . }', n: '\${ $context.n }' } }`)
    machine.patch({ context: { n: 7 } })
    for (const command of commands) machine.completeEffect({ id: command.id, output: null })
    expect(machine.result).toMatchObject({ output: { both: [{ a: 7 }, { b: 7 }], n: 7 } })
  })

  test('oversized context: is rejected, and nothing changes', () => {
    const { machine, commands } = begun(CONTEXT)
    expect(machine.patch({ context: { big: 'x'.repeat(20_000_000) } })).toContain('is not valid')
    machine.completeEffect({ id: requestIn(commands).id, output: null })
    expect(machine.result).toMatchObject({ output: { seen: { kept: 1 } } })
  })

  test('input of a step: held: is replaced for the retry; not held: is rejected', () => {
    const { machine, commands } = begun(`onFault: hold
do:
  - find: { call: collection.get, with: { name: c, id: '\${ .id }' }, input: { from: '\${ { id: .who } }' } }`)
    expect(machine.patch({ step: '/do/0/find#0', input: {} })).toContain('does not wait')
    machine.completeEffect({ id: requestIn(commands).id, error: new FlowError(ERRORS.runtime, 'lost') })
    expect(machine.patch({ step: '/do/0/find#1', input: {} })).toContain('does not wait')
    expect(machine.patch({ step: '/do/0/find#0', input: { who: 'ada' } })).toBeUndefined()
    const again = requestIn(machine.release('/do/0/find#0', { retry: true }))
    expect(again.begin).toMatchObject({ arguments: { name: 'c', id: 'ada' } })
  })
})

describe('step paths', () => {
  const places = (events: readonly StepEvent[]) =>
    events.filter(({ phase }) => phase === 'started').map(({ step }) => step.path)

  test('consist of names and count repetitions', () => {
    const { events } = begun(`do:
  - each: { for: { in: '\${ [1, 2, 3] }' }, do: [{ a/b: { set: { n: '\${ .n }' } } }] }
  - again: { switch: [{ once: { when: .n == null, then: mark } }], then: end }
  - mark: { set: { n: 1 }, then: each }`)
    expect(places(events)).toEqual([
      ...['/do/each', '/do/each/do/a~1b', '/do/each/do~x1/a~1b', '/do/each/do~x2/a~1b'],
      ...['/do/again', '/do/mark', '/do/each~x1', '/do/each~x1/do/a~1b'],
      ...['/do/each~x1/do~x1/a~1b', '/do/each~x1/do~x2/a~1b', '/do/again~x1'],
    ])
  })

  test('concurrent items: do not depend on the order of completion', () => {
    const flow = `do:
  - each: { for: { in: '\${ [0, 1] }', concurrency: 2 }, do: [{ a: { wait: PT1S } }, { b: { set: { i: '\${ $index }' } } }] }`
    const outputs = [false, true].map((isBackwards) => {
      const { machine, commands, events } = begun(flow)
      const order = isBackwards ? commands.toReversed() : commands
      for (const { id } of order) machine.completeEffect({ id, output: null })
      const done = events.filter(({ step, phase }) => step.name === 'b' && phase === 'completed')
      return Object.fromEntries(done.map(({ step, output }) => [step.path, output]))
    })
    expect(outputs[0]).toEqual({ '/do/each/do/b': { i: 0 }, '/do/each/do~x1/b': { i: 1 } })
    expect(outputs[1]).toEqual(outputs[0])
  })
})
