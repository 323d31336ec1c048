/** Analyses a flow's source without storing it: validation, simulation, graph, and the documentation of diagnostics. */

import Type from 'typebox'
import { DIAGNOSTICS } from '../../../flows-dsl/diagnostics/catalogue.ts'
import type { DiagnosticCode } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import { EDGE_KINDS } from '../../../flows-dsl/graph/control-flow.ts'
import type { Answer, Simulation } from '../../../flows-dsl/simulator/types.ts'
import { Input } from '../../access/operation-builders.ts'
import { payloadsOfRecord, revealedIn, revealing } from '../../access/payload-access.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { component } from '../../core/components/component.ts'
import { isTooDeep, Serialized } from '../../core/json.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { DEVELOPERS, VIEWERS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { previewOperation } from '../operation-helpers.ts'
import { Diagnostic, FLOWS, flowInvalid, inFlowThread, Source, Warnings, Ws } from './definitions.ts'
import {
  answeredSteps,
  type RecordedExecution,
  readRecordedExecution,
  recordedStep,
} from './executions/history.ts'
import { FlowFacts } from './flow-summary.ts'
import { FLOW_LIMITS } from './limits.ts'
import { missingReferences } from './references.ts'

export const validateFlow = previewOperation({
  name: 'flow.validate',
  roles: DEVELOPERS,
  summary: 'Check a flow and return all diagnostics, each with line, column and pointer',
  reads: true,
  input: Input({ ws: Ws, source: Source }),
  output: component(
    'FlowValidation',
    Type.Object({
      valid: Type.Boolean(),
      diagnostics: Type.Array(Diagnostic),
      warnings: Warnings,
      facts: Type.Optional(FlowFacts),
    }),
    { valid: true, diagnostics: [], warnings: [] },
  ),
  http: { method: 'POST', path: `${FLOWS}/validate`, body: '*', texts: { 'application/yaml': 'source' } },
  run: async (scope, { source }) => {
    const { diagnostics, warnings, ...checked } = await inFlowThread(scope, 'check', { source })
    if (checked.references === undefined)
      return { valid: false, diagnostics: [...diagnostics], warnings: [...warnings] }
    const missing = await missingReferences(scope, checked.references)
    return {
      valid: missing.diagnostics.length === 0,
      diagnostics: missing.diagnostics,
      warnings: [...warnings, ...missing.warnings],
      facts: checked.facts,
    }
  },
})

const After = Type.Optional(
  Type.Unknown({ description: 'Duration since the start: `PT5S`, or `{seconds: 5}`.' }),
)
const Any = Type.Record(Type.String(), Type.Unknown())

const Entry = Type.Object({
  at: Type.String({ description: 'Virtual time of the entry.' }),
  pointer: Type.String(),
  iteration: Type.Integer(),
  name: Type.String(),
  kind: Type.String(),
  phase: Type.String(),
  took: Type.Optional(Type.String({ description: 'Branch taken, such as the name of a case.' })),
  output: Type.Optional(Type.Unknown()),
  error: Type.Optional(Type.Unknown()),
  asks: Type.Optional(Type.Unknown({ description: 'Request of the task to its environment.' })),
  cut: Type.Optional(
    Type.Boolean({ description: 'True if a value is omitted because the trace would be too large.' }),
  ),
})

const count = (what: 'entered' | 'taken') =>
  Type.Object({ [what]: Type.Integer(), total: Type.Integer(), missed: Type.Array(Type.String()) })

