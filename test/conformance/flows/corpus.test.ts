/** Runs every flow of the corpus on fake effects, and checks output, calls, waits and order of steps. */

import { expect, test } from 'vitest'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import { TASKS } from '../../../flows-dsl/tasks/index.ts'
import { corpus } from './corpus.ts'
import { type Case, compiled, isSimulated, movedTrace, type SimulatedCase, trace } from './scenario.ts'

async function check(source: string, one: Case): Promise<void> {
  const { result, steps, calls, waits, events, cancelled } = await trace(source, one)
  const wanted = 'error' in one ? { status: 'faulted' } : { status: 'completed', output: one.output }
  expect(result).toMatchObject(wanted)
  if (result.status === 'completed') expect(result.output).toEqual(one.output)
  else expect(result.status === 'faulted' && result.error).toMatchObject(one.error ?? {})
  expect(steps).toEqual(one.steps)
  if (one.calls !== undefined) expect(calls).toEqual(one.calls)
  if (one.waits !== undefined) expect(waits).toEqual(one.waits)
  expect(cancelled).toEqual(one.cancelled ?? [])
  const ids = events
    .filter(({ phase }) => phase === 'started')
    .map(({ step }) => `${step.pointer}#${step.iteration}`)
  expect(new Set(ids).size).toBe(ids.length)
}

function checkSimulated(source: string, one: SimulatedCase): void {
  const run = () => simulate(compiled(source), one)
  if (one.invalid !== undefined) {
    expect(run).toThrow(one.invalid)
    return
  }
  const { trace: lines, status, ...simulated } = run()
  expect([status, simulated.error]).toMatchObject([
    one.status ?? (one.error ? 'faulted' : 'completed'),
    one.error,
  ])
  expect(simulated.output).toEqual(one.output)
  expect(simulated.compensation).toEqual(one.compensation)
  if (one.duration_ms !== undefined) expect(simulated.duration_ms).toBe(one.duration_ms)
  if (one.asks !== undefined) expect(lines.flatMap(({ asks }) => asks ?? [])).toEqual(one.asks)
  const entered = lines.filter(({ phase }) => phase === 'started' || phase === 'skipped')
  const steps = entered.map(({ phase, name }) => (phase === 'skipped' ? `-${name}` : name))
  if (one.steps !== undefined) expect(steps).toEqual(one.steps)
}

const flows = corpus()

for (const { file, source, cases } of flows) {
  for (const [name, one] of Object.entries(cases)) {
    test(`${file}: ${name}`, () => (isSimulated(one) ? checkSimulated(source, one) : check(source, one)))
    if (isSimulated(one)) continue
    test(`${file}: ${name}: continues as new after each event: has the same outcome`, async () => {
      const { result, steps, calls } = await trace(source, one)
      const moved = await movedTrace(source, one)
      expect(moved.result).toEqual(result)
      // Concurrent steps wait for each other before continuing as new, so only their order may differ.
      expect([...moved.steps].sort()).toEqual([...steps].sort())
      expect(moved.calls.map((call) => JSON.stringify(call)).sort()).toEqual(
        calls.map((call) => JSON.stringify(call)).sort(),
      )
      if (calls.length > 1) expect(moved.moves).toBeGreaterThan(0)
    })
  }
}

test('corpus: has a flow for every kind of task', () => {
  const kinds = flows.flatMap(({ source }) => compiled(source).do.map(({ kind }) => kind))
  expect(TASKS.map(({ kind }) => kind).filter((kind) => !kinds.includes(kind))).toEqual([])
})
