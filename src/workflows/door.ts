/** Interceptors of the sealed room: the ref in the header must equal the ref in the id, and travels on to calls. */

import { ApplicationFailure, defaultPayloadConverter, type Headers } from '@temporalio/common'
import { type WorkflowInterceptorsFactory, workflowInfo } from '@temporalio/workflow'
import { REF_HEADER, refOf, sameRef, type TenantRef } from '../core/tenant.ts'
import { openly } from './payload-converter.ts'

export const interceptors: WorkflowInterceptorsFactory = () => ({
  inbound: [
    {
      // Asynchronous, so that a refusal fails the run; thrown at once it would only fail the task, for ever.
      execute: async (input, next) => {
        checkRef(input.headers)
        return next(input)
      },
    },
  ],
  outbound: [
    {
      scheduleActivity: ({ options, ...input }, next) =>
        next({ ...input, options: { ...options, ...summaryOf(options) }, headers: withRef(input.headers) }),
      continueAsNew: (input, next) => next({ ...input, headers: withRef(input.headers) }),
      startChildWorkflowExecution: ({ options, ...input }, next) =>
        next({ ...input, options: { ...options, ...titleOf(options) }, headers: withRef(input.headers) }),
      scheduleLocalActivity: ({ options, ...input }, next) =>
        next({ ...input, options: { ...options, ...summaryOf(options) }, headers: withRef(input.headers) }),
      startTimer: ({ options, ...input }, next) =>
        next({ ...input, options: { ...options, ...summaryOf(options ?? {}) } }),
    },
  ],
})

/** What steps and flows are called stands in their definition: operators may read it. */
function summaryOf({ summary }: { summary?: string | undefined }) {
  return summary === undefined ? {} : { summary: openly(summary) }
}

function titleOf({ staticSummary }: { staticSummary?: string | undefined }) {
  return staticSummary === undefined ? {} : { staticSummary: openly(staticSummary) }
}

/** @throws ApplicationFailure where header and id disagree: such a run was not started by us */
function checkRef(headers: Headers): void {
  const payload = headers[REF_HEADER]
  const carried = payload && defaultPayloadConverter.fromPayload<TenantRef>(payload)
  if (sameRef(workflowInfo().workflowId, carried) !== undefined) return
  throw ApplicationFailure.nonRetryable(
    'The run does not belong to the tenant that its id names.',
    'tenant_mismatch',
  )
}

function withRef(headers: Headers): Headers {
  return { ...headers, [REF_HEADER]: defaultPayloadConverter.toPayload(refOf(workflowInfo().workflowId)) }
}
