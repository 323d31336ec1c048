/** Compares executions of generated flows with their simulations: the same outcome, by the same steps. */

import fc from 'fast-check'
import { expect } from 'vitest'
import type { Json } from '../../../flows-dsl/ir.ts'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import { compileFlow } from '../../../src/features/flows/definitions.ts'
import { eventually } from '../../support/fixtures/tenants.ts'
import { corpus } from './corpus.ts'
import type { FlowRunner } from './flow-runner.ts'
import { flowTexts } from './generated-flows.ts'

const TRACE_MAX = 500
/** Requests to the environment have no answer here, or take time. */
const EXTERNAL = /\b(call|wait|listen|approve|emit|run|delay|onFault|stepsMax)\b/

interface Outcome {
  readonly status: string
  readonly output: unknown
  readonly error?: { readonly type: string; readonly instance: string } | null
}

const comparable = ({ status, output, error }: Outcome) => ({
  status,
  output: status === 'completed' ? output : null,
  error: error ? { type: error.type, instance: error.instance } : null,
})

/** The same ones each time. */
export function generatedFlows(count: number): string[] {
  // Names that no store accepts end an execution with another error than a simulation.
  const texts = flowTexts(false).filter((text) => !text.includes('u0000'))
  return fc.sample(texts, { seed: 88, numRuns: count })
}

/**
 * True if it enters few tasks: thousands are one uninterruptible workflow task, which a busy machine
 * terminates.
 */
export function isShort(source: string): boolean {
  const { ir } = compileFlow(source)
  return ir !== undefined && simulate(ir, { input: {} }).trace.length < TRACE_MAX
}

/** A flow of the corpus, with the input of one of its cases. */
export interface CorpusFlow {
  readonly name: string
  readonly source: string
  readonly input: Json
}

/** Flows of the corpus that make no requests. */
export function corpusWithoutRequests(): CorpusFlow[] {
  return corpus().flatMap(({ file, source, cases }) => {
    const isExternal = EXTERNAL.test(source.replaceAll(/#.*/g, '')) || EXTERNAL.test(JSON.stringify(cases))
    if (isExternal) return []
    const inputs = Object.values(cases).map(({ input = null }) => input)
    return inputs.map((input, n) => ({ name: `${file.replace('.yaml', '')}-${n}`, source, input }))
  })
}

/** Runs a flow under a name and compares it with its simulation. @returns its outcome */
export async function agrees(
  runner: FlowRunner,
  name: string,
  source: string,
  input: Json = {},
): Promise<string> {
  const simulated = await eventually(async () => {
    const reply = await runner.call('POST', `${runner.workspace.flows}/simulate`, { source, input })
    // The number of concurrent simulations is limited, and other tests may use them.
    return reply.status === 503 ? undefined : reply.body
  })
  await runner.publish(name, source)
  const run = await runner.ended((await runner.start(name, input)).id)
  expect(comparable(run), source).toEqual(comparable(simulated))
  const entered = simulated.trace
    .filter(({ phase }: { phase: string }) => phase === 'started' || phase === 'skipped')
    .map(({ pointer }: { pointer: string }) => pointer)
  const steps = run.steps.map(({ pointer }: { pointer: string }) => pointer)
  expect(steps, source).toEqual(entered.slice(0, 1_000))
  return run.status
}
