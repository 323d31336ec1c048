/** What bounds executions: how they are chosen, wait for their place, and are mended. */

export const EXECUTION_LIMITS = {
  /** Versions that one alias of a flow means, and the weight of each. */
  aliases: { versionsMax: 10, weightMax: 1_000_000 },
  /**
   * How often whoever mends looks, and how much at a time; when an execution that lasts is asked for again, and one that
   * should have begun, or keeps others waiting; how long a schedule is given to begin its own.
   */
  mending: { pollMs: 1_000, atOnce: 50, againSeconds: 300, soonSeconds: 5, scheduleSeconds: 60 },
} as const
