/** A scope's part of the event stream: what is published carries its workspace, what is heard is its tenant's. */

import { type Feed, type FeedSink, frame } from '../../core/feed.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import { type Entry, isBefore, START, type Streams } from './streams.ts'

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
  readonly data: unknown
}

export interface Subscription {
  readonly topic: string
  /** Only what this workspace published. */
  readonly ownWorkspace: boolean
  /** Id of the last event that the client has seen: what came after it is sent first. */
  readonly after?: string
}

/** What the listener of a subscription knows: the newest id, and where live events go once the past is sent. */
interface Heard {
  newest: string
  deliver: ((entry: Entry) => void) | undefined
}

/** How far a subscription has got. */
interface State {
  last: string
  stopped: boolean
}

export class Events {
  readonly #ref: WorkspaceRef
  readonly #streams: Streams

  constructor(ref: WorkspaceRef, streams: Streams) {
    this.#ref = ref
    this.#streams = streams
  }

  get source(): string {
    return `/workspaces/${this.#ref.workspaceId}`
  }

  async publish(event: CloudEvent): Promise<void> {
    const { type: topic, source } = event
    await this.#streams.publish(this.#ref.tenantId, { topic, source, text: JSON.stringify(event) })
  }

  /**
   * The feed of a topic. The subscription is live before anything old is read, so nothing falls between.
   * @throws Problem `dependency_unavailable`
   */
  async subscribe(subscription: Subscription): Promise<Feed> {
    const { tenantId } = this.#ref
    const { topic, after } = subscription
    const heard: Heard = { newest: START, deliver: undefined }
    const live = await this.#streams.listen(tenantId, (entry) => {
      heard.newest = entry.id
      heard.deliver?.(entry)
    })
    try {
      const start = after ?? live.after
      const complete = after === undefined || (await this.#streams.isComplete(tenantId, after))
      if (isBefore(heard.newest, live.after)) heard.newest = live.after
      return {
        open: (sink) => {
          sink.send(`retry: 3000\n${frame({ event: 'ready', data: { topic, cursor: start } })}`)
          if (!complete) sink.send(frame({ event: 'gap', data: { after: start } }))
          const state = { last: start, stopped: false }
          void this.#catchUp(subscription, heard, state, sink).catch(() => sink.end('unavailable'))
          return () => {
            state.stopped = true
            live.stop()
          }
        },
      }
    } catch (error) {
      live.stop()
      throw error
    }
  }

  /**
   * Sends what is past a few events at a time and no faster than it is taken: a stream may hold gigabytes. What is
   * published meanwhile is read from the stream as well; when there is nothing more to read, the live ones go on.
   */
  async #catchUp(subscription: Subscription, heard: Heard, state: State, sink: FeedSink): Promise<void> {
    while (isBefore(state.last, heard.newest) && !state.stopped) {
      const { newest } = heard
      const entries = await this.#streams.between(this.#ref.tenantId, state.last, newest)
      // Nothing there: what was heard of has been dropped since.
      if (entries.length === 0) state.last = newest
      for (const entry of entries) {
        if (state.stopped) return
        state.last = entry.id
        this.#offer(entry, subscription, sink)
        await sink.taken()
      }
    }
    heard.deliver = (entry) => {
      if (!isBefore(state.last, entry.id)) return
      state.last = entry.id
      this.#offer(entry, subscription, sink)
    }
  }

  #offer(entry: Entry, { topic, ownWorkspace }: Subscription, sink: FeedSink): void {
    if (!matches(topic, entry.topic) || (ownWorkspace && entry.source !== this.source)) return
    sink.send(entry.frame)
  }
}

/** `orders.created` is itself, `orders.*` all below `orders`. */
function matches(pattern: string, topic: string): boolean {
  return pattern.endsWith('.*') ? topic.startsWith(pattern.slice(0, -1)) : topic === pattern
}
