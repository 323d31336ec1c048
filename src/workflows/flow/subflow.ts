/** Runs a sub-flow as a child workflow (OWS 1.0 "Workflow Process"); its version is selected when it starts. */

import {
  ApplicationFailure,
  CancelledFailure,
  ChildWorkflowFailure,
  defineSearchAttributeKey,
  TypedSearchAttributes,
} from '@temporalio/common'
import {
  CancellationScope,
  ChildWorkflowCancellationType,
  isCancellation,
  ParentClosePolicy,
  startChild,
  workflowInfo,
} from '@temporalio/workflow'
import { ERRORS, type ErrorObject, FlowError } from '../../../flows-dsl/errors.ts'
import type { Json, JsonObject } from '../../../flows-dsl/ir.ts'
import type { StepRef } from '../../../flows-dsl/tasks/task.ts'
import type { ExecutionInput, Subflow } from '../../core/execution.ts'
import { MASK, replaceHandles, withoutHandles } from '../../core/secret-handle.ts'
import { refOf, type TenantRef } from '../../core/tenant.ts'
import { type SearchAttributes, startArgument, workflowTypeOf } from '../../core/work.ts'
import { FLOW_LIMITS } from '../../features/flows/limits.ts'
import { callUntilAccepted, SUBFLOW } from './calls.ts'
import type { ExecutionGate } from './execution-gate.ts'
import { recordExecution } from './recorder.ts'

interface SubflowRequest {
  /** `{namespace, name, version, input, await}` */
  readonly details: JsonObject
  readonly step: StepRef
  readonly gate: ExecutionGate
  readonly parent: ExecutionInput
  /** Called with the id of the execution before its workflow starts. */
  readonly onAdmitted: (id: string) => void
}

/**
 * @returns the output of the flow, or `{id}` of its execution with `await: false`
 * @throws FlowError the error of the sub-flow or of starting it; `configuration` if flows are nested too deep
 */
export async function runSubflow(request: SubflowRequest): Promise<Json> {
  const { details, step, gate, parent, onAdmitted } = request
  const depth = (parent.depth ?? 0) + 1
  if (depth > FLOW_LIMITS.subflowDepthMax) {
    const detail = `Flows can be nested at most ${FLOW_LIMITS.subflowDepthMax} deep.`
    throw new FlowError(ERRORS.configuration, detail, step.pointer)
  }
  const { await: isAwaited, ...target } = details
  const start = { ...target, started_by: parent.started_by }
  const subflow = (await callUntilAccepted(
    { function: SUBFLOW, arguments: start, step },
    gate,
  )) as unknown as Subflow
  const { execution_id: id } = subflow.input
  onAdmitted(id)
  const started = startChild(workflowTypeOf(subflow.input.flow.name), {
    ...optionsOf(subflow, isAwaited === true),
    args: [startArgument<ExecutionInput>('flowExecution', { ...subflow.input, depth })],
  })
  const child = await started.catch((error: unknown) => endUnstarted(id, error))
  if (isAwaited !== true) return { id: subflow.input.execution_id }
  try {
    const output = withoutHandles((await child.result()) as Json)
    if (gate.isPaused) await gate.untilOpen()
    return output
  } catch (error) {
    throw toFlowError(error, step.pointer)
  }
}

/** Ends the record of a sub-flow whose start was cancelled: no workflow does. @throws the error */
async function endUnstarted(execution_id: string, error: unknown): Promise<never> {
  if (isCancellation(error)) {
    const ended_at = new Date().toISOString()
    await recordExecution({ execution_id, status: 'cancelled', steps: [], ended_at }, 'record: cancelled')
  }
  throw error
}

/** When the parent ends, an awaited sub-flow is cancelled; one with `await: false` goes on. */
function optionsOf(subflow: Subflow, isAwaited: boolean) {
  return {
    ...childOptions(subflow),
    parentClosePolicy: isAwaited ? ParentClosePolicy.REQUEST_CANCEL : ParentClosePolicy.ABANDON,
    cancellationType: ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
  }
}

/** Converts the failure of a sub-flow. If only the sub-flow was cancelled, its parent gets an error that it can catch. */
function toFlowError(error: unknown, instance: string): unknown {
  if (!(error instanceof ChildWorkflowFailure)) return error
  const { cause } = error
  if (cause instanceof CancelledFailure) {
    if (CancellationScope.current().consideredCancelled) return cause
    return new FlowError(ERRORS.runtime, 'The flow was cancelled.', instance)
  }
  const fault =
    cause instanceof ApplicationFailure ? (cause.details?.[0] as ErrorObject | undefined) : undefined
  if (fault === undefined)
    return new FlowError(
      ERRORS.runtime,
      'The flow ended without an error of its own: it was terminated, or failed internally.',
      instance,
    )
  return new FlowError(
    withoutHandles({ ...fault }),
    replaceHandles(fault.detail, () => MASK),
    instance,
  )
}

/** The workflow options of an admitted execution. @throws ApplicationFailure if it belongs to another workspace */
export function childOptions({ workflow_id, input }: Subflow) {
  const { tenantId, workspaceId } = ownRef(workflow_id)
  const attributes: SearchAttributes = {
    TenantId: tenantId,
    WorkspaceId: workspaceId,
    FlowId: input.flow.id,
    FlowName: input.flow.name,
    FlowVersion: String(input.flow.version),
    ExecutionId: input.execution_id,
    ...(input.trigger !== undefined && { TriggerKind: input.trigger.kind }),
  }
  return {
    workflowId: workflow_id,
    staticSummary: `Flow ${input.flow.name} v${input.flow.version}`,
    priority: { fairnessKey: tenantId },
    typedSearchAttributes: new TypedSearchAttributes(
      Object.entries(attributes).map(([name, value]) => ({
        key: defineSearchAttributeKey(name, 'KEYWORD'),
        value,
      })),
    ),
  }
}

/** The workspace of this workflow. @throws ApplicationFailure if the id belongs to another one, which would be a bug */
function ownRef(workflowId: string): TenantRef {
  const [child, own] = [refOf(workflowId), refOf(workflowInfo().workflowId)]
  if (child && own && child.tenantId === own.tenantId && child.workspaceId === own.workspaceId) return own
  throw ApplicationFailure.nonRetryable('The flow belongs to another workspace.', 'tenant_mismatch')
}