const SimulatedFlow = component(
  'FlowSimulation',
  Type.Object({
    status: Type.Union(
      ['completed', 'faulted', 'cancelled', 'waiting', 'suspended'].map((status) => Type.Literal(status)),
    ),
    output: Type.Optional(Type.Unknown()),
    error: Type.Optional(Type.Unknown()),
    compensation: Type.Optional(
      Type.Unknown({ description: 'Tasks that were compensated, and tasks whose compensation failed.' }),
    ),
    handlerErrors: Type.Optional(
      Type.Unknown({ description: 'Errors of the tasks under `onError` and `finally`.' }),
    ),
    wanted: Type.Optional(
      Type.Array(Type.Object({ step: Type.String(), what: Type.String(), hint: Type.String() }), {
        description: 'Inputs that the execution waits for and the simulation does not have.',
      }),
    ),
    unused: Type.Optional(
      Type.Array(
        Type.Object({ mock: Type.String(), reason: Type.String(), hint: Type.Optional(Type.String()) }),
        { description: 'Mocks that match no task, or whose answers were not all used; at most 20.' },
      ),
    ),
    held: Type.Optional(Any),
    trace: Type.Array(Entry),
    coverage: Type.Object({ tasks: count('entered'), ways: count('taken') }),
    duration_ms: Type.Number({ description: 'Duration in virtual time, in milliseconds.' }),
    history_events: Type.Integer({
      description: 'Approximate number of Temporal history events of the simulated execution.',
    }),
    lifecycle: Type.Optional(
      Type.Array(Type.Object({ type: Type.String(), time: Type.String(), data: Any })),
    ),
  }),
  {
    status: 'completed',
    output: { message: 'hello' },
    trace: [],
    coverage: { tasks: { entered: 1, total: 1, missed: [] }, ways: { taken: 0, total: 0, missed: [] } },
    duration_ms: 0,
    history_events: 12,
  },
)

export const simulateFlow = previewOperation({
  name: 'flow.simulate',
  roles: DEVELOPERS,
  summary: 'Simulate a flow with mocked answers in virtual time; no external call is made',
  reads: true,
  input: Input({
    ws: Ws,
    source: Source,
    input: Type.Optional(Type.Unknown()),
    mocks: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description:
          'Mocked answers by task (name or pointer) or by function: `{output, after?}` or `{error: {type}, after?}`; a list is used one by one.',
      }),
    ),
    mocks_from: Type.Optional(
      Type.String({
        description:
          'Id of an execution whose input, answers, id, start time and starter are used if the request has none. Of one that another has started, this needs the right to see payloads.',
      }),
    ),
    events: Type.Optional(Type.Array(Type.Object({ event: Any, after: After }), { maxItems: 1_000 })),
    decisions: Type.Optional(
      Type.Array(Type.Object({ task: Type.String(), decision: Any, after: After }), { maxItems: 1_000 }),
    ),
    options: Type.Optional(
      Type.Object(
        {
          start: Type.Optional(Type.String({ description: 'Start time (RFC 3339).' })),
          random: Type.Optional(Type.Number({ minimum: 0, exclusiveMaximum: 1 })),
          id: Type.Optional(
            Type.String({ maxLength: 200, description: 'Value of `$workflow.id`. Default: `simulation`.' }),
          ),
          started_by: Type.Optional(Type.String()),
          lifecycle: Type.Optional(
            Type.Boolean({
              description: 'True if the response includes lifecycle events (OWS 1.0). Default: `false`.',
            }),
          ),
        },
        { additionalProperties: false },
      ),
    ),
  }),
  output: SimulatedFlow,
  http: { method: 'POST', path: `${FLOWS}/simulate`, body: '*' },
  run: async (scope, { source, ws: _ws, mocks_from, ...given }) => {
    rejectDeep(given)
    const before: RecordedAnswers = mocks_from === undefined ? {} : await recordedAnswers(scope, mocks_from)
    const simulation = {
      ...before,
      ...given,
      options: { ...before.options, ...given.options },
    } as Simulation
    const ran = await inFlowThread(scope, 'simulate', { source, simulation })
    if ('diagnostics' in ran) throw flowInvalid(ran.diagnostics)
    if ('refused' in ran) throw inputProblem(ran.refused)
    const output = new Serialized(ran.json)
    return (revealedIn(before) === undefined ? output : revealing(output, scope.ref)) as never
  },
})

/** Rejects values that executions do not accept, and that would overflow the stack here. @throws Problem */
function rejectDeep(given: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(given)) {
    if (!isTooDeep(value)) continue
    const detail = `${name} is nested deeper than ${CORE_LIMITS.valueDepthMax}.`
    throw new Problem('validation_failed', { detail })
  }
}

type RecordedAnswers = Partial<Pick<Simulation, 'input' | 'recorded' | 'options'>>

/**
 * The input and `$workflow` of an execution, and its results in the order in which its steps started.
 * @throws Problem `not_found`; `payloads_hidden` if the caller may not see them
 */
async function recordedAnswers(scope: WorkspaceScope, id: string): Promise<RecordedAnswers> {
  const execution = await readRecordedExecution(scope, id)
  return payloadsOfRecord(scope, execution, scope.ref, () => readAnswers(scope, id, execution))
}

