/** Carries the chain depth, the number of executions that led to this one by events, to everything that it starts. */

import { defaultPayloadConverter, type Headers } from '@temporalio/common'
import type { WorkflowInterceptorsFactory } from '@temporalio/workflow'
import { CHAIN_DEPTH_HEADER, type FlowRunInput } from '../core/run.ts'

export const interceptors: WorkflowInterceptorsFactory = () => {
  let hops = 0
  const carried = (headers: Headers): Headers =>
    hops === 0 ? headers : { ...headers, [CHAIN_DEPTH_HEADER]: defaultPayloadConverter.toPayload(hops) }
  return {
    inbound: [
      {
        execute: async (input, next) => {
          const [first] = input.args as readonly Partial<FlowRunInput>[]
          // A run that an event began says it itself; one that another run began has it from there.
          hops = chainDepthOf(input.headers) ?? first?.trigger?.chain_depth ?? 0
          return next(input)
        },
      },
    ],
    outbound: [
      {
        scheduleActivity: (input, next) => next({ ...input, headers: carried(input.headers) }),
        continueAsNew: (input, next) => next({ ...input, headers: carried(input.headers) }),
        startChildWorkflowExecution: (input, next) => next({ ...input, headers: carried(input.headers) }),
        scheduleLocalActivity: (input, next) => next({ ...input, headers: carried(input.headers) }),
      },
    ],
  }
}

/** Returns the hops that the headers of a workflow or an activity say; undefined if they say none. */
export function chainDepthOf(headers: Headers): number | undefined {
  const payload = headers[CHAIN_DEPTH_HEADER]
  return payload == null ? undefined : defaultPayloadConverter.fromPayload<number>(payload)
}
