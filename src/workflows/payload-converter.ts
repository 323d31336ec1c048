/**
 * How values of the sealed room become payloads: as Temporal does it, but what is for operators, and what never leaves the
 * process, is marked so.
 */

import {
  defaultPayloadConverter,
  type PayloadConverter,
  RawValue,
  type SerializationContext,
} from '@temporalio/common'
import { MARK, type Mark } from '../core/payload-mark.ts'

/**
 * A line for operators, which the codec leaves as it is: never anything that a run was given or has made. The SDK
 * hands it to the converter below as it is.
 */
export function openly(text: string): string {
  return new RawValue(text) as unknown as string
}

export const payloadConverter: PayloadConverter = {
  toPayload: (value, context, hint) => {
    const payload = defaultPayloadConverter.toPayload(value, context, hint)
    const mark = markOf(value, context)
    if (mark === undefined) return payload
    return { ...payload, metadata: { ...payload.metadata, [MARK]: MARKS[mark] } }
  },
  fromPayload: (payload, context, hint) => defaultPayloadConverter.fromPayload(payload, context, hint),
}

const bytesOf = (mark: Mark) => new TextEncoder().encode(mark)
const MARKS = { open: bytesOf('open'), inside: bytesOf('inside') } as const

/**
 * No value of a flow is a RawValue: only lines for operators are, and what Temporal itself asks a workflow about its code. What a
 * workflow gives to a local activity its own worker takes: the history has what that answers, never what it was asked.
 */
function markOf(value: unknown, context: SerializationContext | undefined): keyof typeof MARKS | undefined {
  if (value instanceof RawValue) return 'open'
  return context?.type === 'activity' && context.isLocal ? 'inside' : undefined
}