async function readAnswers(
  scope: WorkspaceScope,
  id: string,
  { input, started_by, started_at }: RecordedExecution,
): Promise<RecordedAnswers> {
  const which = sql`kind in ('call', 'run', 'emit')`
  const steps = await answeredSteps(scope, id, { which, max: FLOW_LIMITS.stepsReturnedMax })
  const recorded: Record<string, Answer[]> = {}
  for (const { pointer, result = null, error } of steps.toSorted((a, b) => a.iteration - b.iteration)) {
    recorded[pointer] ??= []
    recorded[pointer].push(error === null ? { output: result } : { error })
  }
  // Expressions see when the workflow started, as the first step does; the execution was created a little earlier.
  const first = await recordedStep(scope, id, { which: sql`true` })
  const start = new Date(first?.started_at ?? started_at).toISOString()
  return { input, recorded, options: { id, start, started_by } }
}

/** The problem of a simulation input that does not match the flow. */
function inputProblem({ detail, pointer }: { readonly detail: string; readonly pointer: string }): Problem {
  const [, name = ''] = pointer.split('/')
  return new Problem('validation_failed', { detail, errors: [{ in: 'body', name, pointer, detail }] })
}

const Node = Type.Object({
  id: Type.String({ description: 'JSON pointer of the task, or `start` or `end`, which are no tasks.' }),
  kind: Type.String(),
  name: Type.String(),
  label: Type.String({ description: 'Description on one line.' }),
  pointer: Type.Optional(Type.String()),
  line: Type.Optional(Type.Integer()),
  column: Type.Optional(Type.Integer()),
  parent: Type.Optional(Type.String({ description: 'JSON pointer of the task that contains this one.' })),
  list: Type.Optional(
    Type.String({
      description: 'Name of the list of the containing task, such as `do`, in which this one is.',
    }),
  ),
})

const Edge = Type.Object({
  from: Type.String(),
  to: Type.String(),
  kind: Type.Enum(EDGE_KINDS),
  label: Type.Optional(Type.String({ description: 'Condition of the edge, such as that of a case.' })),
})

export const graphFlow = previewOperation({
  name: 'flow.graph',
  roles: VIEWERS,
  summary:
    'Return the graph of a flow: nodes, edges, and Mermaid text; the status is 422, with all diagnostics, if it is not valid',
  reads: true,
  input: Input({ ws: Ws, source: Source }),
  output: component(
    'FlowGraph',
    Type.Object({ mermaid: Type.String(), nodes: Type.Array(Node), edges: Type.Array(Edge) }),
    {
      mermaid: 'flowchart TD',
      nodes: [{ id: '/do/0/greet', kind: 'set', name: 'greet', label: 'greet' }],
      edges: [{ from: 'start', to: '/do/0/greet', kind: 'next' }],
    },
  ),
  http: { method: 'POST', path: `${FLOWS}/graph`, body: '*', texts: { 'application/yaml': 'source' } },
  run: async (scope, { source }) => {
    const drawn = await inFlowThread(scope, 'graph', { source })
    if ('diagnostics' in drawn) throw flowInvalid(drawn.diagnostics)
    return new Serialized(drawn.json) as never
  },
})

/** Longer definitions only illustrate a size limit and are not shown. */
const SHOWN_MAX = 800

/** A section of Markdown: the diagnostic, an example that has it, and the corrected example. */
export function diagnosticPage(code: DiagnosticCode): string {
  const { title, explanation, example, fix } = DIAGNOSTICS[code]
  return `## ${code}\n\n${title}. ${explanation}\n\n${codeBlock('Faulty (`¦` marks the location):', example)}\n${codeBlock('Correct:', fix)}`
}

/** All of them, in the order of the table. */
export function diagnosticDocs(): string {
  const pages = (Object.keys(DIAGNOSTICS) as DiagnosticCode[]).map(diagnosticPage)
  const head = `# Faults of flows\n\nDiagnostics of \`flow.validate\` and related operations. The meaning of a \`code\` never changes. Warnings, at the end, do not prevent publishing.\n`
  return [head, ...pages].join('\n')
}

function codeBlock(label: string, definition: string): string {
  if (definition.length > SHOWN_MAX) return `${label} (a definition of ${definition.length} characters)\n`
  return `${label}\n\n\`\`\`yaml\n${definition.trimEnd()}\n\`\`\`\n`
}
