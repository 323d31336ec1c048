/** All limits and intervals of the platform, each with its unit in the name. */

import { FLOW_LIMITS } from './limits/flow-limits.ts'
import { FUNCTION_LIMITS } from './limits/function-limits.ts'
import { FUNCTION_SANDBOX_LIMITS } from './limits/function-sandbox-limits.ts'
import { MCP_IMAGE_LIMITS } from './limits/mcp-image-limits.ts'
import { MCP_LIMITS } from './limits/mcp-limits.ts'
import { MCP_SOURCE_LIMITS } from './limits/mcp-source-limits.ts'

export const LIMITS = {
  bodyBytesMax: 1_048_576,
  documentBytesMax: 262_144,
  documentDepthMax: 32,
  documentKeysMax: 1_000,
  fieldNameBytesMax: 200,
  pathDepthMax: 10,
  filtersMax: 50,
  filterDepthMax: 10,
  filterValuesMax: 500,
  /** Of an object in a `cd` filter: every subset of its members is a search term. */
  containingMembersMax: 8,
  /** Names and values of a JSON filter: slightly more than 50 lists of 500 values. */
  filterPartsMax: 30_000,
  /** Of a rule on documents (`access` of a declaration). */
  ruleCharsMax: 8_000,
  ruleDepthMax: 5,
  ruleTestsMax: 30,
  /** Of all patterns of a rule. The time to compare a text is the product of its length and theirs. */
  rulePatternCharsMax: 500,
  ruleLookupsMax: 5,
  ruleLookupValuesMax: 500,
  /** Elements of a list in a user's claims that rules on objects and topics compare with; later ones count for nothing. */
  ruleClaimValuesMax: 100,
  /** To evaluate a rule on one document in the process: a few milliseconds. */
  ruleStepsMax: 1_000_000,
  likeWildcardsMax: 10,
  likeCharsMax: 10_000,
  orderKeysMax: 8,
  selectFieldsMax: 100,
  queryLimitMax: 1_000,
  batchOpsMax: 500,
  /** Per operation of a batch that is not atomic. */
  batchFaultsShownMax: 3,
  batchBytesMax: 4_194_304,
  /** Beyond this, `count=estimated` returns the estimate of the query planner. */
  exactCountMax: 1_000,
  /** Clients send a cursor back in a URL, together with the filters. */
  cursorCharsMax: 4_096,
  faultsShownMax: 20,
  flowSourceBytesMax: 262_144,
  /** Rate-limit buckets in the memory of one process. */
  rateBucketsMax: 50_000,
  /** How long a request waits for the shared rate-limit store, an admin's request, and the pause after a timeout. */
  rateStoreTimeoutMs: 75,
  rateStoreAdminTimeoutMs: 1_000,
  rateRetryMs: 1_000,
  /** Lifetime of the lease of an open stream, and the interval at which it is renewed. */
  streamLeaseMs: 15_000,
  streamRenewMs: 4_000,
  headerBytesMax: 16_384,
  urlBytesMax: 8_192,
  nameCharsMax: 200,
  subjectCharsMax: 200,
  pageSizeDefault: 50,
  pageSizeMax: 200,
  preferWaitSecondsMax: 30,
  statementTimeoutMs: { anon: 5_000, service: 15_000 },
  poolConnectionsMax: 20,
  /** Connections of the pool that one tenant may hold at a time. */
  poolPerTenantMax: 10,
  poolWaitMs: 5_000,
  /** A connection to PostgreSQL is closed if an answer is so much later than the time limit of its statements. */
  databaseLateMs: 2_000,
  /** Idle time after which the operating system checks a connection to PostgreSQL. */
  databaseKeepAliveMs: 10_000,
  /** In a transaction of several round trips: the wait for a table lock. `transactionIdleMs` bounds the pause between two. */
  lockWaitMs: 5_000,
  /**
   * Group commit: concurrent small transactions with the same session settings become one. While one runs, up to
   * `batchSizeMax` collect for the next, at most `waitMs`. A group waits for a lock at most `lockTimeoutMs`; after a failure,
   * transactions run one by one for `cooldownMs`.
   */
  groups: { batchSizeMax: 32, waitMs: 20, lockTimeoutMs: 50, cooldownMs: 1_000 },
  transactionIdleMs: 15_000,
  /** Per connection. */
  preparedStatementsMax: 300,
  /** Cached statement texts per table. */
  statementShapesMax: 100,
  undeclaredTablesKnownMax: 500,
  /** Of the result of one round trip: pages of the largest documents would be hundreds of megabytes. */
  rowsBytesMax: 33_554_432,
  sealingKeysMax: 2_000,
  /**
   * How long a process may use what it has read of a credential: API key, account, client, revocation, state of the tenant. Together
   * with `feedCheckMs`, below the 5 s within which a revocation or a suspension takes effect everywhere.
   */
  credentialCacheMs: 3_500,
  keyCacheEntriesMax: 10_000,
  keyScopesMax: 50,
  /** Requests per minute of one key. */
  keyRateMax: 1_000_000,
  /** How long a rotated key stays valid. */
  keyGraceSeconds: 86_400,
  keyGraceSecondsMax: 2_592_000,
  /** How far the recorded time of a key's last use may lag behind. */
  keyUseLagMs: 60_000,
  tokenSeconds: 3_600,
  /** Of a token of a person, which its client refreshes. */
  personTokenSeconds: 600,
  /** How long a browser may read payloads in the Temporal UI. */
  pagePassSeconds: 3_600,
  authorizationCodeSeconds: 60,
  /** From the sign-in; a refresh does not extend it. */
  refreshSeconds: 1_209_600,
  /** For which a refresh token may be used again after its first use. */
  refreshGraceSeconds: 60,
  signInSeconds: 28_800,
  interactionSeconds: 900,
  invitationDays: 7,
  passwordCharsMin: 12,
  passwordCharsMax: 256,
  /** Each password hash takes 32 MiB and 250 ms of a thread. */
  passwordsAtOnce: 2,
  /** Hashes that run or wait for one network in one workspace or tenant. */
  passwordsPendingMax: 8,
  /** Hashes that wait in one process, for all networks: the last one waits for about 16 s. */
  passwordsWaitingMax: 128,
  /**
   * Failed logins: at an account from one address, at an account from all addresses (higher, so that knowing a name does not
   * suffice to lock its owner out), and from one address.
   */
  attemptsMax: { accountFromAddress: 10, account: 100 },
  attemptsWindowMs: 900_000,
  attemptsRememberedMax: 20_000,
  redirectUrisMax: 10,
  /** The page where people review their agents: how long it stays open, and how many grants it shows. */
  agentsPage: { sessionSeconds: 900, grantsMax: 100 },
  /**
   * End users of workspaces: how long links of mails are valid, the interval between mails of one kind to one address, the
   * window of the limits per client address and workspace, how long a mail is tried again, how long the page of the
   * user's own account stays open, and how long a page waits for a code or a passkey,
   * and the number of passkeys of a user.
   */
  users: {
    claimsBytesMax: 8_192,
    claimsDepthMax: 5,
    linkSeconds: { sign_up: 86_400, email: 86_400, reset: 3_600, identity: 3_600 },
    mailIntervalMs: 60_000,
    mailsWindowMs: 3_600_000,
    mailRetryMs: 120_000,
    pageSeconds: 900,
    factorSeconds: 300,
    passkeysMax: 10,
    /** Identity providers: per workspace, in the cache of a process, for a sign-in at one, and for one request to it. */
    providersMax: 5,
    providersCachedMax: 500,
    providerSeconds: 900,
    providerTimeoutMs: 5_000,
    logoBytesMax: 65_536,
    /** WCAG 2.2, 1.4.3: of the workspace's colour with white. */
    contrastMin: 4.5,
  },
  /** Dynamic client registration: how many in total, and how long one is kept. */
  registrationsMax: 10_000,
  registrationBytesMax: 16_384,
  registrationKept: { unusedHours: 24, idleDays: 90 },
  /** Documents that describe clients: how long a copy needs not be read again, and how long it is kept if that fails. */
  clientDocuments: {
    urlCharsMax: 200,
    bytesMax: 10_000,
    timeoutMs: 3_000,
    freshSeconds: { least: 60, usual: 3_600, most: 86_400 },
    keptHours: 24,
    failureMs: 10_000,
    failuresMax: 1_000,
    concurrentMax: 20,
  },
  /** Minimum interval at which tokens with an unknown key make this process reload the signing keys. */
  signingKeysReloadMs: 1_000,
  externalIssuers: { max: 100, tokenSeconds: 86_400, jwksBytesMax: 262_144, groupsMax: 200 },
  jwksMs: { timeout: 3_000, fresh: 600_000, kept: 86_400_000, cooldown: 30_000, retry: 5_000 },
  meterFlushMs: 2_000,
  /** The last bucket starts at 2^19.5 ms, 12 minutes. */
  meterBuckets: 40,
  metersKeptMax: 10_000,
  analyticsPointsMax: 1_000,
  analyticsWindowDaysMax: 90,
  objectBytesMax: 104_857_600,
  objectKeyBytesMax: 1_024,
  /** The limit of the object store for one segment. */
  objectKeySegmentBytesMax: 255,
  /** How long a request body may take to arrive. The rest of a rejected body is read for `drainMs`. */
  uploadTimeoutMs: 300_000,
  /** How long the head of a request may take to arrive, and the body of an unauthenticated request to the issuer. */
  headersTimeoutMs: 15_000,
  issuerBodyMs: 10_000,
  /** Interval at which connections are checked for these timeouts. */
  connectionsCheckMs: 5_000,
  /** A streamed upload may take one more second for each of these amounts that has arrived. */
  uploadBytesPerSecondMin: 16_384,
  drainMs: 5_000,
  /** So many bytes of it are read: four times the largest body of an operation. */
  drainBytesMax: 17_825_792,
  /** After which the connection stays open for this time. */
  drainLingerMs: 500,
  /** A stream ends after this time without a byte sent or received. */
  streamStallMs: 30_000,
  importChunkLines: 500,
  importChunkBytes: 1_048_576,
  /** A line above `documentBytesMax` is skipped; one above this ends the import. */
  importLineSkippedBytesMax: 67_108_864,
  importFaultCharsMax: 500,
  exportFirstRows: 100,
  exportRowsMax: 1_000,
  /** Target size of a page; at least four of the largest documents fit. */
  exportPageBytes: 1_048_576,
  exportPieceChars: 65_536,
  /** Eager starts at a worker of the same machine: concurrency per tenant and in total, timeout, pause after a timeout. */
  eagerStart: { perTenant: 8, atOnce: 64, waitMs: 1_000, restMs: 5_000, bytesMax: 4 * 1_048_576 },
  storeSocketsMax: 256,
  storeSocketsPerTenantMax: 64,
  storeConnectMs: 2_000,
  /** Of requests that create buckets and identities; each is sent twice at most. */
  storeAnswerMs: 5_000,
  storeIdleMs: 60_000,
  /** How long gateways of the object store may reject a new identity, until they have loaded its policy. */
  accessPropagationMs: 3_000,
  accessRetryPauseMs: { min: 100, max: 100 },
  storageIdentitiesCachedMax: 500,
  storageIdentityCacheMs: 60_000,
  schemaBytesMax: 65_536,
  schemaDepthMax: 32,
  schemaNodesMax: 1_000,
  /** Subschemas, with the target of a reference counted once per reference. */
  schemaExpandedMax: 5_000,
  schemaEnumMax: 500,
  schemasPerWorkspaceMax: 500,
  tableColumnsMax: 200,
  /** Over the lifetime of a table: PostgreSQL counts dropped columns too, and allows 1,600. */
  tableColumnsEverMax: 1_500,
  /** Building an index waits for older transactions. */
  builderLockWaitMs: 60_000,
  /** Per worker. Each build has a connection of its own. */
  indexBuildsAtOnce: 4,
  builderCheckMs: 2_000,
  indexBuildMs: 86_400_000,
  indexHeartbeatMs: 30_000,
  indexesMax: 16,
  indexFieldsMax: 4,
  /** Validation of existing documents when a schema changes: documents per batch, and total time. */
  validationBatchSize: 500,
  examinationMs: 60_000,
  /** Documents written during that validation which are validated under a lock. */
  validatedUnderLockMax: 200,
  /** Steps of a validation on the main thread, about 3 ms; a longer one moves to a worker thread. */
  validationSteps: 10_000,
  /** CPU time of a worker thread for one document. */
  validationMs: 200,
  /** CPU time for all documents of one request, and after how much of it the request yields. */
  writeCpuBudgetMs: 2_000,
  yieldEveryMs: 10,
  /** Together with `feedCheckMs`, below the 5 s within which a change of settings takes effect everywhere. */
  memoMs: 3_500,
  /** Worker threads of a process: their number, the queue per tenant, and the bounds of a task besides its CPU time. */
  threads: {
    size: 2,
    waitingMax: 32,
    waitMs: 20_000,
    pollMs: 20,
    wallFactor: 10,
    wallBaseMs: 5_000,
    memoryMb: 256,
    stackMb: 4,
  },
  /** CPU time of a worker thread for compiling or simulating a flow. */
  flowCpuMs: 5_000,
  memoBytesMax: 67_108_864,
  /** Of a header that lists entity tags. */
  conditionCharsMax: 1_000,
  /** Of a change that other writers overtake: no attempt starts after `wallMs`. */
  contention: { wallMs: 10_000, attemptsMax: 100, delays: { min: 2, max: 200 } },
  /** Operations of a batch times its attempts. */
  batchOpAttemptsMax: 5_000,
  suspension: { pageRuns: 500, signalsAtOnce: 16, reasonCharsMax: 500 },

  // Idempotency keys
  idempotencyKeyCharsMax: 255,
  idempotencyHours: 24,
  /** The process of a request renews its lease, so a request may take longer. After a crash, a retry waits this long. */
  idempotencyLeaseSeconds: 5,
  idempotencyRenewMs: 1_500,
  /** Changes with a key that a document in MongoDB remembers. After as many others, a retry cannot know if its own was made. */
  idempotencyMarksMax: 50,
  /** How long completing a claim is retried after its connection was lost. */
  idempotencyPatienceMs: 300,
  /** A document of the largest size fits. */
  idempotencyReplyBytesMax: 524_288,
  /** Of each of 256 partitions per workspace and role: in total 100,000 replies, or 256 MiB. */
  idempotencyRowsMax: 400,
  idempotencyBytesMax: 1_048_576,
  /** No operation accepts deeper input. */
  idempotencyInputDepthMax: 100,

  // Audit log and redaction
  /** How long an entry of a log waits for others that are appended with it, and for the next attempt. */
  appendDelayMs: 50,
  appendRetryMs: 1_000,
  appendRowsMax: 500,
  /** Calls of MCP tools that change nothing, per workspace and process, about 1 kB each: further ones wait for their entry. */
  mcpCallsPendingMax: 1_000,
  /** Per process, about 500 bytes each. From half of it on, operations that wait for their entry are rejected. */
  auditPendingMax: 10_000,
  auditMinuteMs: 60_000,
  /** Denials per minute, address and tenant with an entry of their own; and how many addresses are tracked. */
  auditAlikePerMinute: 20,
  auditFloodsMax: 1_000,
  auditTextCharsMax: 1_024,
  /** More than documents and the lists that contain them. */
  auditDepthMax: 100,
  /** Entries that one call verifies. */
  auditVerifiedMax: 10_000,
  secretNameCharsMax: 40,
  secretNamesKnownMax: 2_000,

  // Events, relay and streams
  eventBytesMax: 262_144,
  eventsKeptPerTenant: 100_000,
  changesKeptPerWorkspace: 10_000,
  /** Memory of a stream; each process that adds to it may exceed this by 1/16. */
  eventsBytesMax: 134_217_728,
  changesBytesMax: 67_108_864,
  /** A stream may exceed its length by one of so many parts before its oldest entries are dropped together. */
  streamSlackShare: 50,
  /** Per stream: topics whose newest dropped entry is remembered (about 200 kB). */
  droppedTopicsMax: 2_000,
  /** A batch of the relay: tenants, changes, bytes (plus at most one document). */
  relayTenantsMax: 50,
  relayChangesMax: 500,
  relayBytesMax: 4_194_304,
  /** Poll interval of the relay: after a batch, and when idle. */
  relayPollMs: { min: 40, max: 160 },
  /** Retry interval while a server is unavailable, and the interval at which other workers try to become leader. */
  relayRetryMs: { min: 250, max: 2_000 },
  relayTurnMs: 1_000,
  /** How long a connection that holds a lock may be idle, and how often it is used while the work of its holder goes on. */
  sessionIdleMs: 20_000,
  sessionKeepAliveMs: 2_000,
  /** Background tasks: the first look after the election, and the interval after a failed one. */
  backgroundTasks: { firstMs: 5_000, retryMs: { min: 1_000, max: 60_000 } },
  /** Per stream: at most 8 MiB together. */
  eventsReadAtOnce: 32,
  /** How long one request looks through past events of other topics. */
  eventsScanMs: 2_000,
  feedQueueBytesMax: 1_048_576,
  /** A client that reads nothing for this long during the replay of past events is disconnected. */
  feedStallMs: 30_000,
  feedHeartbeatMs: 15_000,
  /** How long a client waits at least before it asks again for a stream that was refused for now. */
  feedRetryMs: 15_000,
  /** Mostly served from the cache (`credentialCacheMs`). */
  feedCheckMs: 1_000,

  // Usage ledger of objects in workspaces with a byte quota
  /** How long an upload keeps its reserved bytes without progress. */
  uploadLeaseMs: 600_000,
  /** Expired uploads that one request reconciles. */
  uploadsSettledAtOnce: 20,
  /** Objects that are counted when their bytes are limited. */
  objectsCountedMax: 200_000,
  ...FLOW_LIMITS,
  ...FUNCTION_LIMITS,
  ...FUNCTION_SANDBOX_LIMITS,
  ...MCP_LIMITS,
  ...MCP_SOURCE_LIMITS,
  ...MCP_IMAGE_LIMITS,
} as const
