/** Publishes and subscribes to a tenant's events and a workspace's document changes. */

import { internalsOf } from '../../access/internals.ts'
import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import { type Feed, type FeedSink, frame } from '../../core/bytes.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { isBefore } from '../../core/run.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import {
  changesOf,
  type Entry,
  eventsOf,
  type Listener,
  START,
  type StreamKey,
  type Streams,
} from '../../infra/valkey/streams.ts'

/** The events of the tenant, and the workspace's own changes. */
export function eventsIn(scope: WorkspaceScope): Events {
  return new Events(scope.ref, internalsOf(scope).services.streams)
}

/** The last ids of both streams of a workspace. @throws Problem `dependency_unavailable`; `not_found` if the admin may not access it */
export function lastIdsIn(scope: AdminScope, ref: WorkspaceRef): ReturnType<Events['lastIds']> {
  if (!scope.reaches(ref)) throw notFound('workspace')
  return new Events(ref, internalsOf(scope).services.streams).lastIds()
}

/** The tenant's stream of published events, and the workspace's stream of document changes. */
export const STREAMS = ['events', 'changes'] as const
export type StreamName = (typeof STREAMS)[number]

/** CloudEvents 1.0, JSON format. */
export interface CloudEvent {
  readonly specversion: '1.0'
  readonly id: string
  readonly source: string
  readonly type: string
  /** The same as `type`, under the name that it was published by. */
  readonly topic: string
  readonly time: string
  readonly datacontenttype: 'application/json'
  /** Chain depth: how many executions started each other by events before this event; absent for 0. */
  readonly tenonchaindepth?: number
  readonly data: unknown
}

export interface Subscription {
  readonly topics: readonly string[]
  /** Only what this workspace published. */
  readonly ownWorkspace: boolean
  /** Cursor of the last event that the client has seen; later events are sent first. */
  readonly after?: string
  /** Restricts the events that the subscriber may receive. */
  readonly filter?: EventFilter
}

/**
 * The cursor of a subscription is the id of an entry. If its topics are in both streams, it is that of the tenant's, a
 * comma, and that of the workspace's.
 */
export const CURSOR = '^[0-9]{1,15}-[0-9]{1,10}(,[0-9]{1,15}-[0-9]{1,10})?$'

/** True if an event may be sent now; a promise if that takes a query. */
export type EventFilter = (entry: Entry) => boolean | Promise<boolean>

/** True for topics of document changes, which only the platform publishes. */
export const isChangeTopic = (topic: string): boolean => /^collections(\.|$)/.test(topic)

/** True for topics of the workspace's own stream: document changes, and events of the platform. */
export const isWorkspaceTopic = (topic: string): boolean => isChangeTopic(topic) || isPlatformTopic(topic)

/** True for topics of events that the platform itself emits, such as the end of an execution. */
export const isPlatformTopic = (topic: string): boolean => /^platform(\.|$)/.test(topic)

/** The attribute of an event that has its chain depth. */
export const CHAIN_DEPTH = 'tenonchaindepth'

