/** Limits of the triggers of flows and functions: consumers of event streams, and webhooks. */

export const TRIGGER_LIMITS = {
  // Consumers of event streams
  /** Milliseconds between two reads of the list of triggers. Then it is read again. */
  refreshMs: 1_000,
  /** Milliseconds without a notification of a stream. Then it is read anyway. */
  idleMs: 5_000,
  /** Milliseconds after a trigger could not start its target, doubling between the two. Then it tries again. */
  retryMs: { min: 250, max: 30_000 },
  /** Factor between the CPU time of evaluating filters and the pause after it, so that a trigger takes 1/4 of the thread. Then it goes on. */
  pauseFactor: 3,
  /** Milliseconds of the pause of a trigger that has as many runs in flight as it may have. Then it looks again. */
  fullPauseMs: 500,

  // Webhooks
  /** Milliseconds between the timestamp of a webhook and our clock, in both directions. Beyond, it is refused with `signature_invalid`. */
  webhookToleranceMs: 300_000,
  /** Bytes of the body of a webhook. More are refused with `body_too_large` (413). */
  webhookBodyBytesMax: 524_288,
  /** Characters of a header in the input of the execution. A longer one is cut. */
  webhookHeaderCharsMax: 1_000,
  /** Seconds for which a rotated secret stays valid. Then webhooks with it are refused. */
  webhookGraceSeconds: 86_400,
} as const
