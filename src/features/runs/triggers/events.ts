/** Events that fire triggers: their topics, the subjects behind them, and the input that they become. */

import { inputOf } from '../../../../flows-dsl/event-correlation.ts'
import type { JsonObject } from '../../../../flows-dsl/ir.ts'
import { fieldOf } from '../../../../flows-dsl/json.ts'
import { uuidOf } from '../../../core/ids.ts'
import type { Json } from '../../../core/work.ts'
import type { Entry } from '../../../infra/valkey/streams.ts'
import { CHAIN_DEPTH, isPlatformTopic, isWorkspaceTopic, matchesAny } from '../../events/events.ts'
import type { EventSpec } from './trigger.ts'

/**
 * The streams whose events can match. Only the platform publishes under the topics of the workspace's own stream.
 * @param topics absent: all but those of the platform
 */
export function streamsOf(topics: readonly string[] | undefined): EventSpec['streams'] {
  if (topics === undefined) return ['events', 'changes']
  const changes = topics.filter(isWorkspaceTopic)
  return [
    ...(changes.length < topics.length ? (['events'] as const) : []),
    ...(changes.length > 0 ? (['changes'] as const) : []),
  ]
}

/** A trigger that names no topics must not hear of the executions that it starts. */
export const acceptsTopic = ({ topics }: Pick<EventSpec, 'topics'>, topic: string): boolean =>
  topics === undefined ? !isPlatformTopic(topic) : matchesAny(topics, topic)

/** The input of the run that events start. */
export const inputOfEvents = ({ read }: EventSpec, events: readonly JsonObject[]): Json => {
  const visible = events.map(withoutCauses)
  return read === undefined ? ((visible[0] ?? null) as Json) : inputOf(visible, read)
}

/** The attributes that together identify an event (CloudEvents 1.0). */
export const eventIdentity = (event: JsonObject): readonly unknown[] => [
  fieldOf(event, 'source'),
  fieldOf(event, 'id'),
]

/** The attribute of an event that waits for others or starts a run: the subjects behind it. No subscriber gets it. */
const CAUSES = 'tenoncauses'

/** The event of an entry, with the subjects behind it. @throws SyntaxError */
export function withCauses(event: JsonObject, { causedBy }: Pick<Entry, 'causedBy'>): JsonObject {
  const causes = causedBy === undefined ? [] : (JSON.parse(causedBy) as string[])
  return causes.length === 0 ? event : { ...event, [CAUSES]: causes }
}

/** The subjects behind events, each once. */
export const causesOfEvents = (events: readonly JsonObject[]): readonly string[] => [
  ...new Set(events.flatMap((event) => (fieldOf(event, CAUSES) ?? []) as readonly string[])),
]

function withoutCauses(event: JsonObject): JsonObject {
  const { [CAUSES]: _causes, ...rest } = event
  return rest
}

/** The time of an event's id, milliseconds since the epoch. */
export function eventTime(event: JsonObject | undefined): number {
  const uuid = uuidOf(String(event?.['id'] ?? ''))
  return Number.parseInt(uuid.replaceAll('-', '').slice(0, 12), 16)
}

/** The highest chain depth of the events. */
export const chainDepth = (events: readonly JsonObject[]): number =>
  Math.max(0, ...events.map((event) => Number(fieldOf(event, CHAIN_DEPTH) ?? 0)))
