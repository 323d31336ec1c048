/** Simulations: how a flow would run, without running it. Nothing is called, nothing is kept. */

import Type from 'typebox'
import type { Answer, Simulation } from '../../../flows-dsl/simulator/simulation.ts'
import { Serialized, tooDeep } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { Input, inWorkspace } from '../kinds.ts'
import { FLOWS, flowInvalid, inFlowThread, Ws } from './definitions.ts'
import { answeredSteps, recordedRun } from './recorded.ts'

const After = Type.Optional(
  Type.Unknown({ description: 'A duration from the start: PT5S, or {seconds: 5}.' }),
)
const Any = Type.Record(Type.String(), Type.Unknown())

const Entry = Type.Object({
  at: Type.String({ description: 'In virtual time.' }),
  pointer: Type.String(),
  iteration: Type.Integer(),
  name: Type.String(),
  kind: Type.String(),
  phase: Type.String(),
  took: Type.Optional(Type.String({ description: 'The way it took, such as the name of a case.' })),
  output: Type.Optional(Type.Unknown()),
  error: Type.Optional(Type.Unknown()),
  asks: Type.Optional(Type.Unknown({ description: 'What it asks of the outside.' })),
  cut: Type.Optional(Type.Boolean({ description: 'A value is left out: the trace would be too large.' })),
})

const count = (what: 'entered' | 'taken') =>
  Type.Object({ [what]: Type.Integer(), total: Type.Integer(), missed: Type.Array(Type.String()) })

const SimulatedFlow = Type.Object({
  status: Type.Union(
    ['completed', 'faulted', 'cancelled', 'waiting', 'suspended'].map((status) => Type.Literal(status)),
  ),
  output: Type.Optional(Type.Unknown()),
  error: Type.Optional(Type.Unknown()),
  compensation: Type.Optional(Type.Unknown({ description: 'What was undone, and what could not be.' })),
  wanted: Type.Optional(
    Type.Array(Type.Object({ step: Type.String(), what: Type.String(), hint: Type.String() }), {
      description: 'What the run waits for and was not given.',
    }),
  ),
  held: Type.Optional(Any),
  trace: Type.Array(Entry),
  coverage: Type.Object({ tasks: count('entered'), ways: count('taken') }),
  duration_ms: Type.Number({ description: 'In virtual time.' }),
  history_events: Type.Integer({ description: 'Events that such a run writes into its history, about.' }),
  lifecycle: Type.Optional(Type.Array(Type.Object({ type: Type.String(), time: Type.String(), data: Any }))),
})

export const simulateFlow = inWorkspace({
  name: 'flow.simulate',
  summary: 'Run a flow on given answers and virtual time; nothing is called',
  roles: ADMINS,
  stability: 'preview',
  reads: true,
  input: Input({
    ws: Ws,
    source: Type.String({ maxLength: LIMITS.flowSourceBytesMax, description: 'The flow in YAML.' }),
    input: Type.Optional(Type.Unknown()),
    mocks: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description:
          'Answers, by task (name or pointer) or by function: {output, after?} or {error: {type}, after?}; of a list, one each time.',
      }),
    ),
    mocks_from: Type.Optional(
      Type.String({ description: 'An execution whose input and answers are taken, where none are given.' }),
    ),
    events: Type.Optional(Type.Array(Type.Object({ event: Any, after: After }), { maxItems: 1_000 })),
    decisions: Type.Optional(
      Type.Array(Type.Object({ task: Type.String(), decision: Any, after: After }), { maxItems: 1_000 }),
    ),
    options: Type.Optional(
      Type.Object(
        {
          start: Type.Optional(Type.String({ description: 'When it begins, RFC 3339.' })),
          random: Type.Optional(Type.Number({ minimum: 0, exclusiveMaximum: 1 })),
          started_by: Type.Optional(Type.String()),
          lifecycle: Type.Optional(
            Type.Boolean({ description: 'Answer the lifecycle events, too (OWS 1.0).' }),
          ),
        },
        { additionalProperties: false },
      ),
    ),
  }),
  output: SimulatedFlow,
  http: { method: 'POST', path: `${FLOWS}/simulate`, body: '*' },
  run: async (scope, { source, ws: _ws, mocks_from, ...given }) => {
    refuseDeep(given)
    const before = mocks_from === undefined ? {} : await recorded(scope, mocks_from)
    const simulation = { ...before, ...given, mocks: { ...before.mocks, ...given.mocks } } as Simulation
    const ran = await inFlowThread(scope, 'simulate', { source, simulation })
    if ('faults' in ran) throw flowInvalid(ran.faults)
    if ('refused' in ran) throw refused(ran.refused)
    return new Serialized(ran.json) as never
  },
})

/** No run is given such values, and what walks them would run out of stack. @throws Problem */
function refuseDeep(given: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(given)) {
    if (!tooDeep(value)) continue
    const detail = `${name} is nested deeper than ${LIMITS.runInputDepthMax}.`
    throw new Problem('validation_failed', { detail })
  }
}

/** What an execution was given and answered, in the order in which its steps were entered. */
async function recorded(scope: WorkspaceScope, id: string): Promise<Pick<Simulation, 'input' | 'mocks'>> {
  const { input } = await recordedRun(scope, id)
  const which = sql`kind in ('call', 'run', 'emit')`
  const steps = await answeredSteps(scope, id, { which, max: LIMITS.executionStepsShownMax })
  const mocks: Record<string, Answer[]> = {}
  for (const { pointer, answer = null, error } of steps.toSorted((a, b) => a.iteration - b.iteration)) {
    const one = error === null ? { output: answer } : { error }
    const answers = mocks[pointer]
    if (answers === undefined) mocks[pointer] = [one]
    else answers.push(one)
  }
  return { input, mocks }
}

/** A part of what the simulation was given does not fit the flow. */
function refused({ detail, pointer }: { readonly detail: string; readonly pointer: string }): Problem {
  const [, name = ''] = pointer.split('/')
  return new Problem('validation_failed', { detail, errors: [{ in: 'body', name, pointer, detail }] })
}
