/** The least that an invocation could be on Temporal: one workflow with one activity that answers at once. */

import { proxyActivities } from '@temporalio/workflow'

export interface BareActivities {
  answer(input: unknown): Promise<unknown>
}

const { answer } = proxyActivities<BareActivities>({ startToCloseTimeout: '10s' })

export async function bare(input: unknown): Promise<unknown> {
  return answer(input)
}
