/** How a run begins another run: whose id space it must lie in, and what operators find it by. */

import { ApplicationFailure, defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common'
import { workflowInfo } from '@temporalio/workflow'
import type { Subflow } from '../../core/run.ts'
import { refOf, type TenantRef } from '../../core/tenant.ts'

/** Of a run that has been admitted. @throws ApplicationFailure where it is of another workspace */
export function childOf({ workflow_id, run }: Subflow) {
  const { tenantId, workspaceId } = ownRef(workflow_id)
  const attributes = {
    TenantId: tenantId,
    WorkspaceId: workspaceId,
    FlowId: run.flow.id,
    FlowVersion: String(run.flow.version),
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
