/** Interceptors of the sealed room: the ref in the header must equal the ref in the id, and travels on to calls. */

import { ApplicationFailure, defaultPayloadConverter, type Headers } from '@temporalio/common'
import { type WorkflowInterceptorsFactory, workflowInfo } from '@temporalio/workflow'
import { REF_HEADER, refOf, type TenantRef } from '../core/tenant.ts'

export const interceptors: WorkflowInterceptorsFactory = () => ({
  inbound: [
    {
      // Asynchronous, so that a refusal fails the run; thrown at once it would only fail the task, for ever.
      execute: async (input, next) => {
        sameRef(input.headers)
        return next(input)
      },
    },
  ],
  outbound: [
    {
      scheduleActivity: (input, next) => next({ ...input, headers: withRef(input.headers) }),
      continueAsNew: (input, next) => next({ ...input, headers: withRef(input.headers) }),
      startChildWorkflowExecution: (input, next) => next({ ...input, headers: withRef(input.headers) }),
      scheduleLocalActivity: (input, next) => next({ ...input, headers: withRef(input.headers) }),
    },
  ],
})

/** @throws ApplicationFailure where header and id disagree: such a run was not started by us */
function sameRef(headers: Headers): void {
  const payload = headers[REF_HEADER]
  const carried = payload && defaultPayloadConverter.fromPayload<TenantRef>(payload)
  const named = refOf(workflowInfo().workflowId)
  if (carried && named && carried.tenantId === named.tenantId && carried.workspaceId === named.workspaceId)
    return
  throw ApplicationFailure.nonRetryable(
    'The run does not belong to the tenant that its id names.',
    'tenant_mismatch',
  )
}

function withRef(headers: Headers): Headers {
  return { ...headers, [REF_HEADER]: defaultPayloadConverter.toPayload(refOf(workflowInfo().workflowId)) }
}
