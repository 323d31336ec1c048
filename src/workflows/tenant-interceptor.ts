/**
 * Interceptors of workflows: reject starts, signals and updates that the platform has not sealed for them, and seal what
 * workflows start, with the trace of the workflow.
 */

import { ApplicationFailure, defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common'
import { log, type WorkflowInterceptorsFactory, workflowInfo } from '@temporalio/workflow'
import { refOf } from '../core/tenant.ts'
import { type Trace, traceFrom, traceIdOf } from '../core/trace.ts'
import {
  authenticatedArguments,
  type Purpose,
  startedDefinition,
  traceOfArguments,
  UNAUTHENTICATED,
  UNAUTHENTICATED_MESSAGE,
  workArguments,
} from '../core/work.ts'
import { plaintext } from './payload-converter.ts'

export const interceptors: WorkflowInterceptorsFactory = () => {
  let trace: Trace | undefined
  return {
    inbound: [
      {
        // Asynchronous, so that a refusal fails the workflow; a synchronous error would only fail its task, again and again.
        execute: async (input, next) => {
          const args = startedDefinition(input.args)
          const { workflowId, firstExecutionRunId } = workflowInfo()
          if (refOf(workflowId) === undefined || args === undefined) throw unauthenticated()
          // What a schedule starts has no request.
          trace = traceOfArguments(input.args) ?? traceFrom(firstExecutionRunId)
          return next({ ...input, args })
        },
        // A signal has no response that could report the refusal.
        handleSignal: async (input, next) => {
          const args = authenticatedArguments(`signal:${input.signalName}`, input.args)
          if (args !== undefined) return next({ ...input, args })
          log.warn('unauthenticated signal ignored', { signal: input.signalName })
        },
        handleUpdate: async (input, next) =>
          next({ ...input, args: authenticated(`update:${input.name}`, input.args) }),
      },
    ],
    outbound: [
      {
        scheduleActivity: (input, next) => next(sealed(input, trace)),
        continueAsNew: (input, next) =>
          next({ ...input, args: workArguments(`start:${input.options.workflowType}`, input.args, trace) }),
        startChildWorkflowExecution: ({ options, ...input }, next) => {
          const args = workArguments(`start:${input.workflowType}`, options.args, trace)
          return next({
            ...input,
            options: { ...options, ...titleOf(options), ...tracedBy(trace, options), args },
          })
        },
        signalWorkflow: (input, next) =>
          next({ ...input, args: workArguments(`signal:${input.signalName}`, input.args, trace) }),
        scheduleLocalActivity: (input, next) => next(sealed(input, trace)),
        startTimer: ({ options, ...input }, next) =>
          next({ ...input, options: { ...options, ...summaryOf(options ?? {}) } }),
      },
    ],
  }
}

const REQUEST_IDS = defineSearchAttributeKey('RequestIds', 'KEYWORD_LIST')

/** The search attributes of a child, which belongs to the same request. */
function tracedBy(
  trace: Trace | undefined,
  { typedSearchAttributes }: { typedSearchAttributes?: unknown },
): { typedSearchAttributes?: TypedSearchAttributes } {
  if (trace === undefined || !(typedSearchAttributes instanceof TypedSearchAttributes)) return {}
  const value = [trace.requestId, traceIdOf(trace)]
  return { typedSearchAttributes: typedSearchAttributes.updateCopy([{ key: REQUEST_IDS, value }]) }
}

/** Seals the arguments of an activity for its type, and marks its summary as readable. */
function sealed<
  I extends { activityType: string; args: unknown[]; options: { summary?: string | undefined } },
>(input: I, trace: Trace | undefined): I {
  const options = { ...input.options, ...summaryOf(input.options) }
  return { ...input, options, args: workArguments(`activity:${input.activityType}`, input.args, trace) }
}

/** @throws ApplicationFailure if the platform has not created the arguments for this purpose */
function authenticated(purpose: Purpose, args: readonly unknown[]): unknown[] {
  const unwrapped = authenticatedArguments(purpose, args)
  if (unwrapped === undefined) throw unauthenticated()
  return unwrapped
}

const unauthenticated = () => ApplicationFailure.nonRetryable(UNAUTHENTICATED_MESSAGE, UNAUTHENTICATED)

/** Marks a summary as readable by operators: names of steps and flows are part of the definition, not data. */
function summaryOf({ summary }: { summary?: string | undefined }) {
  return summary === undefined ? {} : { summary: plaintext(summary) }
}

function titleOf({ staticSummary }: { staticSummary?: string | undefined }) {
  return staticSummary === undefined ? {} : { staticSummary: plaintext(staticSummary) }
}
