/** What bounds streams of events, the record of an execution, and those who watch it. */

export const WATCH_LIMITS = {
  feedQueueBytesMax: 1_048_576,
  /** A client that takes nothing for so long while the past is sent to it is too slow. */
  feedStallMs: 30_000,
  feedHeartbeatMs: 15_000,
  /** Most times from memory: keys are remembered for `keyCacheMs`. */
  feedCheckMs: 1_000,
  executionStepsShownMax: 1_000,
  /** The newest are kept; who asks for older ones is told of the gap. */
  executionEventsMax: 12_000,
  executionEventsReadAtOnce: 500,
  executionErrorShownCharsMax: 1_000,
  /** How often the executions that somebody watches are asked for news, all of them at once. */
  lookoutPollMs: 150,
  lookoutRetryMs: 1_000,
} as const
