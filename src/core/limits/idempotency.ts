/** The bounds of requests under an Idempotency-Key, and of what is kept of them. */

export const IDEMPOTENCY_LIMITS = {
  idempotencyKeyCharsMax: 255,
  idempotencyHours: 24,
  /** Longer than any request: a function waits for a place and runs for a minute. Who is cut off is waited for so long. */
  idempotencyLeaseSeconds: 120,
  /** For how long a claim is ended again whose connection was lost. */
  idempotencyPatienceMs: 300,
  /** A document of the largest size fits. */
  idempotencyReplyBytesMax: 524_288,
  /** Of 256 shelves in each workspace and role: together 100,000 replies, or 256 MiB. */
  idempotencyShelfRowsMax: 400,
  idempotencyShelfBytesMax: 1_048_576,
  /** Deeper input is taken by no operation. */
  idempotencyInputDepthMax: 100,
} as const
