/**
 * Tools over the executions that tools over flows have started: status, result, cancel, answer. A version that has tools
 * over flows has these too. An execution is known to the principal that started it, through a tool of the same server.
 */

import Type from 'typebox'
import { Input } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import type { AnyOperation } from '../../../core/operation.ts'
import { ADMINS } from '../../../core/policy.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import { type Annotations, CHANGES, READS, readsOnly } from '../../../core/tool-annotations.ts'
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
  EXECUTION_RESULT,
  executionOutput,
  isAddressedTo,
} from './execution-outcome.ts'

/**
 * Decides the approvals that the requests to the client were about; then the call follows the execution again.
 * A tool over a flow has `flow` fixed, a tool over executions `flows`.
 */
export function resumeExecution({ binding }: Tool, { received }: { readonly received: ReceivedInput }) {
  const { execution } = received.state as { execution: string }
  const { ws, flow, flows = [flow] } = binding.fixed
  const decisions = decisionsOf(received.responses)
  return { operation: decideApprovals, input: { ws, flows, execution, decisions } }
}

/** `ws` and `flows` are fixed by the version. */
const OwnExecution = {
  ws: Type.String(),
  flows: Type.Array(Type.String()),
  execution: Type.String({
    minLength: 1,
    maxLength: 100,
    description: 'Id of the execution: `execution` in the result of the tool that started it.',
  }),
}
/** No route: only tools run these operations. */
const http = { method: 'POST', path: '/v1/mcp/executions/{execution}', body: '*' } as const

interface OwnExecution {
  readonly execution: string
  readonly flows: readonly string[]
}

/** @throws Problem `not_found`, the same for an execution of another principal, server or tenant and for none */
async function requireOwn(scope: WorkspaceScope, { execution, flows }: OwnExecution): Promise<void> {
  const { subject, onBehalfOf } = scope.actor
  const own = await scope.row(sql`select id from executions
    where id = ${execution} and started_by = ${onBehalfOf ?? subject} and flow_id = any(${textArray(flows)}::text[])`)
  if (own === undefined) throw unknownExecution()
}

const unknownExecution = () =>
  new Problem('not_found', {
    detail: 'There is no such execution.',
    hint: 'Use `execution` of the result of a tool of this server.',
  })

const getOwnExecution = previewOperation({
  name: 'mcp_execution.get',
  roles: ADMINS,
  summary: 'Read the state of an execution',
  reads: true,
  input: Input(OwnExecution),
  output: Execution,
  http,
  run: async (scope, input) => {
    await requireOwn(scope, input)
    return readExecution(scope, input.execution)
  },
})

const cancelOwnExecution = previewOperation({
  name: 'mcp_execution.cancel',
  roles: ADMINS,
  summary: 'Cancel an execution',
  input: Input(OwnExecution),
  output: Type.Object({ ...Execution.properties, cancelling: Type.Optional(Type.Literal(true)) }),
  http,
  run: async (scope, input) => {
    await requireOwn(scope, input)
    const execution = await cancelExecution.run(scope, { ws: input.ws, id: input.execution })
    return { ...execution, ...(execution.ended_at === null && { cancelling: true as const }) }
  },
})

