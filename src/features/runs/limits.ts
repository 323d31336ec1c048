/** Limits of what executions and function runs share: slots, queues, the reconciler, watchers. */

export const RUN_LIMITS = {
  /** Seconds after which an open execution, or a queued run, is compared with its workflow again. Then it is. */
  recheckSeconds: 300,
  /** Seconds after which a run that has not started, or that blocks a queue, is compared with its workflow. Then it is. */
  firstCheckSeconds: 5,
  /** Queues of a workspace at which one round looks. The next round goes on after them. */
  queuesSeenMax: 10,
  /** Runs that hold the slots of a queue, of which one round compares as many. The next round goes on after them. */
  holdersMax: 10,
  /** Slots that have started nothing, of which one round compares as many. The next round goes on after them. */
  slotsSeenMax: 500,
  /** Runs that one process starts from a queue. Then the reconciler starts others. */
  queuedStartsMax: 20,
  /** Milliseconds between two reads of the place in a queue, without a notification. Then it is read. */
  queuePollMs: 2_000,
  /** Milliseconds between two reads of all watched runs, doubling between the two, in case a notification was lost. Then they are read. */
  watchPollMs: { min: 300, max: 1_200 },
} as const
