/**
 * Converts values of workflows and arguments of activities to payloads: Temporal's default, with the marks that the codec
 * obeys and the purpose that each argument of durable work is bound to.
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
import {
  MARK,
  type Mark,
  PURPOSE,
  type Purpose,
  REJECTED,
  UNAUTHENTICATED,
  UNAUTHENTICATED_MESSAGE,
  WorkInput,
} from '../core/work.ts'

/**
 * A line for operators, which the codec leaves as it is: never anything that a run was given or has made. The SDK
 * hands it to the converter below as it is.
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
        ...(mark !== undefined && { [MARK]: MARKS[mark] }),
        ...(isInput && { [PURPOSE]: bytesOf(value.purpose) }),
      },
    }
  },
  /** @throws ApplicationFailure for a result or a detail that the platform has not sealed for its workflow */
  fromPayload: <T>(payload: Payload, context?: SerializationContext, hint?: unknown): T => {
    if (isRejected(payload)) return rejected(context) as T
    const purpose = textOf(payload, PURPOSE) as Purpose | undefined
    const value = defaultPayloadConverter.fromPayload<T>(payload, context, hint as never)
    return purpose === undefined ? value : (new WorkInput(purpose, value) as T)
  },
}

/** Lines for operators are not sealed; nothing that a workflow reads is one. */
const isRejected = (payload: Payload) =>
  textOf(payload, 'encoding') === REJECTED || textOf(payload, MARK) === ('open' satisfies Mark)

/** An interceptor refuses an argument, and so ends the work; a result has none that could. */
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
const MARKS = { open: bytesOf('open'), inside: bytesOf('inside') } as const

/**
 * No value of a flow is a RawValue: only lines for operators are, and what Temporal itself asks a workflow about its code. The
 * worker that runs a workflow takes the arguments of its local activities; histories have their results alone.
 */
function markOf(value: unknown, context: SerializationContext | undefined): keyof typeof MARKS | undefined {
  if (value instanceof RawValue) return 'open'
  return context?.type === 'activity' && context.isLocal && WorkInput.is(value) ? 'inside' : undefined
}
