/** The reason why an activity of a collection has failed for good. */

import { type ActivityFailure, ApplicationFailure } from '@temporalio/workflow'
import type { Json, WorkFailure } from '../../core/work.ts'

/** @param lost the reason of a failure that the activity itself has not raised */
export function workFailureOf({ cause }: ActivityFailure, lost: string): WorkFailure {
  if (!(cause instanceof ApplicationFailure)) return { code: 'run_cut_off', detail: lost }
  const members = cause.details?.[1] as { [name: string]: Json } | undefined
  return { ...members, code: cause.type ?? 'internal', detail: cause.message }
}
