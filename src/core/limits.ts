/** Every number that bounds something, with its unit in the name. */

import { FLOW_LIMITS } from './flow-limits.ts'

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
  /** Of an object behind `cd`: each set of them is looked for. */
  containingMembersMax: 8,
  /** Names and values of a filter in JSON: as many as 50 lists of 500 have, and some. */
  filterPartsMax: 30_000,
  likeWildcardsMax: 10,
  likeCharsMax: 10_000,
  orderKeysMax: 8,
  selectFieldsMax: 100,
  queryLimitMax: 1_000,
  batchOpsMax: 500,
  /** Of each op, where each is done by itself. */
  batchFaultsShownMax: 3,
  batchBytesMax: 4_194_304,
  /** Beyond it `count=estimated` takes the planner's word. */
  countedMax: 1_000,
  /** A cursor is sent back in a URL, beside the filters. */
  cursorCharsMax: 4_096,
  faultsShownMax: 20,
  flowSourceBytesMax: 262_144,
  /** In the memory of one process. */
  rateBucketsMax: 50_000,
  /** How long a request waits for the shared buckets, one of an admin too, and when they are asked again after that. */
  ratePatienceMs: 75,
  rateInsistMs: 1_000,
  rateRetryMs: 1_000,
  /** Requests charged before they come: at most one in so many that a bucket holds; for how long they are kept. */
  rateAdvance: { share: 64, ms: 25 },
  /** A stream's place among those of its tenant is kept for so long without a sign of life; how often one is given. */
  placeLeaseMs: 15_000,
  placeRenewMs: 4_000,
  headerBytesMax: 16_384,
  urlBytesMax: 8_192,
  nameCharsMax: 200,
  subjectCharsMax: 200,
  pageSizeDefault: 50,
  pageSizeMax: 200,
  preferWaitSecondsMax: 30,
  statementTimeoutMs: { anon: 5_000, service: 15_000 },
  poolConnectionsMax: 20,
  /** Of those, what the requests of one tenant may hold at a time. */
  poolPerTenantMax: 10,
  poolWaitMs: 5_000,
  /** In a transaction of several round trips: for a table that others use, and between two questions. */
  lockWaitMs: 5_000,
  /**
   * Small transactions of one mandate that come at the same time go as one: while one is under way the next gather, so many
   * at most, and no longer than `waitMs`. A group waits for a lock no longer than `lockMs`; after one failed, each goes by
   * itself for `apartMs`.
   */
  groups: { membersMax: 32, waitMs: 20, lockMs: 50, apartMs: 1_000 },
  transactionIdleMs: 15_000,
  /** On each connection. */
  preparedStatementsMax: 300,
  /** Of one table, put together and kept. */
  statementShapesMax: 100,
  undeclaredTablesKnownMax: 500,
  /** What one round trip may bring back: pages of the largest documents would be hundreds of megabytes. */
  rowsBytesMax: 33_554_432,
  sealingKeysMax: 2_000,
  /** With `feedCheckMs` on top, less than the 5 s within which a suspension is everywhere. */
  keyCacheMs: 3_500,
  keyCacheEntriesMax: 10_000,
  keyScopesMax: 50,
  /** Requests a minute of one key. */
  keyRateMax: 1_000_000,
  /** How long a key that was rotated is still good. */
  keyGraceSeconds: 86_400,
  keyGraceSecondsMax: 2_592_000,
  /** How far the time of a key's last use may lag behind. */
  keyUseLagMs: 60_000,
  tokenSeconds: 3_600,
  /** Of a person, who refreshes it. */
  personTokenSeconds: 600,
  /** For which a browser may read payloads in the Temporal UI. */
  pagePassSeconds: 3_600,
  authorizationCodeSeconds: 60,
  /** From the sign-in on; a refresh does not prolong it. */
  refreshSeconds: 1_209_600,
  signInSeconds: 28_800,
  interactionSeconds: 900,
  invitationDays: 7,
  passwordCharsMin: 12,
  passwordCharsMax: 256,
  /** Each takes 32 MiB and a thread for a quarter of a second. */
  passwordsAtOnce: 2,
  passwordWaitMs: 10_000,
  /** At an account from one address, and from all, since who knows a name must not lock its owner out; of one address. */
  attemptsMax: { accountFromAddress: 10, account: 100, address: 60 },
  attemptsWindowMs: 900_000,
  attemptsRememberedMax: 20_000,
  redirectUrisMax: 10,
  /** Clients that come by themselves: of one address in a window of attempts, in all, and how long unused. */
  registrationsPerAddressMax: 30,
  registrationsMax: 10_000,
  registrationBytesMax: 16_384,
  registrationKept: { unusedHours: 24, idleDays: 90 },
  /** How often a token with an unknown key may make this node read the keys anew. */
  signingKeysReloadMs: 1_000,
  externalIssuers: { max: 100, tokenSeconds: 86_400, jwksBytesMax: 262_144 },
  jwksMs: { timeout: 3_000, fresh: 600_000, kept: 86_400_000, cooldown: 30_000, retry: 5_000 },
  meterFlushMs: 2_000,
  /** The last bucket begins at 2^19.5 ms, twelve minutes. */
  meterBuckets: 40,
  metersKeptMax: 10_000,
  analyticsPointsMax: 1_000,
  analyticsWindowDaysMax: 90,
  objectBytesMax: 104_857_600,
  objectKeyBytesMax: 1_024,
  /** What the store takes as one name of its tree. */
  objectKeySegmentBytesMax: 255,
  /** A body may take this long to come; the rest of a refused one is read for as long as `drainMs`. */
  uploadTimeoutMs: 300_000,
  /** The head of a request, and the body of one to the issuer, which nobody has shown a credential for, may take so long. */
  headersTimeoutMs: 15_000,
  issuerBodyMs: 10_000,
  /** How often connections are looked through for those that take longer. */
  connectionsCheckMs: 5_000,
  /** A stream of bytes may take a second more for so many that have come. */
  uploadBytesPerSecondMin: 16_384,
  drainMs: 5_000,
  /** Nothing comes, or nothing is taken, for so long: the stream is ended. */
  streamStallMs: 30_000,
  importChunkLines: 500,
  importChunkBytes: 1_048_576,
  /** A longer line is passed over; one that is longer than this ends the import. */
  importLineSkippedBytesMax: 67_108_864,
  importFaultCharsMax: 500,
  exportFirstRows: 100,
  exportRowsMax: 1_000,
  /** What a page is to come to; one of the largest documents has four of them. */
  exportPageBytes: 1_048_576,
  exportPieceChars: 65_536,
  /** Starts that the API hands to a worker of its machine: how many at once, of a tenant and of all, and how long it is waited for. */
  nearStarts: { perTenant: 8, atOnce: 64, waitMs: 1_000, restMs: 5_000, bytesMax: 4 * 1_048_576 },
  storeSocketsMax: 256,
  storeSocketsPerTenantMax: 64,
  storeConnectMs: 2_000,
  storeIdleMs: 60_000,
  /** How long after a policy was written a gateway of the store may not have heard of it; it heals by itself. */
  storeOpeningMs: 3_000,
  storeOpeningPauseMs: { min: 100, max: 100 },
  storageIdentitiesCachedMax: 500,
  storageIdentityCacheMs: 60_000,
  schemaBytesMax: 65_536,
  schemaDepthMax: 32,
  schemaNodesMax: 1_000,
  /** Subschemas with every reference counted as often as it is followed. */
  schemaExpandedMax: 5_000,
  schemaEnumMax: 500,
  schemasPerWorkspaceMax: 500,
  tableColumnsMax: 200,
  /** In the life of a table: PostgreSQL counts dropped ones too, and takes 1,600. */
  tableColumnsEverMax: 1_500,
  /** An index waits for transactions that are older than it. */
  builderLockWaitMs: 60_000,
  /** Of one worker. Each has a connection of its own, which counts with those of all tenants. */
  indexBuildsAtOnce: 4,
  builderCheckMs: 2_000,
  indexBuildMs: 86_400_000,
  indexHeartbeatMs: 30_000,
  indexesMax: 16,
  indexFieldsMax: 4,
  /** While documents are examined for a change of their schema: at a time, and in all. */
  examinedAtOnce: 500,
  examinationMs: 60_000,
  /** Written while the others were examined: as many are examined once more while writers wait. */
  examinedWhileLockedMax: 200,
  /** Steps of a validation on the main thread, some 3 ms; one that takes more goes to a worker thread. */
  validationSteps: 10_000,
  /** Characters of a text whose format is tested at once. */
  matchedCharsMax: 1_000,
  /** CPU time of a worker thread for one document. */
  validationMs: 200,
  /** Of the processor, for all documents of one request; and how much of that at a time. */
  planningMs: 2_000,
  turnMs: 10,
  /** With `feedCheckMs` on top, less than the 5 s within which a change of settings is everywhere. */
  memoMs: 3_500,
  /** Worker threads of a process: how many, and what waits for them of one tenant; what bounds a task besides its CPU time. */
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
  /** CPU time of a worker thread to compile a flow, and to simulate one. */
  flowCpuMs: 5_000,
  memoBytesMax: 67_108_864,
  /** Of a header with entity tags. */
  conditionCharsMax: 1_000,
  updateAttemptsMax: 100,
  functionSourceBytesMax: 262_144,
  /** The compiled form, with its source map. */
  functionCompiledBytesMax: 1_048_576,
  functionCompileMs: 5_000,
  functionCompilesAtOnce: 2,
  functionInputBytesMax: 1_048_576,
  functionResultBytesMax: 1_048_576,
  functionTimeoutMs: { default: 10_000, max: 60_000 },
  functionMemoryMb: { min: 64, default: 128, max: 512 },
  /** What an empty process has resident already, most of it shared. */
  functionMemoryBaseMb: 96,
  functionMemoryPollMs: 25,
  /** A process that nobody watches any more ends by this at the latest; more than 60 s, since it has threads. */
  functionCpuSecondsMax: 120,
  functionLogBytesMax: 65_536,
  functionLogShownBytesMax: 8_192,
  /** What a function may write past the console and its result before it is ended. */
  functionNoiseBytesMax: 1_048_576,
  functionMessageCharsMax: 2_000,
  functionStartMs: 10_000,
  /** How long a run waits for a place before it is refused. */
  functionQueueMs: 20_000,
  functionHeartbeatMs: 10_000,
  functionSlotsPerCore: 4,
  functionWarmProcesses: 2,
  /** Of one process: the engine has some 10 and one for each processor, each Worker of its code one to two. */
  functionThreadsMax: 256,
  functionProbeMs: 2_000,
  suspension: { pageRuns: 500, signalsAtOnce: 16, reasonCharsMax: 500 },

  // Idempotency keys
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

  // Audit log and redaction
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

  // Events, relay and streams
  eventBytesMax: 262_144,
  eventsKeptPerTenant: 100_000,
  changesKeptPerWorkspace: 10_000,
  /** Of the stream's memory; a sixteenth may come on top. */
  changesBytesMax: 67_108_864,
  /** What the relay passes on at a time, of how many tenants in turn; one more document may come on top. */
  relayTenantsMax: 50,
  relayChangesMax: 500,
  relayBytesMax: 4_194_304,
  /** How often the relay looks where there was something a moment ago, and where there has been nothing for a while. */
  relayPollMs: { min: 40, max: 160 },
  /** How soon it tries again while a server is away, and how often other workers ask whether it is their turn. */
  relayRetryMs: { min: 250, max: 2_000 },
  relayTurnMs: 1_000,
  /** Longer than a connection with a lock ever has nothing to ask. */
  sessionIdleMs: 20_000,
  /** Of one stream: together 8 MiB at most. */
  eventsReadAtOnce: 32,
  feedQueueBytesMax: 1_048_576,
  /** A client that takes nothing for so long while the past is sent to it is too slow. */
  feedStallMs: 30_000,
  feedHeartbeatMs: 15_000,
  /** Most times from memory: keys are remembered for `keyCacheMs`. */
  feedCheckMs: 1_000,

  // Hosted MCP servers
  /** Several clients read the first page of tools/list alone, so there is only one. */
  mcpToolsMax: 100,
  mcpToolNameCharsMax: 64,
  mcpDescriptionCharsMax: 2_000,
  mcpCandidateThingsMax: 100,
  mcpArgumentsDepthMax: 64,
  /** Of a whole JSON-RPC message: the arguments and what is around them. */
  mcpMessageDepthMax: 70,
  mcpResultBytesMax: 1_048_576,
  mcpManifestsCachedMax: 200,
  /** Of each server, by one node. */
  mcpStrangersRecordedPerMinute: 60,
  mcpTokenSeconds: 600,
  /** Below the 60 s after which common clients give a call up. */
  mcpFlowWaitSeconds: 25,

  // Ledger of objects in workspaces with a quota of bytes
  /** Room that an upload holds without a sign of life. */
  uploadLeaseMs: 600_000,
  /** Uploads whose process died that one request looks after. */
  uploadsSettledAtOnce: 20,
  /** Objects that are counted when their bytes are limited. */
  objectsCountedMax: 200_000,
  ...FLOW_LIMITS,
} as const
