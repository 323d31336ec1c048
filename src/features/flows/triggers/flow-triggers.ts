/** The triggers of flows: what a compiled flow declares, and their rows. */

import type { FlowIR, Schedule } from '../../../../flows-dsl/ir.ts'
import { typesOf } from '../../../../flows-dsl/tasks/listen.ts'
import type { TriggerKind } from '../../../core/execution.ts'
import { Problem } from '../../../core/problem.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { streamsOf } from '../../runs/triggers/events.ts'
import { CATCH_UP_MS, cronTimingFault } from '../../runs/triggers/schedules.ts'
import type { DeclaredTrigger, ScheduleSpec, TargetKind } from '../../runs/triggers/trigger.ts'
import type { Declaration } from '../../runs/triggers/trigger-store.ts'

/** Flows as targets of triggers. */
export const FLOW: TargetKind = {
  kind: 'flow',
  name: sql`(select f.name from flows f where f.tenant_id = t.tenant_id and f.workspace_id = t.workspace_id
    and f.id = t.target_id)`,
}

/** A row of a trigger with its flow, of which {@link TRIGGER_COLUMNS} are the columns. */
export interface TriggerRow {
  readonly id: string
  readonly flow_id: string
  readonly flow_name: string
  readonly kind: TriggerKind
  readonly key: string
  readonly spec: unknown
  readonly version: number
  readonly paused: boolean
  readonly note: string | null
  readonly created_at: string
  readonly updated_at: string
}

/** Columns of `triggers t` joined with its flow `f`. */
export const TRIGGER_COLUMNS = sql`t.id, t.target_id as flow_id, f.name as flow_name, t.kind, t.key, t.spec, t.version, t.paused,
  t.note, t.created_at, t.updated_at`
export const TRIGGERS = sql`triggers t join flows f on t.target_kind = ${FLOW.kind}
  and f.tenant_id = t.tenant_id and f.workspace_id = t.workspace_id and f.id = t.target_id`

/** All triggers that a flow declares; none, for one that is deleted. */
export const declarationOf = (flowId: string, triggers: readonly DeclaredTrigger[] = []): Declaration => ({
  of: FLOW,
  id: flowId,
  target: sql`select tenant_id, workspace_id, id, latest_version as version from flows
    where id = ${flowId} and deleted_at is null`,
  kinds: ['schedule', 'webhook', 'event'],
  triggers,
})

/**
 * The triggers that a compiled flow declares, without duplicates.
 * @throws Problem `flow_invalid` for an expression that would miss times when the clocks change
 */
export function declaredTriggers({ schedule }: FlowIR): DeclaredTrigger[] {
  if (schedule === undefined) return []
  const all = [...declaredSchedules(schedule), ...declaredWebhooks(schedule), ...declaredEvents(schedule)]
  return all.filter(({ key }, index) => all.findIndex((one) => one.key === key) === index)
}

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
    ...cron.map((line) => scheduleOf(`cron:${line}`, { cron: line, overlap, ...zone, ...usual })),
    ...(everyMs === undefined ? [] : [scheduleOf('every', { every_ms: everyMs, overlap, ...usual })]),
    ...(afterMs === undefined
      ? []
      : [scheduleOf('after', { after_ms: afterMs, overlap: 'buffer_one', ...usual })]),
  ]
}

const scheduleOf = (key: string, spec: ScheduleSpec): DeclaredTrigger => ({ kind: 'schedule', key, spec })

const WEBHOOK = 'webhook:'

const declaredWebhooks = ({ webhooks = [] }: Schedule): DeclaredTrigger[] =>
  webhooks.map(({ name, headers = [], ...spec }) => ({
    kind: 'webhook',
    key: `${WEBHOOK}${name}`,
    spec: { headers: [...headers], ...spec },
  }))

/** The name of a webhook in its flow. */
export const webhookName = (key: string): string => key.slice(WEBHOOK.length)

function declaredEvents({ on, read = 'data' }: Schedule): DeclaredTrigger[] {
  if (on === undefined) return []
  const topics = typesOf({ to: on })
  const spec = { on, read, streams: streamsOf(topics), ...(topics !== undefined && { topics }) }
  return [{ kind: 'event', key: 'on', spec }]
}
