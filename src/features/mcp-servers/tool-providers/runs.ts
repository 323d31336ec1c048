/**
 * Tools over the executions that tools over flows have started: status, result, cancel, answer. A version that has tools
 * over flows has these too. An execution is known to the principal that started it, through a tool of the same server.
 */

import Type from 'typebox'
import { Input } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import type { AnyOperation } from '../../../core/operation.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import { type Annotations, READ_ONLY } from '../../../core/tool-access.ts'
import { sql, textArray } from '../../../infra/postgres/sql.ts'
import { decide } from '../../flows/approvals/approvals.ts'
import { cancelExecution } from '../../flows/executions/commands.ts'
import { Execution, readExecution } from '../../flows/executions/executions.ts'
import { previewOperation } from '../../operation-helpers.ts'
import { requireFeature } from '../../tenants/workspace-settings.ts'
import type { ReceivedInput } from '../calls/call-client.ts'
import { MCP_LIMITS } from '../limits.ts'
import { argumentsOf, type Tool, type ToolProvider } from '../tool.ts'
import {
  awaitExecution,
  decisionsOf,
  executionOutput,
  isAddressedTo,
  RUN_RESULT,
} from './execution-outcome.ts'

/**
 * Decides the approvals that the requests to the client were about; then the call follows the execution again.
 * A tool over a flow has `flow` fixed, a tool over executions `flows`.
 */
export function resumeExecution({ binding }: Tool, { received }: { readonly received: ReceivedInput }) {
  const { run } = received.state as { run: string }
  const { ws, flow, flows = [flow] } = binding.fixed
  return { operation: runDecide, input: { ws, flows, run, decisions: decisionsOf(received.responses) } }
}

const Run = Type.String({
  minLength: 1,
  maxLength: 100,
  description: 'Id of the run: `run` in the result of the tool that started it.',
})
/** `ws` and `flows` are fixed by the version. */
const OwnRun = { ws: Type.String(), flows: Type.Array(Type.String()), run: Run }
/** No route: only tools run these operations. */
const http = { method: 'POST', path: '/v1/mcp/runs/{run}', body: '*' } as const

interface OwnRun {
  readonly run: string
  readonly flows: readonly string[]
}

/** @throws Problem `not_found`, the same for an execution of another principal, server or tenant and for none */
async function requireOwn(scope: WorkspaceScope, { run, flows }: OwnRun): Promise<void> {
  const { subject, onBehalfOf } = scope.actor
  const own = await scope.row(sql`select id from executions
    where id = ${run} and started_by = ${onBehalfOf ?? subject} and flow_id = any(${textArray(flows)}::text[])`)
  if (own === undefined) throw notFound('run')
}

const runGet = previewOperation({
  name: 'mcp_run.get',
  summary: 'Read the state of a run',
  reads: true,
  input: Input(OwnRun),
  output: Execution,
  http,
  run: async (scope, input) => {
    await requireOwn(scope, input)
    return readExecution(scope, input.run)
  },
})

const runCancel = previewOperation({
  name: 'mcp_run.cancel',
  summary: 'Cancel a run',
  input: Input(OwnRun),
  output: Type.Object({ ...Execution.properties, cancelling: Type.Optional(Type.Literal(true)) }),
  http,
  run: async (scope, input) => {
    await requireOwn(scope, input)
    const execution = await cancelExecution.run(scope, { ws: input.ws, id: input.run })
    return { ...execution, ...(execution.ended_at === null && { cancelling: true as const }) }
  },
})

const runAnswer = previewOperation({
  name: 'mcp_run.answer',
  summary: 'Decide an approval that names the caller',
  input: Input({
    ...OwnRun,
    approval: Type.String({
      minLength: 1,
      maxLength: 100,
      description: 'Id of the approval, from `approvals` of run_status.',
    }),
    approved: Type.Boolean(),
    form: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description: 'Form of the decision, as the `form` of the approval requires.',
      }),
    ),
    comment: Type.Optional(Type.String({ maxLength: 2_000 })),
  }),
  output: Execution,
  http,
  run: async (scope, { approval, approved, form, comment, ...input }) => {
    await requireOwn(scope, input)
    const { approvals = [] } = await readExecution(scope, input.run)
    const open = approvals.find(({ id }) => id === approval)
    if (open === undefined) throw notFound('open approval of this run')
    const { subject } = scope.actor
    if (!isAddressedTo(subject, open)) {
      const detail = `Only ${open.approvers.join(', ')} can decide this approval, not this client.`
      throw new Problem('forbidden', {
        detail,
        hint: 'Ask one of them to decide, then call run_status again.',
      })
    }
    const verdict = { approved, ...(form && { form }), ...(comment !== undefined && { comment }) }
    await decide(scope, open.id, { by: subject, as: [] }, verdict)
    return readExecution(scope, input.run)
  },
})

