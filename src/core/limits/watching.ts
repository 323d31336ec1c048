/** What bounds streams of events, the record of an execution, and those who watch it. */

export const WATCH_LIMITS = {
  executionStepsShownMax: 1_000,
  /** The newest are kept; who asks for older ones is told of the gap. */
  executionEventsMax: 12_000,
  executionEventsReadAtOnce: 500,
  executionErrorShownCharsMax: 1_000,
  /** How often the executions that somebody watches are looked at although nothing was heard of them, all at once. */
  lookoutPollMs: { min: 300, max: 1_200 },
} as const
