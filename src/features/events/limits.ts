/** Limits of events, of the relay of change events, and of subscriptions. */

export const EVENT_LIMITS = {
  /** Bytes of the data of an event as JSON. More are refused with `body_too_large` (413). */
  eventBytesMax: 262_144,
  /** Change events of a workspace's stream. Beyond them the oldest are dropped, and readers of these get a `gap`. */
  changesKeptMax: 10_000,
  /** Bytes of such a stream, which each process that adds to it may exceed by 1/16. Then the oldest events are dropped. */
  changesKeptBytesMax: 67_108_864,
  /** Milliseconds for which one request looks through past events of other topics. Then it answers with a cursor to go on from. */
  scanMs: 2_000,

  // The relay
  /** Tenants of one batch. Further ones are in the next. */
  relayTenantsMax: 50,
  /** Changes of one batch. Further ones are in the next. */
  relayChangesMax: 500,
  /** Bytes of one batch, and at most one document more. Further changes are in the next. */
  relayBytesMax: 4_194_304,
  /** Milliseconds between two batches, doubling between the two while there are few changes. Then the outbox is read again. */
  relayPollMs: { min: 40, max: 160 },

  // Subscriptions
  /** Bytes that wait for a slow client. With more, its stream ends. */
  streamQueueBytesMax: 1_048_576,
  /** Milliseconds in which a client reads nothing while past events are sent. Then its stream ends. */
  streamStallMs: 30_000,
  /** Milliseconds without an event. Then a comment is sent, so that proxies keep the connection. */
  streamHeartbeatMs: 15_000,
  /** Milliseconds after which a client may ask again for a stream that was refused for now. Then it asks again. */
  streamRetryMs: 15_000,
} as const
