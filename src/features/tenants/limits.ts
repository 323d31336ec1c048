/** Limits of creating and suspending tenants and workspaces. */

export const TENANT_LIMITS = {
  /** Milliseconds for which a step of a creation or removal waits for a server that is away. Then the operation fails; `POST …/retry` begins again. */
  provisioningStepMs: 86_400_000,
  /** Milliseconds for which the change of a job that cannot be started is undone while the database is unavailable. Then `POST …/retry` begins the job again. */
  undoMs: 5_000,
  /** Milliseconds for which an attempt to remove waits for the end of the creation. Then the next attempt does. */
  creationEndMs: 20_000,
  /** Executions that one page of a suspension has. Further ones are on the next page. */
  suspensionPageExecutions: 500,
  /** Signals that a suspension sends at a time. Further ones are sent next. */
  suspensionSignalsMax: 16,
} as const
