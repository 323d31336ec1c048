/** A scope's part of the event stream: what is published carries its workspace, what is heard is its tenant's. */

import { type Feed, type FeedSink, frame } from '../core/feed.ts'
import type { WorkspaceRef } from '../core/tenant.ts'
import { type Entry, isBefore, type Streams } from './streams.ts'

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
    const pending: Entry[] = []
    let deliver = (entry: Entry): void => void pending.push(entry)
    const live = await this.#streams.listen(tenantId, (entry) => deliver(entry))
    try {
      const start = subscription.after ?? live.after
      const past =
        subscription.after === undefined
          ? { entries: [], complete: true }
          : await this.#streams.between(tenantId, start, live.after)
      return {
        open: (sink) => {
          sink.send(
            `retry: 3000\n${frame({ event: 'ready', data: { topic: subscription.topic, cursor: start } })}`,
          )
          if (!past.complete) sink.send(frame({ event: 'gap', data: { after: start } }))
          let last = start
          deliver = (entry) => {
            if (!isBefore(last, entry.id)) return
            last = entry.id
            this.#offer(entry, subscription, sink)
          }
          for (const entry of [...past.entries, ...pending.splice(0)]) deliver(entry)
          return live.stop
        },
      }
    } catch (error) {
      live.stop()
      throw error
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
