/** Bounds of JSON values that travel through Temporal or the stream: bytes and depth, checked before anything is written. */

import { LIMITS } from './limits.ts'
import { Problem } from './problem.ts'

/**
 * Refuses a value that nobody would carry, or could walk. Its bytes are counted as they travel, not as
 * they came: `1e20` in a request is 21 digits on.
 * @param name the input field, for the text
 * @throws Problem `validation_failed` for the depth, `body_too_large` for the size
 */
export function checkJson(name: string, value: unknown, bytesMax: number): void {
  if (tooDeep(value)) {
    throw new Problem('validation_failed', {
      detail: `${name} is nested deeper than ${LIMITS.runInputDepthMax}.`,
    })
  }
  const bytes = Buffer.byteLength(JSON.stringify(value))
  if (bytes > bytesMax) {
    throw new Problem('body_too_large', {
      detail: `${name} has ${bytes} bytes; at most ${bytesMax} are taken.`,
    })
  }
}

/** Whether a value is nested deeper than a run takes. */
export const tooDeep = (value: unknown): boolean => deeper(value, LIMITS.runInputDepthMax)

/** Whether a value is nested deeper than `limit`; the walk itself goes no deeper than that. */
export function deeper(value: unknown, limit: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (limit === 0) return true
  return Object.values(value).some((member) => deeper(member, limit - 1))
}
