/** Minimal workflows, which cost what Temporal itself costs. */

import { proxyActivities } from '@temporalio/workflow'

export interface BareActivities {
  answer(input: unknown): Promise<unknown>
}

const { answer } = proxyActivities<BareActivities>({ startToCloseTimeout: '10s' })

export async function bare(): Promise<void> {}

export async function bareCall(input: unknown): Promise<unknown> {
  return answer(input)
}
