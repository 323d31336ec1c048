/** Analyses a flow's source without storing it: simulation, graph, and the documentation of diagnostics. */

import Type from 'typebox'
import { DIAGNOSTICS, type DiagnosticCode } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import { EDGE_KINDS } from '../../../flows-dsl/graph/types.ts'
import type { Answer, Simulation } from '../../../flows-dsl/simulator/types.ts'
import { Input } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { Serialized, tooDeep } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { FLOWS, flowInvalid, flowOperation, inFlowThread, Source, Ws } from './definitions.ts'
import { answeredSteps, recordedRun } from './executions/history.ts'

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

export const simulateFlow = flowOperation({
  name: 'flow.simulate',
  summary: 'Run a flow on given answers and virtual time; nothing is called',
  reads: true,
  input: Input({
    ws: Ws,
    source: Source,
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

/** Input and answers of an execution, in the order in which its steps were entered. */
async function recorded(scope: WorkspaceScope, id: string): Promise<Pick<Simulation, 'input' | 'mocks'>> {
  const { input } = await recordedRun(scope, id)
  const which = sql`kind in ('call', 'run', 'emit')`
  const steps = await answeredSteps(scope, id, { which, max: LIMITS.executionStepsShownMax })
  const mocks: Record<string, Answer[]> = {}
  for (const { pointer, result = null, error } of steps.toSorted((a, b) => a.iteration - b.iteration)) {
    mocks[pointer] ??= []
    mocks[pointer].push(error === null ? { output: result } : { error })
  }
  return { input, mocks }
}

/** A part of what the simulation was given does not fit the flow. */
function refused({ detail, pointer }: { readonly detail: string; readonly pointer: string }): Problem {
  const [, name = ''] = pointer.split('/')
  return new Problem('validation_failed', { detail, errors: [{ in: 'body', name, pointer, detail }] })
}

const Node = Type.Object({
  id: Type.String({ description: 'The JSON pointer of the task; `start` and `end` are no tasks.' }),
  kind: Type.String(),
  name: Type.String(),
  label: Type.String({ description: 'One line that says what it will do.' }),
  pointer: Type.Optional(Type.String()),
  line: Type.Optional(Type.Integer()),
  column: Type.Optional(Type.Integer()),
  parent: Type.Optional(Type.String({ description: 'The task in which it stands.' })),
  list: Type.Optional(Type.String({ description: 'Which list of tasks of that task it stands in.' })),
})

const Edge = Type.Object({
  from: Type.String(),
  to: Type.String(),
  kind: Type.Enum(EDGE_KINDS),
  label: Type.Optional(Type.String({ description: 'Why it is taken, such as the condition of a case.' })),
})

export const graphFlow = flowOperation({
  name: 'flow.graph',
  summary: 'Draw a flow: nodes and edges, and Mermaid text; 422 with all faults where it is not valid',
  reads: true,
  input: Input({ ws: Ws, source: Source }),
  output: Type.Object({ mermaid: Type.String(), nodes: Type.Array(Node), edges: Type.Array(Edge) }),
  http: { method: 'POST', path: `${FLOWS}/graph`, body: '*', texts: { 'application/yaml': 'source' } },
  run: async (scope, { source }) => {
    const drawn = await inFlowThread(scope, 'graph', { source })
    if ('faults' in drawn) throw flowInvalid(drawn.faults)
    return new Serialized(drawn.json) as never
  },
})

/** A definition that is longer stands for its size alone. */
const SHOWN_MAX = 800

/** A section of Markdown: what the fault is, a definition that has it, and the same without it. */
export function diagnosticPage(code: DiagnosticCode): string {
  const { title, explanation, example, fix } = DIAGNOSTICS[code]
  return `## ${code}\n\n${title}. ${explanation}\n\n${shown('This is at fault, where `¦` stands:', example)}\n${shown('This is not:', fix)}`
}

/** All of them, in the order of the table. */
export function diagnosticDocs(): string {
  const pages = (Object.keys(DIAGNOSTICS) as DiagnosticCode[]).map(diagnosticPage)
  const head = `# Faults of flows\n\nWhat \`flow.validate\` and its like can find in a definition; \`code\` never changes its meaning. Warnings, which stop nothing, stand at the end.\n`
  return [head, ...pages].join('\n')
}

function shown(label: string, definition: string): string {
  if (definition.length > SHOWN_MAX) return `${label} (a definition of ${definition.length} characters)\n`
  return `${label}\n\n\`\`\`yaml\n${definition.trimEnd()}\n\`\`\`\n`
}
