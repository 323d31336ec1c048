/** The triggers that the configuration of a function declares: a schedule, and topics of events. */

import { parseCron } from '../../../../flows-dsl/compile/cron.ts'
import { isTimezone } from '../../../../flows-dsl/compile/timezones.ts'
import { checkJson } from '../../../core/json.ts'
import { sentences } from '../../../core/text/sentences.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { isChangeTopic } from '../../events/events.ts'
import { TOPIC_PATTERN } from '../../events/events-api.ts'
import { streamsOf } from '../../runs/triggers/events.ts'
import { CATCH_UP_MS, cronTimingFault } from '../../runs/triggers/schedules.ts'
import type { DeclaredTrigger, TargetKind } from '../../runs/triggers/trigger.ts'
import type { Declaration } from '../../runs/triggers/trigger-store.ts'
import { FUNCTION_LIMITS } from '../limits.ts'

/** Functions as targets of triggers. */
export const FUNCTION: TargetKind = {
  kind: 'function',
  name: sql`(select f.name from functions f where f.tenant_id = t.tenant_id and f.workspace_id = t.workspace_id
    and f.id = t.target_id)`,
}

/** A schedule as it is configured. */
interface ConfiguredSchedule {
  readonly cron: string
  readonly timezone?: string
  readonly input?: unknown
}

/** The members of a configuration that are about triggers. Absent ones do not change. */
export interface DeclaredTriggers {
  readonly schedule?: ConfiguredSchedule | null
  readonly triggers?: readonly { readonly topics: readonly string[] }[]
}

const TOPIC = new RegExp(TOPIC_PATTERN)
const CHANGE_TOPIC = /^collections\.(\*|[^.]+\.(\*|created|updated|deleted))$/

/** An error of a configuration. @param path of the faulty member within it (RFC 6901) */
export interface ConfigError {
  readonly path: string
  readonly detail: string
}

/**
 * The errors of schedule and topics.
 * @throws Problem `body_too_large`, `validation_failed` for an input of a schedule that is too large or too deep
 */
export function triggerErrors({ schedule, triggers = [] }: DeclaredTriggers): ConfigError[] {
  const topics = triggers.flatMap((trigger, n) =>
    trigger.topics.flatMap((topic, m) => topicErrors(topic, `/triggers/${n}/topics/${m}`)),
  )
  return [...(schedule ? scheduleErrors(schedule) : []), ...topics]
}

function scheduleErrors({ cron, timezone, input }: ConfiguredSchedule): ConfigError[] {
  checkJson('schedule.input', input ?? {}, FUNCTION_LIMITS.triggers.scheduleInputBytesMax)
  const parsed = parseCron(cron)
  const diagnostics = 'diagnostics' in parsed ? parsed.diagnostics : []
  const errors = diagnostics.map(({ message, hint }) => ({
    path: '/schedule/cron',
    detail: sentences(message, hint),
  }))
  if (timezone === undefined || isTimezone(timezone)) {
    const detail = 'cron' in parsed ? cronTimingFault(parsed.cron, timezone) : undefined
    return [...errors, ...(detail === undefined ? [] : [{ path: '/schedule/cron', detail }])]
  }
  const detail = `\`${timezone}\` is not a time zone of the IANA database, such as \`Europe/Berlin\`.`
  return [...errors, { path: '/schedule/timezone', detail }]
}

function topicErrors(topic: string, path: string): ConfigError[] {
  if (TOPIC.test(topic) && (!isChangeTopic(topic) || CHANGE_TOPIC.test(topic))) return []
  const detail = isChangeTopic(topic)
    ? `\`${topic}\` names no changes: \`collections.<name>.created\`, \`.updated\`, \`.deleted\` or \`.*\` does.`
    : `\`${topic}\` is not a topic: words with dots between, or \`orders.*\` for all below one.`
  return [{ path, detail }]
}

/** The kinds of triggers that a change of the configuration is about, and those that it declares: at most one of each. */
export function declaredTriggers({
  schedule,
  triggers,
}: DeclaredTriggers): Pick<Declaration, 'kinds' | 'triggers'> {
  return {
    kinds: [
      ...(schedule === undefined ? [] : (['schedule'] as const)),
      ...(triggers === undefined ? [] : (['event'] as const)),
    ],
    triggers: [...(schedule ? [scheduleOf(schedule)] : []), ...eventsOf(triggers ?? [])],
  }
}

/** A due run starts even if others go on: the function's `concurrency` bounds them. */
function scheduleOf({ cron, ...more }: ConfiguredSchedule): DeclaredTrigger {
  const parsed = parseCron(cron)
  const line = 'cron' in parsed ? parsed.cron : cron
  const spec = { ...more, cron: line, overlap: 'allow_all', catch_up_ms: CATCH_UP_MS } as const
  return { kind: 'schedule', key: 'cron', spec }
}

/** One trigger for all topics: an event starts one run, however many of them name it. */
function eventsOf(triggers: NonNullable<DeclaredTriggers['triggers']>): DeclaredTrigger[] {
  const topics = [...new Set(triggers.flatMap((one) => one.topics))]
  return topics.length === 0
    ? []
    : [{ kind: 'event', key: 'topics', spec: { topics, streams: streamsOf(topics) } }]
}
