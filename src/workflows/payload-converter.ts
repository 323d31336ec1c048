/**
 * Converts values of workflows and arguments of activities to payloads, as Temporal's default converter does, and adds marks
 * for the codec, and the purpose and the trace of each argument.
 */

import {
  ApplicationFailure,
  defaultPayloadConverter,
  type Payload,
  type PayloadConverter,
  RawValue,
  type SerializationContext,
} from '@temporalio/common'
import { inWorkflowContext, workflowInfo } from '@temporalio/workflow'
import { readTrace, traceText } from '../core/trace.ts'
import {
  PAYLOAD_MARK,
  type PayloadMark,
  PURPOSE,
  type Purpose,
  REJECTED,
  TRACE,
  UNAUTHENTICATED,
  UNAUTHENTICATED_MESSAGE,
  WorkInput,
} from '../core/work.ts'

/**
 * Wraps a line for operators, which the codec does not encrypt: it must not contain data of an execution. The SDK passes the
 * wrapped line to the converter below unchanged.
 */
export function plaintext(text: string): string {
  return new RawValue(text) as unknown as string
}

/** Converts in the sandbox of workflows, and the arguments of activities in the worker's main thread. */
export const payloadConverter: PayloadConverter = {
  toPayload: (value, context, hint) => {
    const isInput = WorkInput.is(value)
    const payload = defaultPayloadConverter.toPayload(isInput ? value.value : value, context, hint)
    const mark = markOf(value, context)
    return {
      ...payload,
      metadata: {
        ...payload.metadata,
        ...(mark !== undefined && { [PAYLOAD_MARK]: MARKS[mark] }),
        ...(isInput && { [PURPOSE]: bytesOf(value.purpose) }),
        ...(isInput && value.trace !== undefined && { [TRACE]: bytesOf(traceText(value.trace)) }),
      },
    }
  },
  /** @throws ApplicationFailure for a result or a failure detail that the platform has not sealed for its workflow */
  fromPayload: <T>(payload: Payload, context?: SerializationContext, hint?: unknown): T => {
    if (isRejected(payload)) return rejected(context) as T
    const purpose = textOf(payload, PURPOSE) as Purpose | undefined
    const value = defaultPayloadConverter.fromPayload<T>(payload, context, hint as never)
    if (purpose === undefined) return value
    return new WorkInput(purpose, value, readTrace(textOf(payload, TRACE))) as T
  },
}

/** Plaintext is rejected as well: lines for operators are never read by a workflow. */
const isRejected = (payload: Payload) =>
  textOf(payload, 'encoding') === REJECTED ||
  textOf(payload, PAYLOAD_MARK) === ('cleartext' satisfies PayloadMark)

/** Returns a marker for an argument, which an interceptor refuses. Results pass no such interceptor, so it throws for them. */
function rejected(context: SerializationContext | undefined): WorkInput {
  const isArgument = inWorkflowContext()
    ? context?.type === 'workflow' && context.workflowId === workflowInfo().workflowId
    : true
  if (isArgument) return new WorkInput(REJECTED, undefined)
  throw ApplicationFailure.nonRetryable(UNAUTHENTICATED_MESSAGE, UNAUTHENTICATED)
}

function textOf({ metadata }: Payload, name: string): string | undefined {
  const bytes = metadata?.[name]
  return bytes == null ? undefined : new TextDecoder().decode(bytes)
}

const bytesOf = (text: string) => new TextEncoder().encode(text)
const MARKS = { cleartext: bytesOf('cleartext'), local: bytesOf('local') } as const

/**
 * The mark of a value. Only lines for operators and results of Temporal's built-in queries are RawValues, never values of a
 * flow. Arguments of local activities stay in the worker: the history contains only the results.
 */
function markOf(value: unknown, context: SerializationContext | undefined): keyof typeof MARKS | undefined {
  if (value instanceof RawValue) return 'cleartext'
  return context?.type === 'activity' && context.isLocal && WorkInput.is(value) ? 'local' : undefined
}
