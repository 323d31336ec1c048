/** The bounds of the audit log, and of what is looked for as a secret. */

export const AUDIT_LIMITS = {
  /** How long an entry of the audit log may wait for others, and for the next attempt. */
  auditFlushMs: 50,
  auditRetryMs: 1_000,
  auditLinesAtOnce: 500,
  /** Of one process, some 500 bytes each. From half of it on, nothing is done whose entry is waited for. */
  auditPendingMax: 10_000,
  auditMinuteMs: 60_000,
  /** Refusals from one address in one tenant that are entries of their own; and how many addresses are told apart. */
  auditAlikePerMinute: 20,
  auditFloodsMax: 1_000,
  auditTextCharsMax: 1_024,
  /** Deeper than documents and the lists around them. */
  auditDepthMax: 100,
  /** Entries that one call verifies. */
  auditVerifiedMax: 10_000,
  secretNameCharsMax: 40,
  secretNamesKnownMax: 2_000,
} as const
