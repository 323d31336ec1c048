/** Knows whether a case of a flow comes out as it is expected to. */

import type { FlowIR, Json, JsonObject } from '../ir.ts'
import { fieldOf } from '../json.ts'
import { simulate } from '../simulator/simulate.ts'
import type { Simulated, TraceEntry } from '../simulator/simulation.ts'
import type { FlowCase } from './cases.ts'
import { type Difference, differences } from './differences.ts'

export interface CheckedCase {
  readonly name: string
  /** None where all is as expected. */
  readonly differences: readonly Difference[]
  readonly simulated: Simulated
}

/** Simulates a case and compares. @throws SimulationInvalid where the case makes no sense to the flow */
export function checkCase(ir: FlowIR, { name, expect, ...simulation }: FlowCase): CheckedCase {
  const simulated = simulate(ir, simulation)
  const { status = 'completed', output, error, compensation, steps, calls } = expect
  const found = [
    ...differences('status', status, simulated.status, false),
    ...(output === undefined ? [] : differences('output', output, simulated.output, false)),
    ...(error === undefined ? [] : differences('error', error, simulated.error, true)),
    ...(compensation === undefined
      ? []
      : differences('compensation', compensation, simulated.compensation, true)),
    ...(calls === undefined ? [] : differences('calls', [...calls], callsOf(simulated.trace), true)),
    ...(steps === undefined ? [] : stepsDiffer(steps, simulated.trace)),
  ]
  return { name, differences: found, simulated }
}

/** A step more or less moves all others, so the order is told as a whole. */
function stepsDiffer(expected: readonly string[], trace: readonly TraceEntry[]): readonly Difference[] {
  const entered = trace.filter(({ phase }) => phase === 'started' || phase === 'skipped')
  const found = entered.map(({ phase, name }) => (phase === 'skipped' ? `-${name}` : name))
  if (differences('steps', [...expected], found, false).length === 0) return []
  return [{ at: 'steps', expected: [...expected], found }]
}

function callsOf(trace: readonly TraceEntry[]): Json[] {
  return trace.map(({ asks }) => asks).filter((asks) => isCall(asks)) as JsonObject[]
}

const isCall = (asks: JsonObject | undefined) => asks !== undefined && fieldOf(asks, 'function') !== undefined
