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
  /** How many runs began one by the event of another before this one was published; nothing for none. */
  readonly tenonhops?: number
  readonly data: unknown
}

export interface Subscription {
  readonly topic: string
  /** Only what this workspace published. */
  readonly ownWorkspace: boolean
  /** Id of the last event that the client has seen: what came after it is sent first. */
  readonly after?: string
  /** Restricts the events that the subscriber may receive. */
  readonly admits?: Admits
}

/** True if an event may be sent now; a promise if that takes a query. */
export type Admits = (entry: Entry) => boolean | Promise<boolean>

/** State of a live subscription: the newest id, and the receiver of live events once the past is sent. */
interface Heard {
  newest: string
  deliver: ((entry: Entry) => void) | undefined
}

/** A subscription that is being sent, and how far it has got. */
interface Sending {
  readonly key: StreamKey
  readonly subscription: Subscription
  readonly heard: Heard
  readonly sink: FeedSink
  last: string
  stopped: boolean
}

/** Topics of changes of documents, which the platform alone publishes. */
export const isOfChanges = (topic: string): boolean => /^collections(\.|$)/.test(topic)

/** A CloudEvent of now or, where it is told again, of then. */
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

  /** The ids after which what comes from now on stands, in both streams. @throws Problem `dependency_unavailable` */
  async places(): Promise<{ events: string; changes: string }> {
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
   * The feed of a topic. The subscription is live before anything old is read, so nothing falls between.
   * @throws Problem `dependency_unavailable`
   */
  async subscribe(subscription: Subscription): Promise<Feed> {
    const { topic, after } = subscription
    const key = isOfChanges(topic) ? changesOf(this.#ref) : eventsOf(this.#ref.tenantId)
    const heard: Heard = { newest: START, deliver: undefined }
    const live = await this.#streams.listen(key, (entry) => {
      heard.newest = entry.id
      heard.deliver?.(entry)
    })
    try {
      const start = after ?? live.after
      if (isBefore(heard.newest, live.after)) heard.newest = live.after
      return {
        open: (sink) => {
          sink.send(`retry: 3000\n${frame({ event: 'ready', data: { topic, cursor: start } })}`)
          const sending: Sending = { key, subscription, heard, sink, last: start, stopped: false }
          void this.#send(sending).catch(() => sink.end('unavailable'))
          return () => {
            sending.stopped = true
            live.stop()
          }
        },
      }
    } catch (error) {
      live.stop()
      throw error
    }
  }

  /** From the stream until there is nothing more to read, then as it comes, until the client falls behind. */
  async #send(sending: Sending): Promise<void> {
    while (!sending.stopped) {
      await this.#catchUp(sending)
      await this.#goLive(sending)
    }
  }

  /**
   * Sends past events a few at a time and no faster than the client reads: a stream may hold gigabytes. What is
   * published meanwhile is read from the stream as well, and of what was dropped before it was read the client is told.
   */
  async #catchUp(sending: Sending): Promise<void> {
    const { key, heard, sink } = sending
    while (isBefore(sending.last, heard.newest) && !sending.stopped) {
      const { newest } = heard
      const { entries, isWhole } = await this.#streams.following(key, sending.last)
      const isGone = entries.length === 0
      // A subscription from the beginning has no gap.
      if (isGone || (!isWhole && sending.last !== START))
        sink.send(frame({ event: 'gap', data: { after: sending.last } }))
      if (isGone) sending.last = newest
      for (const entry of entries) {
        const admitted = this.#wanted(entry, sending) && (await this.#admits(entry, sending))
        if (sending.stopped) return
        sending.last = entry.id
        if (admitted) sink.send(entry.frame)
        await sink.drained()
      }
    }
  }

  /** Resolves when an event cannot be sent at once: the client is slow, or it has to be asked for whom it is. */
  async #goLive(sending: Sending): Promise<void> {
    const { heard } = sending
    // Something may have come since the past was read to its end.
    if (isBefore(sending.last, heard.newest)) return
    await new Promise<void>((behind) => {
      heard.deliver = (entry) => {
        if (!isBefore(sending.last, entry.id) || this.#offer(entry, sending)) return
        // At once: the next one may be here already, and must not come first.
        heard.deliver = undefined
        behind()
      }
    })
  }

  /** Sends an entry that is wanted. @returns whether the next one may come at once */
  #offer(entry: Entry, sending: Sending): boolean {
    const admitted = this.#wanted(entry, sending) && this.#admits(entry, sending)
    if (typeof admitted !== 'boolean') {
      // Waited for where the entry is read from the stream.
      admitted.catch(() => {})
      return false
    }
    sending.last = entry.id
    return !admitted || sending.sink.send(entry.frame)
  }

  #wanted(entry: Entry, { subscription: { topic, ownWorkspace } }: Sending): boolean {
    return matches(topic, entry.topic) && !(ownWorkspace && entry.source !== this.source)
  }

  #admits(entry: Entry, { subscription: { admits } }: Sending): boolean | Promise<boolean> {
    return admits === undefined || admits(entry)
  }
}

/** `orders.created` is itself, `orders.*` all below `orders`. */
function matches(pattern: string, topic: string): boolean {
  return pattern.endsWith('.*') ? topic.startsWith(pattern.slice(0, -1)) : topic === pattern
}
