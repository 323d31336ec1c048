/** Values that the client of Temporal sends as ready-made payloads: a line for operators, and an argument with its purpose. */

import { defaultPayloadConverter, RawValue } from '@temporalio/common'
import { MARK, type Mark, PURPOSE, type Purpose } from '../../core/work-input.ts'

const OPEN = Buffer.from('open' satisfies Mark)
const CHARS_MAX = 200

/**
 * A summary that operators read and that contains no data: the codec leaves it as it is.
 * @param text is cut to 200 characters
 */
export function openLine(text: string): string {
  return rawValue(text.slice(0, CHARS_MAX), MARK, OPEN) as unknown as string
}

/**
 * The one argument of a workflow, a signal or an update. The codec seals the purpose with the value; the interceptors in
 * workflows/door.ts compare it.
 */
export function sealedFor(purpose: Purpose, value: unknown): [unknown] {
  return [rawValue(value, PURPOSE, Buffer.from(purpose))]
}

function rawValue(value: unknown, name: string, text: Buffer): RawValue {
  const payload = defaultPayloadConverter.toPayload(value)
  return RawValue.fromPayload({ ...payload, metadata: { ...payload.metadata, [name]: text } })
}
