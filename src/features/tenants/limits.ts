/** Limits of creating and suspending tenants and workspaces. */

export const TENANT_LIMITS = {
  /** Milliseconds for which a step of a creation or removal waits for a server that is away. Then the operation fails; `POST …/retry` begins again. */
  provisioningStepMs: 86_400_000,
  /** Milliseconds for which the change of a job that cannot be started is undone while the database is unavailable. Then `POST …/retry` begins the job again. */
  undoMs: 5_000,
  /** Milliseconds for which an attempt to remove waits for the end of the creation. Then the next attempt does. */
  creationEndMs: 20_000,
  /** Days between the deletion of a tenant or a workspace and its purge, if the request names none. Until then it can be restored. */
  graceDaysDefault: 7,
  /** Days that a request may name at most. A higher number is refused. */
  graceDaysMax: 90,
  /** Milliseconds after which every process knows of a deletion. Then nothing is written any more, and a purge may begin; that of what was never in use begins at once. */
  knownByAllMs: 5_000,
  /** Milliseconds for which one attempt of a purge removes things. Then the next one goes on. */
  purgeServedMs: 10_000,
  /** Rows that one statement of a purge deletes. The next statement deletes further ones. */
  purgedRowsMax: 5_000,
  /** Rows of a table, and keys of a bucket (a hundredth of it), up to which an inventory counts. A higher number is shown as this one. */
  countedRowsMax: 1_000_000,
  /** Milliseconds between two looks for jobs that are to be started, such as purges that are due. Then they begin. */
  jobPollMs: 1_000,
  /** Milliseconds after which a queued job is one whose process died before it started the workflow. Then the workflow is started. */
  jobStartMs: 30_000,
  /** Milliseconds between two looks for tenants and workspaces whose resources are to be compared. Then some are. */
  driftPollMs: 2_000,
  /** Milliseconds between two comparisons of the resources of a tenant or workspace. Then they are compared again. */
  driftCheckMs: 3_600_000,
  /** Tenants and workspaces that one look compares. The next look takes further ones. */
  driftChecksAtOnce: 20,
  /** Differences of a tenant or workspace that are listed. Further ones are counted. */
  differencesMax: 100,
  /** Seconds after a purge, when the last histories of its workflows are removed. Then they are gone. */
  leftoverSeconds: 60,
  /** Seconds after a purge for which is looked for what a process that stood still writes late. Then nothing is removed any more. */
  leftoverWatchedSeconds: 86_400,
  /** Host names that a workspace claims. Further ones are refused with `state_conflict`. */
  hostsMax: 50,
  /** Executions that one page of a suspension has. Further ones are on the next page. */
  suspensionPageExecutions: 500,
  /** Signals that a suspension sends at a time. Further ones are sent next. */
  suspensionSignalsMax: 16,
  /** Sets of settings that an import tries, if some are refused. After more, it is refused with `archive_invalid`. */
  movedSettingsChecksMax: 300,
} as const
