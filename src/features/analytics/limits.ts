/** Limits of meters and time series. */

export const ANALYTICS_LIMITS = {
  /** Milliseconds for which a process counts requests in its memory. Then it stores the counts. */
  flushMs: 2_000,
  /** Buckets of a meter's durations; the last starts at 2^19.5 ms, 12 minutes. Longer requests are in the last one. */
  durationBuckets: 40,
  /** Meters that a process keeps while the database does not answer. Those of the oldest minutes are dropped. */
  metersKeptMax: 10_000,
  /** Seconds after the end of an hour until its usage is recorded, for transactions that are still under way. Then it is. */
  usageDelaySeconds: 120,
  /** Seconds by which the record of an event may be late to count at the time of the event. A later one counts at the time of its record, since the hour of the event may be recorded already. */
  lateSeconds: 60,
  /** Milliseconds for which counting documents for usage waits while many queries without an index run. Then their number is recorded as not counted. */
  levelsWaitMs: 60_000,
  /** Points of a time series. A shorter step is refused with `validation_failed`. */
  pointsMax: 1_000,
  /** Days of the window of a time series. A longer one is refused with `validation_failed`. */
  windowDaysMax: 90,
  /** Figures of the whole installation, for metrics. */
  installation: {
    /** Rows that are counted. One more means that there are more. */
    rowsCountedMax: 10_000,
    /** Seconds after which a tenant or workspace should be created. Then metrics count it as late. */
    provisioningLateSeconds: 120,
  },
} as const
