/** Reads published events and document changes after a cursor, in pages, and waits for the next ones. */

import { isBefore } from '../../core/execution.ts'
import { Problem } from '../../core/problem.ts'
import { mayHaveDropped } from '../../infra/valkey/stream-log.ts'
import type { Entry } from '../../infra/valkey/streams.ts'
import { type Events, isWorkspaceTopic, matchesAny, type StreamName } from './events.ts'
import { EVENT_LIMITS } from './limits.ts'

export interface EventsRequest {
  /** Topics and patterns, as of a subscription. */
  readonly topics: readonly string[]
  /** Only what this workspace published. */
  readonly ownWorkspace: boolean
  /** Cursor of a subscription to the same topics, or of the page before. Default: only new events. */
  readonly after?: string | undefined
  /** Milliseconds since 1970, instead of `after`: events from this time on. */
  readonly since?: number
  readonly limit: number
  /** Of the events as JSON. The first one is returned whatever its size. */
  readonly bytesMax: number
  /** How long to wait if there is no event yet. */
  readonly waitMs: number
  /** Ends the waiting. */
  readonly signal?: AbortSignal
}

export type ReadEvent = Pick<Entry, 'text'>

export interface EventsPage {
  /** Oldest first. */
  readonly events: readonly ReadEvent[]
  /** Id of the last entry that was read or skipped, of each stream. */
  readonly ids: readonly string[]
  readonly hasMore: boolean
  /** Entries after the cursor were dropped unread. */
  readonly hasGap: boolean
}

export const cursorOf = ({ ids }: EventsPage) => ids.join(',')

/** One of the streams that the topics are in. */
interface Part {
  readonly stream: StreamName
  readonly accepts: (entry: Entry) => boolean
  readonly acceptsTopic: (topic: string) => boolean
}

/**
 * Listens before it reads, so that it misses none.
 * @throws Problem `cursor_invalid` for the cursor of other topics, `dependency_unavailable`
 */
export async function readEvents(events: Events, request: EventsRequest): Promise<EventsPage> {
  const parts = partsOf(events, request)
  const { promise: arrived, resolve: wake } = Promise.withResolvers<void>()
  const listening: Awaited<ReturnType<Events['listen']>>[] = []
  try {
    for (const { stream, accepts } of parts)
      listening.push(await events.listen(stream, (entry) => accepts(entry) && wake()))
    const ids = startsOf(
      request,
      listening.map(({ after }) => after),
    )
    const first = await readPage(events, parts, ids, request)
    if (first.events.length > 0 || first.hasMore || request.waitMs === 0) return first
    await withinMs(request.waitMs, { arrived, wake, signal: request.signal })
    const { hasGap, ...page } = await readPage(events, parts, first.ids, request)
    return { ...page, hasGap: hasGap || first.hasGap }
  } finally {
    for (const { stop } of listening) stop()
  }
}

interface Waiting {
  readonly arrived: Promise<void>
  readonly wake: () => void
  readonly signal: AbortSignal | undefined
}

/** Waits for an event, at most so long, and until the signal aborts. */
async function withinMs(ms: number, { arrived, wake, signal }: Waiting): Promise<void> {
  const timer = setTimeout(wake, ms)
  signal?.addEventListener('abort', wake, { once: true })
  // A signal that has aborted emits no further event.
  if (signal?.aborted) wake()
  await arrived
  signal?.removeEventListener('abort', wake)
  clearTimeout(timer)
}

function partsOf({ source }: Events, { topics, ownWorkspace }: EventsRequest): Part[] {
  const partOf = (stream: StreamName, own: readonly string[]) => {
    const acceptsTopic = (topic: string) => matchesAny(own, topic)
    const accepts = (entry: Entry) => acceptsTopic(entry.topic) && (!ownWorkspace || entry.source === source)
    return { stream, accepts, acceptsTopic }
  }
  const [changes, published] = [
    topics.filter(isWorkspaceTopic),
    topics.filter((topic) => !isWorkspaceTopic(topic)),
  ]
  // In the order of a subscription, whose cursors are the same.
  return [
    ...(published.length > 0 ? [partOf('events', published)] : []),
    ...(changes.length > 0 ? [partOf('changes', changes)] : []),
  ]
}

function startsOf({ after, since }: EventsRequest, newest: readonly string[]): readonly string[] {
  if (since !== undefined) {
    // The last id before the first entry of that millisecond. A stream without later entries goes on after its newest one.
    const start = `${Math.max(since - 1, 0)}-9999999999`
    return newest.map((id) => (isBefore(id, start) ? id : start))
  }
  if (after === undefined) return newest
  const ids = after.split(',')
  if (ids.length === newest.length) return ids
  throw new Problem('cursor_invalid', { detail: 'The cursor belongs to other topics.' })
}

interface Scan {
  readonly found: readonly Entry[]
  /** Id of the last entry that was read. */
  readonly last: string
  readonly isAtEnd: boolean
  readonly hasGap: boolean
}

async function readPage(
  events: Events,
  parts: readonly Part[],
  ids: readonly string[],
  request: EventsRequest,
): Promise<EventsPage> {
  const scans = await Promise.all(parts.map((part, index) => scan(events, part, ids[index] ?? '', request)))
  const all = scans.flatMap(({ found }) => found).sort(inOrder)
  const returnedEvents = new Set(within(all, request))
  return {
    events: [...returnedEvents],
    ids: scans.map(({ found, last }, index) =>
      found.every((entry) => returnedEvents.has(entry))
        ? last
        : (found.findLast((entry) => returnedEvents.has(entry))?.id ?? ids[index] ?? ''),
    ),
    hasMore: returnedEvents.size < all.length || scans.some(({ isAtEnd }) => !isAtEnd),
    hasGap: scans.some(({ hasGap }) => hasGap),
  }
}

const inOrder = (a: Entry, b: Entry) => (isBefore(a.id, b.id) ? -1 : Number(isBefore(b.id, a.id)))

/** The first entries, as many as a page takes. */
function within(all: readonly Entry[], { limit, bytesMax }: EventsRequest): readonly Entry[] {
  let bytes = 0
  const end = all.findIndex(({ text }, index) => {
    // With the comma between two of them.
    bytes += Buffer.byteLength(text) + 1
    return index >= limit || (index > 0 && bytes > bytesMax)
  })
  return end < 0 ? all : all.slice(0, end)
}

/** Looks through a stream until it has enough entries for a page, or for `eventsScanMs`. */
async function scan(
  events: Events,
  { stream, accepts, acceptsTopic }: Part,
  after: string,
  { since, limit, bytesMax }: EventsRequest,
): Promise<Scan> {
  const untilMs = Date.now() + EVENT_LIMITS.scanMs
  const found: Entry[] = []
  let [last, bytes, hasGap] = [after, 0, false]
  while (found.length <= limit && bytes <= bytesMax && Date.now() < untilMs) {
    const { entries, dropped } = await events.following(stream, last)
    // No reader has read the entries before a start time, so their loss is no gap.
    const isKnown = since === undefined || last !== after
    hasGap ||= isKnown && mayHaveDropped(dropped, acceptsTopic)
    last = entries.at(-1)?.id ?? last
    if (entries.length === 0) return { found, last, isAtEnd: true, hasGap }
    for (const entry of entries.filter(accepts)) {
      found.push(entry)
      bytes += Buffer.byteLength(entry.text)
    }
  }
  return { found, last, isAtEnd: false, hasGap }
}
