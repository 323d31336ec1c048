/** Bounds the calls of the platform and the requests that the code of one attempt makes. */

import { Problem } from '../../core/problem.ts'
import { FUNCTION_LIMITS } from '../../features/functions/limits.ts'

/** @returns a function to be called before each of them, which throws Problem `quota_exceeded` beyond the maximum */
export function callCounter(): () => void {
  let calls = 0
  return () => {
    calls += 1
    if (calls <= FUNCTION_LIMITS.callsMax) return
    throw new Problem('quota_exceeded', {
      detail: `A run can make at most ${FUNCTION_LIMITS.callsMax} calls and requests.`,
    })
  }
}
