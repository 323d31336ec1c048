/** Knows how much an activity may answer. */

import { LIMITS } from '../core/limits.ts'
import { Problem } from '../core/problem.ts'
import type { Json } from '../core/work.ts'

/** What an operation gave, as JSON. @throws Problem `output_too_large` where Temporal would not carry it */
export function bounded(output: unknown): Json {
  const bytes = Buffer.byteLength(JSON.stringify(output) ?? '')
  if (bytes > LIMITS.stepOutputBytesMax) {
    throw new Problem('output_too_large', {
      detail: `It has ${bytes} bytes; ${LIMITS.stepOutputBytesMax} are carried.`,
    })
  }
  return output as Json
}
