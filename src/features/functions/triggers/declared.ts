/** The triggers that a configuration declares: a schedule, and topics of events. */

import { parseCron } from '../../../../flows-dsl/compile/cron.ts'
import { isTimezone } from '../../../../flows-dsl/compile/timezones.ts'
import { checkJson } from '../../../core/json.ts'
import { sentences } from '../../../core/sentences.ts'
import { isChangeTopic, isWorkspaceTopic, matchesAny, type StreamName } from '../../events/events.ts'
import { TOPIC_PATTERN } from '../../events/events-api.ts'
import { cronTimingFault } from '../../triggers/schedule-timing.ts'
import { FUNCTION_LIMITS } from '../limits.ts'

/** The spec of a schedule trigger, as it is configured. */
export interface ScheduleSpec {
  readonly cron: string
  readonly timezone?: string
  readonly input?: unknown
}

/** The members of a configuration that are about triggers. Absent ones do not change. */
export interface DeclaredTriggers {
  readonly schedule?: ScheduleSpec | null
  readonly triggers?: readonly { readonly topics: readonly string[] }[]
}

/** The spec of an event trigger. */
export interface EventSpec {
  /** Of all triggers of the configuration: an event starts one run, however many of them name its topic. */
  readonly topics: readonly string[]
  /** The streams whose events can match. */
  readonly streams: readonly StreamName[]
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

function scheduleErrors({ cron, timezone, input }: ScheduleSpec): ConfigError[] {
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

/** @returns undefined if there are none */
export function eventSpec(triggers: NonNullable<DeclaredTriggers['triggers']>): EventSpec | undefined {
  const topics = [...new Set(triggers.flatMap((one) => one.topics))]
  const changes = topics.filter(isWorkspaceTopic)
  if (topics.length === 0) return undefined
  const streams: StreamName[] = []
  if (changes.length < topics.length) streams.push('events')
  if (changes.length > 0) streams.push('changes')
  return { topics, streams }
}

/** True if the trigger starts runs for events of the topic. */
export const matchesTrigger = ({ topics }: EventSpec, topic: string): boolean => matchesAny(topics, topic)
