/** Limits the output of activities, and sends heartbeats while they last. */

import { heartbeat } from '@temporalio/activity'
import { LIMITS } from '../core/limits.ts'
import { Problem } from '../core/problem.ts'
import type { Json } from '../core/work.ts'

/** What an operation gave, as JSON. @throws Problem `output_too_large` where Temporal would not carry it */
export function limitOutput(output: unknown): Json {
  const bytes = Buffer.byteLength(JSON.stringify(output) ?? '')
  if (bytes > LIMITS.stepOutputBytesMax) {
    throw new Problem('output_too_large', {
      detail: `It has ${bytes} bytes; ${LIMITS.stepOutputBytesMax} are carried.`,
    })
  }
  return output as Json
}

export async function withHeartbeat<T>(work: Promise<T>): Promise<T> {
  const beat = setInterval(() => heartbeat(), LIMITS.functionHeartbeatMs / 5)
  try {
    return await work
  } finally {
    clearInterval(beat)
  }
}
