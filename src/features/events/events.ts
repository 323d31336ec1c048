/** Publishes and subscribes to a tenant's events and a workspace's document changes. */

import Type, { type Static } from 'typebox'
import { Time } from '../../access/operation-builders.ts'
import { privilege } from '../../access/privileges.ts'
import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import { type Feed, frame } from '../../core/bytes.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../core/components/examples.ts'
import { withSince } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import type { TenantRef, WorkspaceRef } from '../../core/tenant.ts'
import { TRACEPARENT, type Trace } from '../../core/trace.ts'
import {
  changesOf,
  type Entry,
  eventsOf,
  type Listener,
  type Renaming,
  type StreamKey,
  type Streams,
} from '../../infra/valkey/streams.ts'
import {
  type EventFilter,
  EventSender,
  gapFrame,
  type Start,
  SUBSCRIPTION_EVENTS,
  UNKNOWN,
} from './event-sender.ts'

const streamsOf = privilege('events.streams')

/** The events of the tenant, and the workspace's own changes. */
export function eventsIn(scope: WorkspaceScope): Events {
  return new Events(scope.ref, streamsOf(scope))
}

/** The last ids of both streams of a workspace. @throws Problem `dependency_unavailable`; `not_found` if the admin may not access it */
export function lastIdsIn(scope: AdminScope, ref: WorkspaceRef): ReturnType<Events['lastIds']> {
  if (!scope.reaches(ref)) throw notFound('workspace')
  return new Events(ref, streamsOf(scope)).lastIds()
}

/** The keys of a tenant or a workspace in Valkey, which its purge counts and removes. @throws Problem `not_found` */
export function ownedKeys(scope: AdminScope, ref: TenantRef): ReturnType<Streams['ownedKeys']> {
  if (!scope.reaches(ref)) throw notFound('workspace')
  return streamsOf(scope).ownedKeys(ref)
}

/**
 * Replaces a person in all events that are kept of the tenant and of a workspace's changes. Positions stay.
 * @throws Problem `dependency_unavailable`; `not_found` if the admin may not access it
 */
export async function renameInEvents(scope: AdminScope, ref: WorkspaceRef, person: Renaming): Promise<void> {
  if (!scope.reaches(ref)) throw notFound('workspace')
  for (const key of [changesOf(ref), eventsOf(ref.tenantId)]) await streamsOf(scope).rename(key, person)
}

export { SUBSCRIPTION_EVENTS } from './event-sender.ts'

/** The tenant's stream of published events, and the workspace's stream of document changes. */
export const STREAMS = ['events', 'changes'] as const
export type StreamName = (typeof STREAMS)[number]

/** CloudEvents 1.0, JSON format. */
export const CloudEvent = component(
  'CloudEvent',
  Type.Object({
    specversion: Type.Literal('1.0'),
    id: Type.String(),
    source: Type.String(),
    type: Type.String(),
    topic: Type.String({ description: 'The same as `type`, under the name that it was published by.' }),
    time: Time,
    datacontenttype: Type.Literal('application/json'),
    tenonchaindepth: Type.Optional(
      Type.Integer({
        description:
          'Chain depth: number of executions that started each other by events before this event; absent for 0.',
      }),
    ),
    traceparent: Type.Optional(
      Type.String({
        description: 'Trace of the work that has published the event (CloudEvents, "Distributed Tracing").',
      }),
    ),
    data: Type.Unknown(),
  }),
  {
    specversion: '1.0',
    id: EXAMPLE_ID.event,
    source: `/workspaces/${EXAMPLE_ID.workspace}`,
    type: 'courts.closed',
    topic: 'courts.closed',
    time: EXAMPLE_TIME.created,
    datacontenttype: 'application/json',
    data: { court_id: EXAMPLE_ID.court },
  },
)
export type CloudEvent = Readonly<Static<typeof CloudEvent>>

