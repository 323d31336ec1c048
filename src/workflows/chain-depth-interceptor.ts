/** Carries the chain depth, the number of executions that led to this one by events or tools, to everything that it starts. */

import { defaultPayloadConverter, type Headers } from '@temporalio/common'
import type { WorkflowInterceptorsFactory } from '@temporalio/workflow'
import { CHAIN_DEPTH_HEADER, type ExecutionInput } from '../core/execution.ts'

export const interceptors: WorkflowInterceptorsFactory = () => {
  let depth = 0
  const withDepth = (headers: Headers): Headers =>
    depth === 0 ? headers : { ...headers, [CHAIN_DEPTH_HEADER]: defaultPayloadConverter.toPayload(depth) }
  return {
    inbound: [
      {
        execute: async (input, next) => {
          // The interceptor before this one has put the definition before the input (tenant-interceptor.ts).
          const [, started] = input.args as unknown as readonly [string, Partial<ExecutionInput>?]
          // An execution started by an event or a tool has its depth in the input; one started by another execution, in the header.
          depth = chainDepthOf(input.headers) ?? started?.trigger?.chain_depth ?? 0
          return next(input)
        },
      },
    ],
    outbound: [
      {
        scheduleActivity: (input, next) => next({ ...input, headers: withDepth(input.headers) }),
        continueAsNew: (input, next) => next({ ...input, headers: withDepth(input.headers) }),
        startChildWorkflowExecution: (input, next) => next({ ...input, headers: withDepth(input.headers) }),
        scheduleLocalActivity: (input, next) => next({ ...input, headers: withDepth(input.headers) }),
      },
    ],
  }
}

/** The chain depth in the headers of a workflow or an activity; undefined if they have none. */
export function chainDepthOf(headers: Headers): number | undefined {
  const payload = headers[CHAIN_DEPTH_HEADER]
  return payload == null ? undefined : defaultPayloadConverter.fromPayload<number>(payload)
}
