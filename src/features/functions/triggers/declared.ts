/** The triggers that a configuration declares: a schedule, and topics of events. */

import { parseCron } from '../../../../flows-dsl/compile/cron.ts'
import { isTimezone } from '../../../../flows-dsl/compile/timezones.ts'
import { checkJson } from '../../../core/json.ts'
import { LIMITS } from '../../../core/limits.ts'
import { isChangeTopic, isWorkspaceTopic, matchesTopic, type StreamName } from '../../events/events.ts'
import { TOPIC_PATTERN } from '../../events/events-api.ts'
import { bodyProblem } from '../../operation-helpers.ts'

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

/**
 * Checks schedule and topics.
 * @param pointer of the configuration in the body
 * @throws Problem `validation_failed`, `body_too_large`
 */
export function checkTriggers({ schedule, triggers = [] }: DeclaredTriggers, pointer: string): void {
  if (schedule) checkSchedule(schedule, `${pointer}/schedule`)
  for (const [n, { topics }] of triggers.entries())
    for (const [m, topic] of topics.entries()) checkTopic(topic, `${pointer}/triggers/${n}/topics/${m}`)
}

function checkSchedule({ cron, timezone, input }: ScheduleSpec, pointer: string): void {
  const parsed = parseCron(cron)
  if ('faults' in parsed) {
    const texts = parsed.faults.map(({ message, hint = '' }) => `${message} ${hint}`.trim())
    throw bodyProblem(`${pointer}/cron`, texts.join(' '), `schedule.cron: ${texts.join(' ')}`)
  }
  if (timezone !== undefined && !isTimezone(timezone)) {
    const detail = `\`${timezone}\` is no time zone of the IANA database, such as \`Europe/Berlin\`.`
    throw bodyProblem(`${pointer}/timezone`, detail, `schedule.timezone: ${detail}`)
  }
  checkJson('schedule.input', input ?? {}, LIMITS.functionTriggers.scheduleInputBytesMax)
}

function checkTopic(topic: string, pointer: string): void {
  if (TOPIC.test(topic) && (!isChangeTopic(topic) || CHANGE_TOPIC.test(topic))) return
  const detail = isChangeTopic(topic)
    ? `\`${topic}\` names no changes: \`collections.<name>.created\`, \`.updated\`, \`.deleted\` or \`.*\` does.`
    : `\`${topic}\` is no topic: words with dots between, or \`orders.*\` for all below one.`
  throw bodyProblem(pointer, detail, `triggers: ${detail}`)
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

export const hearsTopic = ({ topics }: EventSpec, topic: string): boolean =>
  topics.some((pattern) => matchesTopic(pattern, topic))
