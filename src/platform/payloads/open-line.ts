/** A line for operators on its way to Temporal: what no data is in, and the codec leaves as it is. */

import { defaultPayloadConverter, RawValue } from '@temporalio/common'
import { MARK, type Mark } from '../../core/payload-mark.ts'

const OPEN = Buffer.from('open' satisfies Mark)
const CHARS_MAX = 200

/** The SDK hands a summary to its converter as it is given, and that takes a payload for what it is. */
export function openLine(text: string): string {
  const payload = defaultPayloadConverter.toPayload(text.slice(0, CHARS_MAX))
  const marked = { ...payload, metadata: { ...payload.metadata, [MARK]: OPEN } }
  return RawValue.fromPayload(marked) as unknown as string
}
