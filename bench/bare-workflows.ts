/** Minimal workflows, which cost what Temporal itself costs. */

import { proxyActivities, proxyLocalActivities } from '@temporalio/workflow'

export interface BareActivities {
  answer(input: unknown): Promise<unknown>
  /** Answers after 10 ms. */
  answerLater(input: unknown): Promise<unknown>
}

const { answer } = proxyActivities<BareActivities>({ startToCloseTimeout: '10s' })

export async function bare(): Promise<void> {}

export async function bareCall(input: unknown): Promise<unknown> {
  return answer(input)
}

const local = proxyLocalActivities<BareActivities>({ startToCloseTimeout: '10s' })

export async function bareLocalCall(input: unknown): Promise<unknown> {
  return local.answer(input)
}

export async function bareLaterCall(input: unknown): Promise<unknown> {
  return local.answerLater(input)
}

/** As many activities as the creation of a workspace has. */
export async function bareSteps(input: unknown): Promise<unknown> {
  await answer(input)
  return answer(input)
}
