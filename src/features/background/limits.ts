/** Limits of the background tasks of the leading worker. */

export const BACKGROUND_LIMITS = {
  /** Milliseconds between the election of a worker and its first round of a task. Then the round starts. */
  firstMs: 5_000,
  /** Milliseconds after a failed round, doubling between the two. Then the next round starts. */
  retryMs: { min: 1_000, max: 60_000 },
  /** Milliseconds between two rounds of most tasks. Then the next round starts. */
  pollMs: 1_000,
  /** Items of a task under way at a time. Further ones are taken when these are done. */
  itemsMax: 50,
  /** Workspaces at which one round looks. The next round goes on after them. */
  workspacesSeenMax: 200,
} as const