/** Builds a CloudEvent. */
export function cloudEvent(
  of: Pick<CloudEvent, 'id' | 'source' | 'topic' | 'time' | 'data'> & {
    readonly chainDepth?: number | undefined
  },
): CloudEvent {
  const { id, source, topic, time, data, chainDepth = 0 } = of
  return {
    specversion: '1.0',
    id,
    source,
    type: topic,
    topic,
    time,
    datacontenttype: 'application/json',
    ...(chainDepth > 0 && { [CHAIN_DEPTH]: chainDepth }),
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

  #keyOf(stream: StreamName): StreamKey {
    return stream === 'events' ? eventsOf(this.#ref.tenantId) : changesOf(this.#ref)
  }

  async publish(event: CloudEvent): Promise<void> {
    const { type: topic, source } = event
    await this.#streams.publish(eventsOf(this.#ref.tenantId), { topic, source, text: JSON.stringify(event) })
  }

  /**
   * The feed of some topics. It listens before it reads past events, so that it misses none.
   * @throws Problem `validation_failed` for the cursor of other topics, `dependency_unavailable`
   */
  async subscribe({ topics, ownWorkspace, after, filter }: Subscription): Promise<Feed> {
    const [changes, events] = [
      topics.filter(isWorkspaceTopic),
      topics.filter((topic) => !isWorkspaceTopic(topic)),
    ]
    const parts = [
      { key: eventsOf(this.#ref.tenantId), topics: events },
      { key: changesOf(this.#ref), topics: changes },
    ].filter((part) => part.topics.length > 0)
    const starts = after?.split(',') ?? []
    if (after !== undefined && starts.length !== parts.length) throw foreignCursor()
    const senders: EventSender[] = []
    // Both ids, so that a client that reconnects misses nothing of either stream.
    const cursor = () => senders.map(({ last }) => last).join(',')
    const frameOf =
      parts.length === 1
        ? (entry: Entry) => entry.frame
        : (entry: Entry) => `id: ${cursor()}${entry.frame.slice(entry.frame.indexOf('\n'))}`
    const stop = () => {
      for (const sender of senders) sender.stop()
    }
    try {
      for (const part of parts) {
        const accepts: EventFilter = (entry) =>
          part.topics.some((topic) => matchesTopic(topic, entry.topic)) &&
          (!ownWorkspace || entry.source === this.source) &&
          (filter === undefined || filter(entry))
        const start = starts[senders.length]
        senders.push(await EventSender.listen(this.#streams, part.key, { accepts, frameOf }, start))
      }
    } catch (error) {
      stop()
      throw error
    }
    return {
      open: (sink) => {
        sink.send(
          `retry: 3000\n${frame({ event: 'ready', data: { topic: topics.join(','), cursor: cursor() } })}`,
        )
        for (const sender of senders) void sender.send(sink).catch(() => sink.end('unavailable'))
        return stop
      },
    }
  }
}

function foreignCursor(): Problem {
  const error = { in: 'header', name: 'last-event-id', pointer: '', detail: 'is of other topics' } as const
  return new Problem('validation_failed', {
    detail: 'Last-Event-ID is of a subscription to other topics.',
    errors: [error],
  })
}

interface Selection {
  readonly accepts: EventFilter
  /** The text that is sent for an entry. */
  readonly frameOf: (entry: Entry) => string
}

/** Sends events of one stream to a subscriber: past ones, then live ones until the client falls behind. */
class EventSender {
  readonly #streams: Streams
  readonly #key: StreamKey
  readonly #selection: Selection
  #newest = START
  #last = START
  #stopped = false
  #stopListening = () => {}
  /** Receives live entries once the past is sent. */
  #deliver: ((entry: Entry) => void) | undefined

  private constructor(streams: Streams, key: StreamKey, selection: Selection) {
    this.#streams = streams
    this.#key = key
    this.#selection = selection
  }

  /** @param after id of the last entry that the client has seen; default: the newest */
  static async listen(
    streams: Streams,
    key: StreamKey,
    selection: Selection,
    after: string | undefined,
  ): Promise<EventSender> {
    const sender = new EventSender(streams, key, selection)
    const listening = await streams.listen(key, (entry) => sender.#receive(entry))
    sender.#stopListening = listening.stop
    sender.#last = after ?? listening.after
    if (isBefore(sender.#newest, listening.after)) sender.#newest = listening.after
    return sender
  }

  /** Id of the last entry that was sent or skipped. */
  get last(): string {
    return this.#last
  }

  stop(): void {
    this.#stopped = true
    this.#stopListening()
  }

  #receive(entry: Entry): void {
    this.#newest = entry.id
    this.#deliver?.(entry)
  }

  async send(sink: FeedSink): Promise<void> {
    while (!this.#stopped) {
      await this.#catchUp(sink)
      await this.#goLive(sink)
    }
  }

  /**
   * Sends past events a few at a time and no faster than the client reads, since a stream may hold gigabytes. Events
   * published meanwhile are read from the stream, too. If events were dropped unread, the client gets a `gap`.
   */
  async #catchUp(sink: FeedSink): Promise<void> {
    while (isBefore(this.#last, this.#newest) && !this.#stopped) {
      const newest = this.#newest
      const { entries, isWhole } = await this.#streams.following(this.#key, this.#last)
      const isGone = entries.length === 0
      // A subscription from the beginning has no gap.
      if (isGone || (!isWhole && this.#last !== START))
        sink.send(frame({ event: 'gap', data: { after: this.#last } }))
      if (isGone) this.#last = newest
      for (const entry of entries) {
        const isAccepted = await this.#selection.accepts(entry)
        if (this.#stopped) return
        this.#last = entry.id
        if (isAccepted) sink.send(this.#selection.frameOf(entry))
        await sink.drained()
      }
    }
  }

  /** Resolves when an event cannot be sent at once: the client is slow, or the filter takes a query. */
  async #goLive(sink: FeedSink): Promise<void> {
    // An event may have come since the last read.
    if (isBefore(this.#last, this.#newest)) return
    await new Promise<void>((behind) => {
      this.#deliver = (entry) => {
        if (!isBefore(this.#last, entry.id) || this.#sendLive(sink, entry)) return
        // Before resolving, so that no later event overtakes this one.
        this.#deliver = undefined
        behind()
      }
    })
  }

  /** Sends an entry if the subscriber may have it. @returns true if the next one can be sent at once */
  #sendLive(sink: FeedSink, entry: Entry): boolean {
    const isAccepted = this.#selection.accepts(entry)
    if (typeof isAccepted !== 'boolean') {
      // #catchUp awaits it.
      isAccepted.catch(() => {})
      return false
    }
    this.#last = entry.id
    return !isAccepted || sink.send(this.#selection.frameOf(entry))
  }
}

/** `orders.created` matches itself, `orders.*` every topic below `orders`. */
export function matchesTopic(pattern: string, topic: string): boolean {
  return pattern.endsWith('.*') ? topic.startsWith(pattern.slice(0, -1)) : topic === pattern
}
