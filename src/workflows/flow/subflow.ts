/** Runs a sub-flow as a child workflow (OWS 1.0 "Workflow Process"); its version is chosen when it starts. */

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
  ParentClosePolicy,
  startChild,
  workflowInfo,
} from '@temporalio/workflow'
import { ERRORS, type ErrorObject, FlowError } from '../../../flows-dsl/errors.ts'
import type { Json, JsonObject } from '../../../flows-dsl/ir.ts'
import type { StepRef } from '../../../flows-dsl/tasks/task.ts'
import { LIMITS } from '../../core/limits.ts'
import type { FlowRunInput, Subflow } from '../../core/run.ts'
import { MASK, replaceHandles, withoutHandles } from '../../core/secret-handle.ts'
import { refOf, type TenantRef } from '../../core/tenant.ts'
import type { SearchAttributes } from '../../core/work.ts'
import { callUntilAccepted, SUBFLOW } from './calls.ts'
import type { ExecutionGate } from './execution-gate.ts'

interface SubflowRequest {
  /** `{namespace, name, version, input, await}` */
  readonly details: JsonObject
  readonly step: StepRef
  readonly gate: ExecutionGate
  readonly parent: FlowRunInput
  /** Hears the id of the execution before it begins. */
  readonly begun: (id: string) => void
}

/**
 * @returns the output of the flow, or `{id}` of its execution where nobody waits for it
 * @throws FlowError what it faulted with; `configuration` where it is not there, or too deep
 */
export async function runSubflow({
  details,
  step,
  gate,
  parent,
  begun: hear,
}: SubflowRequest): Promise<Json> {
  const depth = (parent.depth ?? 0) + 1
  if (depth > LIMITS.subflowDepthMax) {
    const detail = `Flows that run flows that run flows … are at most ${LIMITS.subflowDepthMax} deep.`
    throw new FlowError(ERRORS.configuration, detail, step.pointer)
  }
  const { await: isAwaited, ...which } = details
  const asked = { ...which, started_by: parent.started_by }
  const begun = (await callUntilAccepted(
    { function: SUBFLOW, arguments: asked, step },
    gate,
  )) as unknown as Subflow
  hear(begun.run.execution_id)
  const child = await startChild('flowRun', {
    ...optionsOf(begun, isAwaited === true),
    args: [{ ...begun.run, depth } satisfies FlowRunInput],
  })
  if (isAwaited !== true) return { id: begun.run.execution_id }
  try {
    const output = withoutHandles((await child.result()) as Json)
    if (gate.isPaused) await gate.untilOpen()
    return output
  } catch (error) {
    throw toFlowError(error, step.pointer)
  }
}

/** What nobody waits for goes on when its parent has ended; the rest ends with it. */
function optionsOf(begun: Subflow, isAwaited: boolean) {
  return {
    ...childOptions(begun),
    parentClosePolicy: isAwaited ? ParentClosePolicy.REQUEST_CANCEL : ParentClosePolicy.ABANDON,
    cancellationType: ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
  }
}

/** A flow that was cancelled by itself has not cancelled who waits for it. */
function toFlowError(error: unknown, instance: string): unknown {
  if (!(error instanceof ChildWorkflowFailure)) return error
  const { cause } = error
  if (cause instanceof CancelledFailure) {
    if (CancellationScope.current().consideredCancelled) return cause
    return new FlowError(ERRORS.runtime, 'The flow was cancelled.', instance)
  }
  const fault =
    cause instanceof ApplicationFailure ? (cause.details?.[0] as ErrorObject | undefined) : undefined
  if (fault === undefined) return new FlowError(ERRORS.runtime, 'The flow was ended from outside.', instance)
  return new FlowError(
    withoutHandles({ ...fault }),
    replaceHandles(fault.detail, () => MASK),
    instance,
  )
}

/** Of a run that has been admitted. @throws ApplicationFailure where it is of another workspace */
export function childOptions({ workflow_id, run }: Subflow) {
  const { tenantId, workspaceId } = ownRef(workflow_id)
  const attributes: SearchAttributes = {
    TenantId: tenantId,
    WorkspaceId: workspaceId,
    FlowId: run.flow.id,
    FlowName: run.flow.name,
    FlowVersion: String(run.flow.version),
    ExecutionId: run.execution_id,
    ...(run.trigger !== undefined && { TriggerKind: run.trigger.kind }),
  }
  return {
    workflowId: workflow_id,
    staticSummary: `Flow ${run.flow.name} v${run.flow.version}`,
    priority: { fairnessKey: tenantId },
    typedSearchAttributes: new TypedSearchAttributes(
      Object.entries(attributes).map(([name, value]) => ({
        key: defineSearchAttributeKey(name, 'KEYWORD'),
        value,
      })),
    ),
  }
}

/** @throws ApplicationFailure where the id is not of the run's own workspace: it would be a fault of ours */
function ownRef(workflowId: string): TenantRef {
  const [theirs, ours] = [refOf(workflowId), refOf(workflowInfo().workflowId)]
  if (theirs && ours && theirs.tenantId === ours.tenantId && theirs.workspaceId === ours.workspaceId)
    return ours
  throw ApplicationFailure.nonRetryable('The flow is of another workspace.', 'tenant_mismatch')
}
