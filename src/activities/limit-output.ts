/** Limits the size of an activity's output, and sends heartbeats while an activity runs. */

import { heartbeat } from '@temporalio/activity'
import { CORE_LIMITS } from '../core/limits.ts'
import { Problem } from '../core/problem.ts'
import type { Json } from '../core/work.ts'
import { FUNCTION_LIMITS } from '../features/functions/limits.ts'

/** Returns the output of an operation as JSON. @throws Problem `output_too_large` above `stepOutputBytesMax` */
export function limitOutput(output: unknown): Json {
  const bytes = Buffer.byteLength(JSON.stringify(output) ?? '')
  if (bytes > CORE_LIMITS.outputBytesMax) {
    throw new Problem('output_too_large', {
      detail: `The output has ${bytes} bytes; the maximum is ${CORE_LIMITS.outputBytesMax}.`,
    })
  }
  return output as Json
}

/** Reports progress to Temporal while `work` lasts, so that a lost worker is noticed within seconds. */
export async function withHeartbeat<T>(work: Promise<T>): Promise<T> {
  const beat = setInterval(() => heartbeat(), FUNCTION_LIMITS.heartbeatMs / 5)
  try {
    return await work
  } finally {
    clearInterval(beat)
  }
}
