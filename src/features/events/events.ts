/** Publishes and subscribes to a tenant's events and a workspace's document changes. */

import { internalsOf } from '../../access/internals.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { type Feed, type FeedSink, frame } from '../../core/bytes.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import {
  changesOf,
  type Entry,
  eventsOf,
  isBefore,
  START,
  type StreamKey,
  type Streams,
} from '../../infra/valkey/streams.ts'

/** The events of the tenant, and the workspace's own changes. */
export function eventsIn(scope: WorkspaceScope): Events {
  return new Events(scope.ref, internalsOf(scope).services.streams)
}

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
  readonly tenonhops?: number
  readonly data: unknown
}

export interface Subscription {
  readonly topic: string
  /** Only what this workspace published. */
  readonly ownWorkspace: boolean
  /** Id of the last event that the client has seen; later events are sent first. */
  readonly after?: string
  /** Restricts the events that the subscriber may receive. */
  readonly admits?: EventFilter
}

/** True if an event may be sent now; a promise if that takes a query. */
export type EventFilter = (entry: Entry) => boolean | Promise<boolean>

/** State of a live subscription: the newest id, and the receiver of live events once the past is sent. */
interface Live {
  newest: string
  deliver: ((entry: Entry) => void) | undefined
}

/** A subscription that is being sent, and how far it has got. */
interface Sending {
  readonly key: StreamKey
  readonly subscription: Subscription
  readonly live: Live
  readonly sink: FeedSink
  last: string
  stopped: boolean
}

/** True for topics of document changes, which only the platform publishes. */
export const isChangeTopic = (topic: string): boolean => /^collections(\.|$)/.test(topic)

/** Builds a CloudEvent. */
export function cloudEvent(
  of: Pick<CloudEvent, 'id' | 'source' | 'topic' | 'time' | 'data'> & { readonly hops?: number | undefined },
): CloudEvent {
  const { id, source, topic, time, data, hops = 0 } = of
  return {
    specversion: '1.0',
    id,
    source,
    type: topic,
    topic,
    time,
    datacontenttype: 'application/json',
    ...(hops > 0 && { tenonhops: hops }),
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

  async publish(event: CloudEvent): Promise<void> {
    const { type: topic, source } = event
    await this.#streams.publish(eventsOf(this.#ref.tenantId), { topic, source, text: JSON.stringify(event) })
  }

  /**
   * The feed of a topic. It listens before it reads past events, so that it misses none.
   * @throws Problem `dependency_unavailable`
   */
  async subscribe(subscription: Subscription): Promise<Feed> {
    const { topic, after } = subscription
    const key = isChangeTopic(topic) ? changesOf(this.#ref) : eventsOf(this.#ref.tenantId)
    const live: Live = { newest: START, deliver: undefined }
    const listening = await this.#streams.listen(key, (entry) => {
      live.newest = entry.id
      live.deliver?.(entry)
    })
    try {
      const start = after ?? listening.after
      if (isBefore(live.newest, listening.after)) live.newest = listening.after
      return {
        open: (sink) => {
          sink.send(`retry: 3000\n${frame({ event: 'ready', data: { topic, cursor: start } })}`)
          const sending: Sending = { key, subscription, live, sink, last: start, stopped: false }
          void this.#send(sending).catch(() => sink.end('unavailable'))
          return () => {
            sending.stopped = true
            listening.stop()
          }
        },
      }
    } catch (error) {
      listening.stop()
      throw error
    }
  }

  /** Sends past events, then live ones until the client falls behind. */
  async #send(sending: Sending): Promise<void> {
    while (!sending.stopped) {
      await this.#catchUp(sending)
      await this.#goLive(sending)
    }
  }

  /**
   * Sends past events a few at a time and no faster than the client reads, since a stream may hold gigabytes. Events
   * published meanwhile are read from the stream, too. If events were dropped unread, the client gets a `gap`.
   */
  async #catchUp(sending: Sending): Promise<void> {
    const { key, live, sink } = sending
    while (isBefore(sending.last, live.newest) && !sending.stopped) {
      const { newest } = live
      const { entries, isWhole } = await this.#streams.following(key, sending.last)
      const isGone = entries.length === 0
      // A subscription from the beginning has no gap.
      if (isGone || (!isWhole && sending.last !== START))
        sink.send(frame({ event: 'gap', data: { after: sending.last } }))
      if (isGone) sending.last = newest
      for (const entry of entries) {
        const admitted = this.#matches(entry, sending) && (await this.#admits(entry, sending))
        if (sending.stopped) return
        sending.last = entry.id
        if (admitted) sink.send(entry.frame)
        await sink.drained()
      }
    }
  }

  /** Resolves when an event cannot be sent at once: the client is slow, or admission takes a query. */
  async #goLive(sending: Sending): Promise<void> {
    const { live } = sending
    // An event may have come since the last read.
    if (isBefore(sending.last, live.newest)) return
    await new Promise<void>((behind) => {
      live.deliver = (entry) => {
        if (!isBefore(sending.last, entry.id) || this.#offer(entry, sending)) return
        // Before resolving, so that no later event overtakes this one.
        live.deliver = undefined
        behind()
      }
    })
  }

  /** Sends an entry if the subscriber may have it. @returns true if the next one can be sent at once */
  #offer(entry: Entry, sending: Sending): boolean {
    const admitted = this.#matches(entry, sending) && this.#admits(entry, sending)
    if (typeof admitted !== 'boolean') {
      // #catchUp awaits it.
      admitted.catch(() => {})
      return false
    }
    sending.last = entry.id
    return !admitted || sending.sink.send(entry.frame)
  }

  #matches(entry: Entry, { subscription: { topic, ownWorkspace } }: Sending): boolean {
    return matches(topic, entry.topic) && !(ownWorkspace && entry.source !== this.source)
  }

  #admits(entry: Entry, { subscription: { admits } }: Sending): boolean | Promise<boolean> {
    return admits === undefined || admits(entry)
  }
}

/** `orders.created` matches itself, `orders.*` every topic below `orders`. */
function matches(pattern: string, topic: string): boolean {
  return pattern.endsWith('.*') ? topic.startsWith(pattern.slice(0, -1)) : topic === pattern
}
