/** Bounds the calls of the platform and the requests that the code of one attempt makes. */

import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'

/** @returns a function to be called before each of them, which throws Problem `quota_exceeded` beyond the maximum */
export function callCounter(): () => void {
  let calls = 0
  return () => {
    calls += 1
    if (calls <= LIMITS.functionCallsMax) return
    throw new Problem('quota_exceeded', {
      detail: `A run can make at most ${LIMITS.functionCallsMax} calls and requests.`,
    })
  }
}
