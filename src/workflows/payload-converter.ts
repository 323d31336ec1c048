/** How values of the sealed room become payloads: as Temporal does it, and what is for operators is marked as open. */

import { defaultPayloadConverter, type PayloadConverter, RawValue } from '@temporalio/common'
import { MARK, type Mark } from '../core/payload-mark.ts'

const OPEN = new TextEncoder().encode('open' satisfies Mark)

/**
 * A line for operators, which the codec leaves as it is: never anything that a run was given or has made. The SDK
 * hands it to the converter below as it is.
 */
export function openly(text: string): string {
  return new RawValue(text) as unknown as string
}

/** No value of a flow is a RawValue: only such lines are, and what Temporal itself asks a workflow about its code. */
export const payloadConverter: PayloadConverter = {
  toPayload: (value, context, hint) => {
    const payload = defaultPayloadConverter.toPayload(value, context, hint)
    if (!(value instanceof RawValue)) return payload
    return { ...payload, metadata: { ...payload.metadata, [MARK]: OPEN } }
  },
  fromPayload: (payload, context, hint) => defaultPayloadConverter.fromPayload(payload, context, hint),
}
