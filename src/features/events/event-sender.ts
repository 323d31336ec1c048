/** Sends the events of one stream to a subscriber, past ones and live ones, and knows the position that it has reached. */

import Type from 'typebox'
import { type FeedSink, frame } from '../../core/bytes.ts'
import { component } from '../../core/components/component.ts'
import { isBefore } from '../../core/execution.ts'
import { mayHaveDropped } from '../../infra/valkey/stream-log.ts'
import { type Entry, START, type StreamKey, type Streams, timeOf } from '../../infra/valkey/streams.ts'

const Ready = component(
  'SubscriptionReady',
  Type.Object(
    { topic: Type.String(), cursor: Type.String({ description: 'Position from which the events follow.' }) },
    { description: 'First event of a subscription: it gets everything from here on.' },
  ),
  { topic: 'courts.*', cursor: '1772442000000-0' },
)
const Gap = component(
  'SubscriptionGap',
  Type.Object(
    {
      after: Type.String({ description: 'Position after which events are missing.' }),
      earliest: Type.String({ description: 'Position from which the events are complete again.' }),
    },
    { description: 'Sign that events were dropped before they could be sent: read the current state again.' },
  ),
  { after: '1772442000000-0', earliest: '1772445600000-0' },
)

/** The events that tell of a subscription itself. */
export const SUBSCRIPTION_EVENTS = { ready: Ready, gap: Gap }

/** True if an event is sent; a text is sent in its place. */
export type Verdict = boolean | string
/** Decides about an event; a promise if that takes a query. A problem ends the stream with its code. */
export type EventFilter = (entry: Entry) => Verdict | Promise<Verdict>

/** The position after which a subscriber starts. `unknown`: its cursor is not of these streams. Undefined: it starts now. */
export type Start = string | undefined

export const UNKNOWN = 'unknown'

/** @param after what the subscriber has sent, or the position that it has reached */
export const gapFrame = (after: string, earliest: string): string =>
  frame<typeof SUBSCRIPTION_EVENTS>({ event: 'gap', data: { after: after.slice(0, 100), earliest } })

interface Selection {
  readonly accepts: EventFilter
  readonly acceptsTopic: (topic: string) => boolean
  /** The text that is sent for an entry. */
  readonly frameOf: (entry: Entry) => string
  /** The positions in all streams of the subscription. */
  readonly cursor: () => string
  /** Called before a gap in the open stream is sent. */
  readonly onGap?: (() => void) | undefined
}

/** Past events, then live ones until the client falls behind. */
export class EventSender {
  readonly #streams: Streams
  readonly #key: StreamKey
  readonly #selection: Selection
  #newest = START
  /** Id of the last entry that was sent or skipped. */
  #last = START
  #position = START
  #earliest = START
  #startsWithGap = false
  #stopped = false
  /** The entry whose verdict takes a query. */
  #asked: { readonly id: string; readonly verdict: Promise<Verdict> } | undefined
  #stopListening = () => {}
  /** Receives live entries once the past is sent. */
  #deliver: ((entry: Entry) => void) | undefined

  private constructor(streams: Streams, key: StreamKey, selection: Selection) {
    this.#streams = streams
    this.#key = key
    this.#selection = selection
  }

  static async listen(
    streams: Streams,
    key: StreamKey,
    selection: Selection,
    start: Start,
  ): Promise<EventSender> {
    const sender = new EventSender(streams, key, selection)
    const listening = await streams.listen(key, (entry) => sender.#receive(entry))
    sender.#stopListening = listening.stop
    try {
      await sender.#startAfter(start)
    } catch (error) {
      listening.stop()
      throw error
    }
    return sender
  }

  /** The position that the subscriber may continue after. It is the id of an event that it got, or names none. */
  get position(): string {
    return this.#position
  }

  /** Entries after the start were dropped, or the start is none in this stream. */
  get startsWithGap(): boolean {
    return this.#startsWithGap
  }

  /** The position before the oldest entry that the stream had at the start. */
  get earliest(): string {
    return this.#earliest
  }

  async #startAfter(start: Start): Promise<void> {
    const { nowMs, last, now, earliest } = await this.#streams.locate(this.#key)
    if (isBefore(this.#newest, last)) this.#newest = last
    this.#last = last
    this.#position = now
    this.#earliest = earliest
    if (start === undefined) return
    // A position ahead of the stream is from elsewhere, or its server lost entries: new ones may come before it.
    const isAhead = timeOf(start) > nowMs && isBefore(last, start)
    this.#startsWithGap = start === UNKNOWN || isAhead || (await this.#hasLost(start))
    if (start === UNKNOWN || isAhead) return
    this.#position = this.#startsWithGap ? earliest : start
    if (isBefore(this.#position, last)) this.#last = this.#position
  }

  /** A subscription from the beginning loses nothing. */
  async #hasLost(start: string): Promise<boolean> {
    if (start === START) return false
    const { dropped } = await this.#streams.following(this.#key, start)
    return mayHaveDropped(dropped, this.#selection.acceptsTopic)
  }

  /** Moves the position past entries of other topics, if the subscriber has got all that were for it. */
  async advance(): Promise<void> {
    const { last, now } = await this.#streams.locate(this.#key)
    if (isBefore(this.#position, now) && !isBefore(this.#last, last)) this.#position = now
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
      const { entries, dropped } = await this.#streams.following(this.#key, this.#last)
      // A subscription from the beginning has no gap.
      if (this.#last !== START && mayHaveDropped(dropped, this.#selection.acceptsTopic))
        await this.#sendGap(sink)
      if (entries.length === 0) this.#last = newest
      for (const entry of entries) {
        const verdict = await this.#verdictOf(entry)
        if (this.#stopped) return
        this.#last = entry.id
        if (verdict !== false) this.#sendEntry(sink, entry, verdict)
        await sink.drained()
      }
    }
  }

  async #sendGap(sink: FeedSink): Promise<void> {
    const after = this.#selection.cursor()
    const { earliest } = await this.#streams.locate(this.#key)
    this.#position = earliest
    this.#selection.onGap?.()
    if (!this.#stopped) sink.send(gapFrame(after, this.#selection.cursor()))
  }

  /** @returns true if the next one can be sent at once */
  #sendEntry(sink: FeedSink, entry: Entry, verdict: string | true): boolean {
    this.#position = entry.id
    return sink.send(verdict === true ? this.#selection.frameOf(entry) : verdict)
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

  /** Asks once for each entry: a filter may remember what it has decided. */
  #verdictOf(entry: Entry): Verdict | Promise<Verdict> {
    if (this.#asked?.id === entry.id) return this.#asked.verdict
    const verdict = this.#selection.accepts(entry)
    if (typeof verdict === 'object') this.#asked = { id: entry.id, verdict }
    return verdict
  }

  /** Sends an entry if the subscriber may have it. @returns true if the next one can be sent at once */
  #sendLive(sink: FeedSink, entry: Entry): boolean {
    const verdict = this.#verdictOf(entry)
    if (typeof verdict === 'object') {
      // #catchUp awaits it.
      verdict.catch(() => {})
      return false
    }
    this.#last = entry.id
    return verdict === false || this.#sendEntry(sink, entry, verdict)
  }
}
