// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Hostile definitions: each ends as a flow does, soon, and with each effect once. */

import { describe, expect, it } from 'vitest'
import { Machine, newState } from '../../../flows-dsl/machine/machine.ts'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import type { Simulation } from '../../../flows-dsl/simulator/types.ts'
import { compiled, INFO, START_MS } from '../../conformance/flows/scenario.ts'
import { threadMs } from '../../support/thread-time.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const run = (body: string, simulation: Simulation = {}) => simulate(compiled(HEAD + body), simulation)
const RAISE = 'raise: { error: { type: urn:broken, status: 500 } }'
const SOON_MS = 5_000

describe('hostile definition', () => {
  it('condition that decides about holding: fails: the task is held', () => {
    const { status, held = {} } = run(`onFault: hold
do:
  - pay: { try: [ { broken: { ${RAISE} } } ], catch: { when: '\${ error("no") }' } }
`)
    expect(status).toBe('suspended')
    expect(Object.values(held)).toMatchObject([
      { instance: '/do/0/pay', detail: expect.stringMatching(/no/) },
    ])
  })

  it('compensation: is not compensated itself', () => {
    const { trace, ...result } = run(`do:
  - first: { set: { a: 1 }, compensate: [ { back: { set: {}, compensate: [ { forth: { set: {} } } ] } } ] }
  - second: { set: { b: 1 }, compensate: [ { undo: { set: {} } } ] }
  - broken: { ${RAISE} }
`)
    expect(result.compensation).toEqual({ undone: ['/do/1/second#0', '/do/0/first#0'], failures: [] })
    expect(trace.filter(({ name }) => name === 'back' || name === 'forth')).toHaveLength(2)
  })

  it('retry delay beyond all numbers: retries at once, up to the limit', () => {
    const { error } = run(`do:
  - often:
      try: [ { broken: { ${RAISE} } } ]
      catch: { retry: { backoff: { exponential: {} }, limit: { attempt: { count: 3000 } } } }
`)
    expect(error).toMatchObject({ type: 'urn:broken', instance: '/do/0/often/try/0/broken' })
  })

  it('large values in summaries: are truncated without reading all of them', () => {
    const began = threadMs()
    const { error } = run(`do:
  - large: { set: { x: '\${ "a" * 1000000 }' } }
  - circle: { switch: [ { again: { then: circle } } ] }
`)
    expect(error?.detail).toMatch(/more than 10000 tasks/)
    expect(threadMs() - began).toBeLessThan(SOON_MS)
  })

  it('simulation at the end of time: does not start', () => {
    const options = { start: '+275760-09-12T00:00:00Z' }
    expect(() => run('do: [ { wait: { wait: { days: 300 } } } ]', { options })).toThrow(/Not a time/)
  })

  it('the name __proto__: is a name like any other', () => {
    const { output } = run(`do:
  - each: { for: { each: __proto__, in: '\${ [{ a: 1 }] }' }, do: [ { set: { set: { it: '\${ $__proto__ }' } } } ] }
`)
    expect(output).toEqual({ it: { a: 1 } })
  })

  it('task retried from its start: runs, though it had yielded before an extension failed', () => {
    const ir = compiled(`${HEAD}use:
  extensions:
    - audit: { extend: set, when: '\${ $runtime.name == "tenon" and (.n | error("no")) }', after: [ { note: { set: {} } } ] }
do:
  - count: { set: { n: 1 }, onFault: hold }
`)
    const phases: string[] = []
    const machine = new Machine(ir, newState(ir, {}, INFO), {
      nowMs: () => START_MS,
      random: () => 0,
      record: ({ phase }) => phases.push(phase),
    })
    machine.begin()
    machine.release('/do/0/count#0', { retry: true })
    // It is held again for the same error and did not continue without the extension.
    expect(phases).toEqual(['started', 'held', 'retried', 'held'])
    expect(machine.result).toBeUndefined()
  })
})