/** Decides by the responses to an elicitation. Decisions on approvals that are no longer open have no effect. */
const runDecide = previewOperation({
  name: 'mcp_run.decide',
  summary: 'Decide approvals that name the caller',
  input: Input({
    ...OwnRun,
    decisions: Type.Array(
      Type.Object({
        approval: Type.String(),
        approved: Type.Boolean(),
        form: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
      }),
    ),
  }),
  output: Execution,
  http,
  run: async (scope, { decisions, ...input }) => {
    await requireOwn(scope, input)
    const { approvals = [] } = await readExecution(scope, input.run)
    const { subject } = scope.actor
    for (const { approval, ...verdict } of decisions) {
      const open = approvals.find(({ id }) => id === approval)
      if (open !== undefined && isAddressedTo(subject, open))
        await decide(scope, open.id, { by: subject, as: [] }, verdict)
    }
    return readExecution(scope, input.run)
  },
})

const CHANGES: Annotations = { ...READ_ONLY, readOnlyHint: false, destructiveHint: true }

interface RunTool {
  readonly verb: string
  readonly title: string
  readonly operation: AnyOperation
  readonly description: string
  readonly annotations: Annotations
  readonly wait_seconds?: number
}

const TOOLS: readonly RunTool[] = [
  {
    verb: 'status',
    operation: runGet,
    title: 'State of a run',
    description:
      'Returns the progress of a run and what it waits for, or its output or error if it has ended. Does not wait.',
    annotations: READ_ONLY,
  },
  {
    verb: 'result',
    operation: runGet,
    wait_seconds: MCP_LIMITS.executionWaitSeconds,
    title: 'Result of a run',
    description: `Waits up to ${MCP_LIMITS.executionWaitSeconds} s for the end of a run, and returns its output or error.`,
    annotations: READ_ONLY,
  },
  {
    verb: 'cancel',
    operation: runCancel,
    title: 'Cancel a run',
    description:
      'Cancels a run. Completed steps that have a compensation are undone. If `cancelling` is true, this has not finished: call run_result.',
    annotations: CHANGES,
  },
  {
    verb: 'answer',
    operation: runAnswer,
    title: 'Decide an approval of a run',
    description: 'Decides an approval that a run waits for, if `yours` says that it is for you.',
    annotations: CHANGES,
  },
]

export const runs: ToolProvider = {
  name: 'runs',
  operations: TOOLS.map(({ operation }) => operation),
  // They come with tools over flows.
  candidates: async () => [],
  requireEnabled: (scope) => requireFeature(scope, 'mcp.flow_tools'),
  follow: awaitExecution,
  toToolOutput: executionOutput,
  resume: resumeExecution,
}

/** Names that no other tool takes. */
export const RUN_TOOL_NAMES = TOOLS.map(({ verb }) => `run_${verb}`)

/** The tools over executions that come with the tools over flows of a version. */
export function runTools(scope: WorkspaceScope, tools: readonly Tool[]): Tool[] {
  const flows = tools.flatMap(({ binding }) =>
    binding.source === 'flows' ? [String(binding.fixed['flow'])] : [],
  )
  if (flows.length === 0) return []
  const fixed = { ws: scope.ref.workspaceId, flows: [...new Set(flows)].sort() }
  const isPinned = tools.some(({ binding, pinned }) => binding.source === 'flows' && pinned)
  return TOOLS.map(({ verb, operation, title, description, annotations, wait_seconds }) => ({
    candidate: `runs:server:${verb}`,
    name: `run_${verb}`,
    title,
    description,
    input_schema: argumentsOf(operation, fixed),
    output_schema: RUN_RESULT,
    annotations,
    scope: `run_${verb}`,
    reads: annotations.readOnlyHint,
    ...(isPinned && { pinned: true }),
    binding: { source: 'runs', operation: operation.name, fixed, ...(wait_seconds && { wait_seconds }) },
  }))
}
