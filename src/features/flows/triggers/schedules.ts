/** Schedule triggers: each is one Temporal Schedule, which starts the workflow `flowTrigger`. */

import type { FlowIR, Schedule } from '../../../../flows-dsl/ir.ts'
import { workflowsOf } from '../../../access/scope-services.ts'
import type { FlowTriggerInput } from '../../../core/execution.ts'
import { uuidOf } from '../../../core/ids.ts'
import { Problem } from '../../../core/problem.ts'
import { type Json, QUEUES } from '../../../core/work.ts'
import type { Timing } from '../../../infra/temporal/schedules.ts'
import { CATCH_UP_MS, cronTiming, cronTimingFault } from '../../triggers/schedule-timing.ts'
import type { DeclaredTrigger, Trigger, TriggerKind } from './trigger.ts'

/** The spec of a schedule: when it starts executions, and how it treats overlapping ones. */
export interface ScheduleSpec {
  readonly cron?: string
  readonly every_ms?: number
  readonly after_ms?: number
  readonly timezone?: string
  readonly overlap: NonNullable<Schedule['overlap']>
  readonly catch_up_ms: number
  readonly jitter_ms?: number
}

const SECOND_MS = 1_000

export const scheduleTriggers: TriggerKind = {
  kind: 'schedule',
  declared: ({ schedule }: FlowIR) => (schedule === undefined ? [] : declaredSchedules(schedule)),
  external: {
    register: async (scope, trigger) => {
      const { id, flow_id, flow_name, paused, note } = trigger
      const spec = scheduleSpec(trigger)
      const input: FlowTriggerInput = { trigger_id: id, patience_ms: spec.catch_up_ms }
      await workflowsOf(scope).schedules.put({
        definition: 'flowTrigger',
        type: `${flow_name} (schedule)`,
        queue: QUEUES.flows,
        subject: flow_id,
        uuid: uuidOf(id),
        input,
        summary: `Schedule ${trigger.key} of flow ${flow_name}`,
        attributes: { FlowId: flow_id, FlowName: flow_name, TriggerKind: 'schedule' },
        timing: timingOf(spec),
        paused,
        note: note ?? '',
      })
    },
    unregister: (scope, { id, flow_id }) => workflowsOf(scope).schedules.remove(flow_id, uuidOf(id)),
  },
}

/** The spec of a schedule trigger. */
export const scheduleSpec = (trigger: Pick<Trigger, 'spec'>): ScheduleSpec =>
  trigger.spec as unknown as ScheduleSpec

/** @throws Problem `flow_invalid` for an expression that would miss times when the clocks change */
function declaredSchedules(schedule: Schedule): DeclaredTrigger[] {
  const { everyMs, cron = [], afterMs, timezone, overlap = 'skip', catchUpMs, jitterMs } = schedule
  const [detail] = cron.flatMap((line) => cronTimingFault(line, timezone) ?? [])
  if (detail !== undefined) throw new Problem('flow_invalid', { detail, hint: 'Correct `schedule.cron`.' })
  const usual = {
    catch_up_ms: catchUpMs ?? CATCH_UP_MS,
    ...(jitterMs !== undefined && { jitter_ms: jitterMs }),
  }
  const zone = timezone === undefined ? {} : { timezone }
  return [
    ...cron.map((line) => row(`cron:${line}`, { cron: line, overlap, ...zone, ...usual })),
    ...(everyMs === undefined ? [] : [row('every', { every_ms: everyMs, overlap, ...usual })]),
    ...(afterMs === undefined ? [] : [row('after', { after_ms: afterMs, overlap: 'buffer_one', ...usual })]),
  ]
}

const row = (key: string, spec: ScheduleSpec): DeclaredTrigger => ({ key, spec: spec as unknown as Json })

/**
 * `after` is implemented as an interval with an overlap policy of one buffered start: the workflow lasts as long as the
 * execution and the pause, and the buffered start follows when it ends.
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
