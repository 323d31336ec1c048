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
export function tooDeep(value: unknown): boolean {
  return depthOf(value, LIMITS.runInputDepthMax) > LIMITS.runInputDepthMax
}

/** Depth of a value, counted no further than one below the limit. */
function depthOf(value: unknown, limit: number): number {
  if (typeof value !== 'object' || value === null) return 0
  if (limit === 0) return 1
  let deepest = 0
  for (const member of Object.values(value)) deepest = Math.max(deepest, depthOf(member, limit - 1))
  return 1 + deepest
}
