/** Limits of archives of workspaces and tenants. */

export const ARCHIVE_LIMITS = {
  /** Bytes of an archive as it is stored and sent. A larger one is refused: leave old objects out, and move them by the S3 API. */
  archiveBytesMax: 137_438_953_472,
  /** Workspaces in the archive of a tenant. One with more is refused; an export with more fails. */
  workspacesMax: 10_000,
  /** Members of an archive. One with more is refused; an export with more fails. */
  membersMax: 1_000_000,
  /** Bytes of lines after which a member of lines ends. The next lines are in the next member. */
  partBytes: 4_194_304,
  /** Bytes of a member of lines, which has at least one. A larger member is refused. */
  partBytesMax: 33_554_432,
  /** Lines of a member of lines. The next lines are in the next member; a member with more is refused. */
  partLinesMax: 100_000,
  /** Objects that one member of lines lists. The next member lists the next ones; a member with more is refused. */
  partObjectsMax: 1_000,
  /** Functions of an archive; flows and MCP servers as many. One with more is refused, and an export with more fails. */
  definitionsMax: 100_000,
  /** Versions of all functions of an archive; of flows and of MCP servers as many. One with more is refused, and an export with more fails. */
  versionsMax: 1_000_000,
  /** Things to set by hand that an operation lists. Further ones are counted. */
  missingMax: 1_000,
  /** Bytes of the member that describes the archive, and of the one with the settings. A larger one is refused. */
  headBytesMax: 1_048_576,
  /** Bytes of the list of members at the end, which is read line by line. A larger one is refused. */
  manifestBytesMax: 268_435_456,
  /** Factor: an archive unpacks to so many times its own bytes. One that unpacks to more is refused, unless it stays below `expandedFreeBytes`. */
  expansionFactor: 400,
  /** Bytes up to which an archive unpacks to any number of times its own. A larger one is refused above `expansionFactor`. */
  expandedFreeBytes: 134_217_728,
  /** Documents that one statement of an import stores. The next ones are stored by the next statement. */
  documentsStoredMax: 500,
  /** Milliseconds for which a finished archive can be downloaded. Then it is removed. */
  keptMs: 86_400_000,
  /** Milliseconds for which one attempt of an export or import may take, besides those in which it waits for a server. Then the next one begins anew. */
  attemptMs: 43_200_000,
  /** Milliseconds without a sign of the worker after which an attempt is given up. Then another worker begins the next one. */
  heartbeatMs: 10_000,
  /** Attempts of an export or an import that end for another reason than a server that is away. Then it has failed. */
  attemptsMax: 8,
  /** Exports and imports that one worker runs at a time. The next ones wait. */
  runningMax: 4,
  /** Imports of a tenant that are under way. Another one is refused with `state_conflict`. */
  importsMax: 4,
  /** Milliseconds between two looks for archives whose time is over. Then they are removed. */
  sweepPollMs: 5_000,
} as const