const answerApproval = previewOperation({
  name: 'mcp_execution.answer',
  roles: ADMINS,
  summary: 'Decide an approval that names the caller',
  input: Input({
    ...OwnExecution,
    approval: Type.String({
      minLength: 1,
      maxLength: 100,
      description: 'Id of the approval, from `approvals` of execution_status.',
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
    const { approvals = [] } = await readExecution(scope, input.execution)
    const open = approvals.find(({ id }) => id === approval)
    if (open === undefined) throw notFound('open approval of this execution')
    const { subject } = scope.actor
    if (!isAddressedTo(subject, open)) {
      const detail = `Only ${open.approvers.join(', ')} can decide this approval, not this client.`
      throw new Problem('forbidden', {
        detail,
        hint: 'Ask one of them to decide, then call execution_status again.',
      })
    }
    const verdict = { approved, ...(form && { form }), ...(comment !== undefined && { comment }) }
    await decide(scope, open.id, { by: subject, as: [] }, verdict)
    return readExecution(scope, input.execution)
  },
})

/** Decides by the responses to an elicitation. Decisions on approvals that are no longer open have no effect. */
const decideApprovals = previewOperation({
  name: 'mcp_execution.decide',
  roles: ADMINS,
  summary: 'Decide approvals that name the caller',
  input: Input({
    ...OwnExecution,
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
    const { approvals = [] } = await readExecution(scope, input.execution)
    const { subject } = scope.actor
    for (const { approval, ...verdict } of decisions) {
      const open = approvals.find(({ id }) => id === approval)
      if (open !== undefined && isAddressedTo(subject, open))
        await decide(scope, open.id, { by: subject, as: [] }, verdict)
    }
    return readExecution(scope, input.execution)
  },
})

interface ExecutionTool {
  readonly verb: string
  readonly title: string
  readonly operation: AnyOperation
  readonly description: string
  readonly annotations: Annotations
  readonly wait_seconds?: number
}

const TOOLS: readonly ExecutionTool[] = [
  {
    verb: 'status',
    operation: getOwnExecution,
    title: 'State of an execution',
    description:
      'Returns the progress of an execution and what it waits for, or its output or error if it has ended. Does not wait.',
    annotations: READS,
  },
  {
    verb: 'result',
    operation: getOwnExecution,
    wait_seconds: MCP_LIMITS.executionWaitSeconds,
    title: 'Result of an execution',
    description: `Waits up to ${MCP_LIMITS.executionWaitSeconds} s for the end of an execution, and returns its output or error.`,
    annotations: READS,
  },
  {
    verb: 'cancel',
    operation: cancelOwnExecution,
    title: 'Cancel an execution',
    description:
      'Cancels an execution. Completed steps that have a compensation are undone. If `cancelling` is true, this has not finished: call execution_result.',
    annotations: CHANGES,
  },
  {
    verb: 'answer',
    operation: answerApproval,
    title: 'Decide an approval of an execution',
    description: 'Decides an approval that an execution waits for, if `yours` says that it is for you.',
    annotations: CHANGES,
  },
]

export const executions: ToolProvider = {
  name: 'executions',
  operations: TOOLS.map(({ operation }) => operation),
  // They come with tools over flows.
  candidates: async () => [],
  requireEnabled: (scope) => requireFeature(scope, 'mcp.flow_tools'),
  follow: awaitExecution,
  toToolOutput: executionOutput,
  resume: resumeExecution,
}

/** Names that no other tool takes. */
export const EXECUTION_TOOL_NAMES = TOOLS.map(({ verb }) => `execution_${verb}`)

/** The tools over executions that come with the tools over flows of a version. */
export function executionTools(scope: WorkspaceScope, tools: readonly Tool[]): Tool[] {
  const flows = tools.flatMap(({ binding }) =>
    binding.source === 'flows' ? [String(binding.fixed['flow'])] : [],
  )
  if (flows.length === 0) return []
  const fixed = { ws: scope.ref.workspaceId, flows: [...new Set(flows)].sort() }
  const isPinned = tools.some(({ binding, pinned }) => binding.source === 'flows' && pinned)
  return TOOLS.map(({ verb, operation, title, description, annotations, wait_seconds }) => ({
    candidate: `executions:server:${verb}`,
    name: `execution_${verb}`,
    title,
    description,
    input_schema: argumentsOf(operation, fixed),
    output_schema: EXECUTION_RESULT,
    annotations,
    scope: `execution_${verb}`,
    reads: readsOnly(annotations),
    ...(isPinned && { pinned: true }),
    binding: {
      source: 'executions',
      operation: operation.name,
      fixed,
      ...(wait_seconds && { wait_seconds }),
    },
  }))
}
