/** What bounds events: the streams, the relay that fills them, and the feeds that are made of them. */

export const EVENT_LIMITS = {
  eventBytesMax: 262_144,
  eventsKeptPerTenant: 100_000,
  changesKeptPerWorkspace: 10_000,
  /** Of the stream's memory; a sixteenth may come on top. */
  changesBytesMax: 67_108_864,
  /** What the relay passes on at a time, of how many tenants in turn; one more document may come on top. */
  relayTenantsMax: 50,
  relayChangesMax: 500,
  relayBytesMax: 4_194_304,
  /** How often the relay looks where there was something a moment ago, and where there has been nothing for a while. */
  relayPollMs: { min: 40, max: 160 },
  /** How soon it tries again while a server is away, and how often other workers ask whether it is their turn. */
  relayRetryMs: { min: 250, max: 2_000 },
  relayTurnMs: 1_000,
  /** Longer than a connection with a lock ever has nothing to ask. */
  sessionIdleMs: 20_000,
  /** Of one stream: together 8 MiB at most. */
  eventsReadAtOnce: 32,
  feedQueueBytesMax: 1_048_576,
  /** A client that takes nothing for so long while the past is sent to it is too slow. */
  feedStallMs: 30_000,
  feedHeartbeatMs: 15_000,
  /** Most times from memory: keys are remembered for `keyCacheMs`. */
  feedCheckMs: 1_000,
} as const
