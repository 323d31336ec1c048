/** Starts by Temporal Schedules: when they were due, and what a suspension makes of them. */

import { ActivityFailure, ApplicationFailure, defineSearchAttributeKey } from '@temporalio/common'
import { proxyActivities, workflowInfo } from '@temporalio/workflow'
import type { Activities } from '../activities/contract.ts'
import { RETRIES } from './retries.ts'

const SCHEDULED = defineSearchAttributeKey('TemporalScheduledStartTime', 'DATETIME')

/** Activities that start what is due. They fail if that takes longer than the catch-up window of the schedule. */
export const startActivities = (patienceMs: number, summary: string): Activities =>
  proxyActivities<Activities>({
    startToCloseTimeout: '20s',
    scheduleToCloseTimeout: patienceMs,
    summary,
    retry: RETRIES.dueStart,
  }) as Activities

/** The time at which the schedule was due, from Temporal's search attribute. */
export function dueTime(): { due_at?: string } {
  const time = workflowInfo().typedSearchAttributes.get(SCHEDULED)
  return time === undefined ? {} : { due_at: time.toISOString() }
}

/** A suspended workspace starts nothing, and a resumed one does not catch up. */
export async function unlessSuspended<T>(start: () => Promise<T>): Promise<T | { skipped: string }> {
  try {
    return await start()
  } catch (error) {
    const cause = error instanceof ActivityFailure ? error.cause : undefined
    if (cause instanceof ApplicationFailure && cause.type === 'held') return { skipped: cause.message }
    throw error
  }
}
