/** Schedule triggers: each is one Temporal Schedule, which starts the workflow `scheduledStart`. */

import type { ScheduledStartInput, TargetRef } from '../../../core/execution.ts'
import { uuidOf } from '../../../core/ids.ts'
import { QUEUES } from '../../../core/work.ts'
import type { Scheduled, Timing } from '../../../infra/temporal/schedules.ts'
import { cronTiming } from './schedule-timing.ts'
import type { ScheduleSpec } from './trigger.ts'

/** A schedule as Temporal has to have it. */
export interface ScheduleRow {
  readonly id: string
  readonly kind: 'schedule'
  readonly key: string
  readonly spec: ScheduleSpec
  readonly paused: boolean
  readonly note: string | null
  /** The name of its target. */
  readonly name: string
}

const SECOND_MS = 1_000

/** The Temporal Schedule of a row. */
export function scheduled(target: TargetRef, { id, key, spec, paused, note, name }: ScheduleRow): Scheduled {
  const input: ScheduledStartInput = { trigger_id: id, target, patience_ms: spec.catch_up_ms }
  return {
    definition: 'scheduledStart',
    type: `${name} (schedule)`,
    queue: QUEUES.flows,
    subject: target.id,
    uuid: uuidOf(id),
    input,
    summary: `Schedule ${key} of ${target.kind} ${name}`,
    attributes: { FlowId: target.id, FlowName: name, TriggerKind: 'schedule' },
    timing: timingOf(spec),
    paused,
    note: note ?? '',
  }
}

/**
 * `after` is implemented as an interval with an overlap policy of one buffered start: the workflow lasts as long as the run and
 * the pause, and the buffered start follows when it ends.
 */
function timingOf(spec: ScheduleSpec): Timing {
  const { cron, every_ms, after_ms, timezone, overlap, catch_up_ms, jitter_ms } = spec
  const everyMs = every_ms ?? (after_ms === undefined ? undefined : Math.max(SECOND_MS, floor(after_ms)))
  return {
    ...(cron !== undefined && cronTiming(cron, timezone)),
    ...(everyMs !== undefined && { intervals: [{ everyMs }] }),
    ...(jitter_ms !== undefined && { jitterMs: jitter_ms }),
    overlap,
    catchUpMs: catch_up_ms,
  }
}

const floor = (ms: number): number => ms - (ms % SECOND_MS)