/** The events of a subscription to topics. */
export const TOPIC_EVENTS = { ...SUBSCRIPTION_EVENTS, message: CloudEvent }

export interface Subscription {
  readonly topics: readonly string[]
  /** Only what this workspace published. */
  readonly ownWorkspace: boolean
  /** Cursor of the last event that the client has seen; later events are sent first. */
  readonly after?: string
  /** Restricts the events that the subscriber may receive. */
  readonly filter?: EventFilter
  /** Called when events between those that the filter has decided about were dropped. */
  readonly onGap?: () => void
}

/**
 * The cursor of a subscription is a position in a stream: the id of an entry, or a time. If its topics are in both streams, it is that of the tenant's, a
 * comma, and that of the workspace's.
 */
export const CURSOR = '^[0-9]{1,15}-[0-9]{1,10}(,[0-9]{1,15}-[0-9]{1,10})?$'

/** True for topics of document changes, which only the platform publishes. */
export const isChangeTopic = (topic: string): boolean => /^collections(\.|$)/.test(topic)

/** True for topics of changes of objects, which only the platform publishes. */
export const isObjectTopic = (topic: string): boolean => /^objects(\.|$)/.test(topic)

/** True for topics of the workspace's own stream: changes of documents and objects, and events of the platform. */
export const isWorkspaceTopic = (topic: string): boolean =>
  isChangeTopic(topic) || isObjectTopic(topic) || isPlatformTopic(topic)

/** True for topics of events that the platform itself emits, such as the end of an execution. */
export const isPlatformTopic = (topic: string): boolean => /^platform(\.|$)/.test(topic)

/** The attribute of an event that has its chain depth. */
export const CHAIN_DEPTH = 'tenonchaindepth'

/** Builds a CloudEvent. */
export function cloudEvent(
  of: Pick<CloudEvent, 'id' | 'source' | 'topic' | 'time' | 'data'> & {
    readonly chainDepth?: number | undefined
    readonly trace?: Trace | undefined
  },
): CloudEvent {
  const { id, source, topic, time, data, chainDepth = 0, trace } = of
  return {
    specversion: '1.0',
    id,
    source,
    type: topic,
    topic,
    time,
    datacontenttype: 'application/json',
    ...(chainDepth > 0 && { [CHAIN_DEPTH]: chainDepth }),
    ...(trace !== undefined && { [TRACEPARENT]: trace.traceparent }),
    data,
  }
}

export const sourceOf = (workspaceId: string): string => `/workspaces/${workspaceId}`

export class Events {
  readonly #ref: WorkspaceRef
  readonly #streams: Streams

  constructor(ref: WorkspaceRef, streams: Streams) {
    this.#ref = ref
    this.#streams = streams
  }

