/** Executions for keys and user tokens: operations of admins, bound to paths that name no workspace. */

import Type from 'typebox'
import { Input, Ref, Wait, workspaceOperation } from '../../../access/operation-builders.ts'
import { privilege } from '../../../access/privileges.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { component } from '../../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import type { AnyOperation } from '../../../core/operation.ts'
import { WRITERS } from '../../../core/policy.ts'
import { decideApproval, getApproval, listApprovals } from '../approvals/approvals.ts'
import { watchExecution } from './events.ts'
import {
  Execution,
  getExecution,
  listFlowExecutions,
  readExecution,
  startExecution,
  untilEnded,
} from './executions.ts'

/** The workspace with the right to start and follow its flows. */
const asFlowRunner = privilege('flows.keys')

const FLOWS = '/v1/flows'
const APPROVALS = '/v1/approvals'

interface KeyBinding {
  readonly name: string
  readonly path: string
  readonly scope: 'flows:run' | 'flows:read' | 'flows:approve'
}

/** An operation of admins for keys and tokens with a scope: the same fields without `ws`, which the credential names. */
function forKeys(admin: AnyOperation, { name, path, scope: needed }: KeyBinding): AnyOperation {
  const { ws: _ws, ...fields } = admin.input.properties
  return workspaceOperation({
    name,
    summary: admin.summary,
    roles: WRITERS,
    stability: 'preview',
    reads: admin.reads,
    scope: needed,
    rateClass: 'flows',
    ...(admin.payloads !== undefined && { payloads: admin.payloads }),
    input: Input(fields),
    output: admin.output,
    http: { ...admin.http, path },
    run: (scope: WorkspaceScope, input) => admin.run(asFlowRunner(scope), input),
  })
}

const Result = component(
  'ExecutionResult',
  Type.Pick(Execution, ['id', 'status', 'started_by', 'rerun_of', 'output', 'error', 'payloads', 'ended_at']),
  {
    id: EXAMPLE_ID.execution,
    status: 'completed',
    started_by: EXAMPLE_ID.key,
    rerun_of: null,
    output: { message: 'hello' },
    error: null,
    ended_at: EXAMPLE_TIME.ended,
  },
)

/** The result alone, for callers that have started an execution and come back for it. */
const getResult = workspaceOperation({
  name: 'flow.get_result',
  summary: 'Read the result of an execution; the status is 202 while it runs',
  roles: WRITERS,
  stability: 'preview',
  scope: 'flows:read',
  rateClass: 'flows',
  input: Input({ id: Ref('execution'), wait: Wait }),
  output: Result,
  http: {
    method: 'GET',
    path: `${FLOWS}/executions/{id}/result`,
    headers: { wait: 'prefer' },
    status: ({ ended_at }) => (ended_at === null ? 202 : 200),
    also: [202],
  },
  run: async (caller, { id, wait = 0 }) => {
    const scope = asFlowRunner(caller)
    let execution = await readExecution(scope, id)
    if (execution.ended_at === null && wait > 0) {
      await untilEnded(scope, id, async () => {}, wait * 1_000)
      execution = await readExecution(scope, id)
    }
    const { status, started_by, rerun_of, output, error, ended_at } = execution
    return { id, status, started_by, rerun_of, output, error, ended_at }
  },
})

export const FLOW_KEY_OPERATIONS: readonly AnyOperation[] = [
  forKeys(startExecution, {
    name: 'flow.start',
    path: `${FLOWS}/{flow}/executions`,
    scope: 'flows:run',
  }),
  forKeys(listFlowExecutions, {
    name: 'flow.list_executions',
    path: `${FLOWS}/{flow}/executions`,
    scope: 'flows:read',
  }),
  forKeys(getExecution, {
    name: 'flow.get_execution',
    path: `${FLOWS}/executions/{id}`,
    scope: 'flows:read',
  }),
  forKeys(watchExecution, {
    name: 'flow.watch_execution',
    path: `${FLOWS}/executions/{id}/events`,
    scope: 'flows:read',
  }),
  getResult,
  forKeys(listApprovals, { name: 'inbox.list', path: APPROVALS, scope: 'flows:approve' }),
  forKeys(getApproval, { name: 'inbox.get', path: `${APPROVALS}/{id}`, scope: 'flows:approve' }),
  forKeys(decideApproval, {
    name: 'inbox.decide',
    path: `${APPROVALS}/{id}/decide`,
    scope: 'flows:approve',
  }),
]