  get source(): string {
    return sourceOf(this.#ref.workspaceId)
  }

  /** The last ids of both streams. @throws Problem `dependency_unavailable` */
  async lastIds(): Promise<{ events: string; changes: string }> {
    const [events, changes] = await Promise.all([
      this.#streams.lastId(eventsOf(this.#ref.tenantId)),
      this.#streams.lastId(changesOf(this.#ref)),
    ])
    return { events, changes }
  }

  /** Entries of a stream after one of its ids, as {@link Streams.following}. @throws Problem `dependency_unavailable` */
  following(stream: StreamName, after: string): ReturnType<Streams['following']> {
    return this.#streams.following(this.#keyOf(stream), after)
  }

  /** Calls the listener for each entry of a stream, as {@link Streams.listen}. @throws Problem `dependency_unavailable` */
  listen(stream: StreamName, listener: Listener): ReturnType<Streams['listen']> {
    return this.#streams.listen(this.#keyOf(stream), listener)
  }

  /** The position of the workspace's changes now: those that are committed later follow it. @throws Problem `dependency_unavailable` */
  async position(): Promise<string> {
    return (await this.#streams.locate(changesOf(this.#ref))).now
  }

  #keyOf(stream: StreamName): StreamKey {
    return stream === 'events' ? eventsOf(this.#ref.tenantId) : changesOf(this.#ref)
  }

  /** @param causes the subjects that have caused the event; subscribers do not receive them */
  async publish(event: CloudEvent, causes: readonly string[]): Promise<void> {
    const { type: topic, source } = event
    const message = {
      topic,
      source,
      text: JSON.stringify(event),
      causedBy: JSON.stringify(withSince(causes, Date.now())),
    }
    await this.#streams.publish(eventsOf(this.#ref.tenantId), message)
  }

  /**
   * The feed of some topics. It listens before it reads past events, so that it misses none. A cursor that it cannot continue
   * from makes it begin with `gap`.
   * @throws Problem `dependency_unavailable`
   */
  async subscribe({ topics, ownWorkspace, after = '', filter, onGap }: Subscription): Promise<Feed> {
    const parts = [
      { key: eventsOf(this.#ref.tenantId), topics: topics.filter((topic) => !isWorkspaceTopic(topic)) },
      { key: changesOf(this.#ref), topics: topics.filter(isWorkspaceTopic) },
    ].filter((part) => part.topics.length > 0)
    const starts = startsOf(after, parts.length)
    const senders: EventSender[] = []
    // The positions in both streams, so that a client that reconnects misses nothing of either.
    const cursor = () => senders.map(({ position }) => position).join(',')
    const frameOf =
      parts.length === 1
        ? (entry: Entry) => entry.frame
        : (entry: Entry) => `id: ${cursor()}${entry.frame.slice(entry.frame.indexOf('\n'))}`
    const stop = () => {
      for (const sender of senders) sender.stop()
    }
    try {
      for (const [index, part] of parts.entries()) {
        const acceptsTopic = (topic: string) => matchesAny(part.topics, topic)
        const accepts: EventFilter = (entry) =>
          acceptsTopic(entry.topic) &&
          (!ownWorkspace || entry.source === this.source) &&
          (filter === undefined || filter(entry))
        const selection = { accepts, acceptsTopic, frameOf, cursor, onGap }
        senders.push(await EventSender.listen(this.#streams, part.key, selection, starts[index]))
      }
    } catch (error) {
      stop()
      throw error
    }
    return {
      open: (sink) => {
        const hasGap = senders.some((sender) => sender.startsWithGap)
        const gap = hasGap ? gapFrame(after, senders.map(({ earliest }) => earliest).join(',')) : ''
        const ready = { topic: topics.join(','), cursor: cursor() }
        sink.send(
          `retry: 3000\n${gap}${frame<typeof SUBSCRIPTION_EVENTS>({ event: 'ready', id: cursor(), data: ready })}`,
        )
        for (const sender of senders) void sender.send(sink).catch((error: unknown) => sink.end(endOf(error)))
        return stop
      },
      position: async () => {
        await Promise.all(senders.map((sender) => sender.advance()))
        return cursor()
      },
    }
  }
}

/** The code that a stream ends with. A failure of a server is no refusal. */
const endOf = (error: unknown): string =>
  error instanceof Problem && error.status < 500 ? error.code : 'unavailable'

const IS_CURSOR = new RegExp(CURSOR)

/** The start in each stream; undefined: now. A cursor of another form, or for another number of streams, is in none of them. */
function startsOf(after: string, streams: number): readonly Start[] {
  if (after === '') return []
  const ids = IS_CURSOR.test(after) ? after.split(',') : []
  return ids.length === streams ? ids : Array.from({ length: streams }, () => UNKNOWN)
}

/** True if a topic matches one of the patterns: `orders.created` matches itself, `orders.*` every topic below `orders`. */
export const matchesAny = (patterns: readonly string[], topic: string): boolean =>
  patterns.some((pattern) =>
    pattern.endsWith('.*') ? topic.startsWith(pattern.slice(0, -1)) : topic === pattern,
  )
