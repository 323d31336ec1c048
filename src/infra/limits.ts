/** Limits of the drivers and of what all processes share: connections, caches, threads, payloads in Temporal. */

export const INFRA_LIMITS = {
  // PostgreSQL
  /** Milliseconds of one statement, by the caller: of an anon key, of others. A slower one is cancelled: `query_timeout`. */
  statementTimeoutMs: { anon: 5_000, service: 15_000 },
  /** Connections of a pool of MongoDB, and of PostgreSQL unless `DATABASE_POOL_MAX` is set. Further work waits for one. */
  poolConnectionsMax: 20,
  /** Share of the connections of a pool of PostgreSQL that one tenant may hold. Its further work waits for one of these. */
  poolTenantShare: 0.5,
  /** Milliseconds of waiting for a connection. Then the request is refused with `overloaded` or `dependency_unavailable`. */
  poolWaitMs: 5_000,
  /** Milliseconds by which an answer may be later than the time limit of its statements. Then the connection is closed. */
  databaseLateMs: 2_000,
  /** Milliseconds without traffic on a connection to PostgreSQL. Then the operating system checks it. */
  databaseKeepAliveMs: 10_000,
  /** Milliseconds of waiting for a lock, in a transaction of several round trips. Then the statement fails. */
  lockWaitMs: 5_000,
  /** Milliseconds between two statements of such a transaction. Then PostgreSQL ends it. */
  transactionIdleMs: 15_000,
  /** Group commit: concurrent small transactions with the same session settings become one, after the one that runs. */
  transactionBatch: {
    /** Transactions of one batch. When they are complete, the batch is sent at once. */
    transactionsMax: 32,
    /** Milliseconds for which a batch collects transactions. Then it is sent. */
    waitMs: 20,
    /** Milliseconds for which a batch waits for a lock. Then its transactions run one by one. */
    lockTimeoutMs: 50,
    /** Milliseconds for which transactions run one by one after a batch failed. Then they are batched again. */
    cooldownMs: 1_000,
    /** Kinds of batches that are remembered as failed. The least recently used is forgotten. */
    failuresCachedMax: 10_000,
  },
  /** Statements that one connection has prepared. The oldest is closed. */
  preparedStatementsMax: 300,
  /** Statements that one connection prepares in its life. Then it is closed after its work, since PostgreSQL keeps what it knows of each table for as long. */
  connectionStatementsMax: 1_000,
  /** Bytes of the result of one round trip. More are refused with `output_too_large`. */
  rowsBytesMax: 33_554_432,
  /** Milliseconds for which building an index waits for older transactions. Then the attempt fails and is repeated. */
  builderLockWaitMs: 60_000,
  /** Milliseconds between two checks that the client of an index build is there. If it is not, the build is cancelled. */
  builderCheckMs: 2_000,
  /** Milliseconds for which a connection that holds a lock may be idle. Then PostgreSQL closes it. */
  sessionIdleMs: 20_000,
  /** Milliseconds between two uses of such a connection. Then it is used again, so that it stays open. */
  sessionKeepAliveMs: 2_000,
  /** Milliseconds for which a migration waits for a lock. Then it lets go of all its locks, and is repeated. */
  migrationLockWaitMs: 500,
  /** Milliseconds of a transaction of a migration or of `tenon migrate --check`, which stops requests at its locks. Then it is cut off. */
  migrationMs: 1_000,
  /** Milliseconds until a leader's work is tried again after a failure, doubling between the two. Then it is tried again. */
  leaderRetryMs: { min: 250, max: 2_000 },
  /** Milliseconds between two attempts of a worker to become leader. Then it tries again. */
  leaderElectionMs: 1_000,

  /** Values of `Host` of requests that a process has read and remembers. The least recently used is forgotten. */
  hostsCachedMax: 1_000,

  /** `tenon master-key rotate`, which reads each column in pages. */
  keyRotation: {
    /** Rows of a page. Further ones are in the next page. */
    pageRowsMax: 500,
    /** Bytes of the values of a page, if it has more than one. Further ones are in the next page. */
    pageBytesMax: 2_097_152,
    /** Passes over all columns, each for what processes have written under another key meanwhile. Then the rotation ends as incomplete. */
    passesMax: 10,
  },

  // Checks at the start of a process
  /** Milliseconds by which the clocks of a process and of a server may differ. More are reported. */
  clockSkewMaxMs: 5_000,
  /** Share of Valkey's memory in use. A larger one is reported. */
  valkeyUsedShareMax: 0.9,

  // Retries, CPU time and threads
  /** Changes of one thing that other writers overtake. */
  contention: {
    /** Milliseconds in which attempts may start. Then the request is refused with `overloaded`. */
    attemptsMs: 10_000,
    /** Attempts of one change. Then the request is refused with `overloaded`. */
    attemptsMax: 100,
    /** Milliseconds between two attempts, doubling between the two. Then the next attempt starts. */
    pauseMs: { min: 2, max: 200 },
  },
  /** Milliseconds of CPU time for all documents of one request. More are refused with `validation_too_costly`. */
  writeCpuBudgetMs: 2_000,
  /** Milliseconds of CPU time without a pause. Then the work lets other requests run. */
  yieldEveryMs: 10,
  /** Worker threads of a process, for what would hold its event loop. */
  threads: {
    /** Threads of a process. Further tasks wait in a queue. */
    threadsMax: 2,
    /** Tasks of one tenant that wait. Further ones are refused with `overloaded`. */
    tasksWaitingMax: 32,
    /** Milliseconds for which a task waits. Then it is refused with `overloaded`. */
    waitMs: 20_000,
    /** Milliseconds between two measurements of a thread's CPU time. Then it is compared with the limit of its task. */
    pollMs: 20,
    /** Factor between a task's limit of CPU time and of elapsed time. A task that takes longer is ended. */
    elapsedFactor: 10,
    /** Milliseconds that the limit of elapsed time has in addition. A task that takes longer is ended. */
    elapsedBaseMs: 5_000,
    /** MiB of the heap of a thread. A task that needs more is ended. */
    memoryMb: 256,
    /** MiB of the stack of a thread. A task that needs more fails. */
    stackMb: 4,
  },

  /** Conversions of images, in libuv's thread pool. */
  images: {
    /** Conversions of a process at once, of the 4 threads of the pool. Further ones wait. */
    ofProcessMax: 2,
    /** Conversions of one tenant at once, in a process. Its further ones wait. */
    ofTenantMax: 1,
    /** Conversions of one tenant that wait. Further ones are refused with `overloaded`. */
    waitingMax: 100,
    /** Milliseconds for which a conversion waits. Then it is refused with `overloaded`. */
    waitMs: 20_000,
    /** Bytes of an image that is converted. A larger one is refused with `image_too_large`. */
    sourceBytesMax: 26_214_400,
    /** Pixels of an image that is converted. One with more is refused with `image_too_large` before it is decoded. */
    pixelsMax: 50_000_000,
    /** Pixels of an AVIF image that is converted: it is decoded as a whole, in memory. One with more is refused with `image_too_large`. */
    avifPixelsMax: 16_000_000,
    /** Pixels of a side of a converted image. Longer sides are refused in the setting; an open side is scaled down to it. */
    sideMax: 2_560,
    /** Seconds that a conversion takes. Then it is ended, and refused with `image_too_large`. */
    timeoutSeconds: 15,
  },

  // Caches
  /**
   * Milliseconds for which a process uses what it has read of a credential: API key, account, client, revocation, state of the tenant.
   * Then it reads again. With `streamCheckMs`, below the 5 s within which a revocation takes effect everywhere.
   */
  credentialCacheMs: 3_500,
  /** Entries of each cache of credentials. The least recently used is dropped. */
  credentialsCachedMax: 10_000,
  /** Milliseconds for which a process uses settings that it has read. Then it reads again, within the same 5 s. */
  settingsCacheMs: 3_500,
  /** Bytes of the settings that a process caches. The least recently used are dropped. */
  settingsCacheBytesMax: 67_108_864,
  /** Keys for encrypting secrets that a process caches. The least recently used is derived again. */
  sealingKeysCachedMax: 2_000,

  // External issuers
  /** Issuers in the setting. More stop the process at its start. Setting: `OIDC_ISSUERS`. */
  externalIssuersMax: 100,
  /** Bytes of the key set of an issuer. A larger one is not read, and its tokens are refused. */
  jwksBytesMax: 262_144,

  // Metrics
  /** Milliseconds for which a scrape waits for the values of one source. Then it goes on without them. */
  observationMs: 2_000,

  /** Checks of the servers behind a process, for `/readyz` and the log. */
  health: {
    /** Milliseconds of one check. Then the part counts as failing: `timeout`. */
    checkMs: 2_000,
    /** Milliseconds for which the check of PostgreSQL waits for a connection of the pool. Then it opens one of its own. */
    poolMs: 500,
    /** Milliseconds for which a result is used, however many ask. Then the next who asks causes another check. */
    freshMs: 1_000,
    /** Milliseconds up to which an old result is reported while the next check runs. Then readers wait for the check. */
    staleMs: 15_000,
    /** Milliseconds between two checks if nobody asks. Then the parts are checked again. */
    pollMs: 5_000,
    /** Milliseconds after which a check without any outcome is given up. Then another one may begin. */
    abandonMs: 30_000,
  },

  /** The end of an API process, after `TENON_DRAIN_DELAY`. */
  drain: {
    /** Milliseconds between two looks for connections without a request. Then these are closed. */
    pollMs: 100,
    /** Milliseconds in which a connection that has sent nothing yet may send its request. Then it is closed. */
    firstRequestMs: 1_000,
    /** Milliseconds after which a client of an ended stream connects again, a random time between the two. Then it continues elsewhere. */
    reconnectMs: { min: 100, max: 2_000 },
  },

  // Logs that are appended in batches
  /** Milliseconds for which a row waits for others. Then they are stored together. */
  appendDelayMs: 50,
  /** Milliseconds after a failed append. Then it is tried again. */
  appendRetryMs: 1_000,
  /** Rows of one append. Further rows go with the next. */
  appendRowsMax: 500,

  // Event streams in Valkey
  /** Milliseconds for which a published event waits until a replica has it, with Sentinels. Then it is refused: `dependency_unavailable`. */
  replicaConfirmsMs: 2_000,
  /** Events that wait for that in a process. */
  replicaConfirmsPending: {
    /** Events of one tenant that wait for a replica. Further ones are refused with `dependency_unavailable`. */
    ofTenantMax: 128,
    /** Events of all tenants that wait for a replica. Further ones are refused with `dependency_unavailable`. */
    ofProcessMax: 256,
  },
  /** Events of a tenant's stream. Beyond them the oldest are dropped, and readers of these get a `gap`. */
  eventsKeptPerTenantMax: 100_000,
  /** Bytes of a tenant's stream, which each process that adds to it may exceed by 1/16. Then the oldest events are dropped. */
  eventsKeptBytesMax: 134_217_728,
  /** Parts of a stream's length: by one of them it may be too long. Then its oldest entries are dropped together. */
  streamSlackParts: 50,
  /** Topics of a stream whose newest dropped entry is remembered, about 200 kB. Beyond them, one entry stands for all topics. */
  droppedTopicsMax: 2_000,
  /** Entries of one read of a stream, at most 8 MiB together. Further ones are read next. */
  eventsReadAtOnceMax: 32,
  /** Listeners that get entries in one turn of the event loop. Then requests go first. */
  listenersPerTurnMax: 32,

  // Object store
  /** Sockets of a process to the object store. Further requests wait for one. */
  storeSocketsMax: 256,
  /** Sockets of these that one tenant may use. Its further requests wait for one. */
  storeSocketsPerTenantMax: 64,
  /** Milliseconds of opening a connection to the object store. Then the request fails, and is tried once more. */
  storeConnectMs: 2_000,
  /** Milliseconds of a request for a new bucket. Then it fails, and the creation tries again. */
  bucketAnswerMs: 3_000,
  /** Milliseconds of a request that opens a session. Then it is sent once more. */
  storeAnswerMs: 5_000,
  /** Milliseconds without a byte on a connection to a store. Then the request fails. */
  storeIdleMs: 60_000,
  /** Milliseconds that a session at the store lasts. Its process opens the next one after about 70 % of them. */
  storageSessionMs: 3_600_000,
  /** Clients that a process caches, one for each workspace. The least recently used is dropped, and its session with it. */
  storageClientsCachedMax: 1_000,
  /** Names of buckets that a process caches, one for each workspace. The least recently used is dropped. */
  storageBucketsCachedMax: 10_000,
  /** Milliseconds for which a process uses the name of a workspace's bucket. Then it reads it again. */
  storageBucketCacheMs: 60_000,

  // Log
  /** Bytes of log lines that wait while the output takes none, such as a file on a full disk. Further lines are lost, and counted. */
  logBufferBytesMax: 1_048_576,

  // Outgoing requests
  /** Milliseconds of an HTTP call of a flow whose task has no `timeout`. Then it fails with `upstream_timeout`. */
  httpCallTimeoutMs: 30_000,
  /** Bytes of the response of such a call, which in base64 are as large as an output may be. More fail with `output_too_large`. */
  httpCallBytesMax: 3_145_728,
  /** Connections that outgoing requests keep open. */
  keptConnections: {
    /** Milliseconds without a request, below the limit of common servers. Then the connection is closed. */
    idleMs: 4_000,
    /** Connections to one server that are kept. Further ones are closed after their request. */
    perServerMax: 16,
    /** Workspaces whose connections are kept. Those of the least recently used are closed. */
    workspacesMax: 1_000,
    /** Milliseconds for reading the rest of a response that is not needed. Then its connection is closed. */
    discardMs: 200,
  },

  // Temporal
  /** Requests of a process to Temporal, except those that only wait for the end of a run. */
  temporalCalls: {
    /** Milliseconds of one request. Then it is given up, and counts as refused by a server that is overloaded. */
    callMs: 5_000,
    /**
     * Requests at a time. Further ones wait. From `max` the number halves after a request that Temporal did not answer in time or
     * refused, down to `min`, and grows again by one with each round of answers.
     */
    atOnce: { min: 4, max: 64 },
    /** Share of these that one tenant may have. Its further requests wait. */
    tenantShare: 0.5,
    /** Milliseconds for which a request waits. Then it is refused with `overloaded`; the start of a recorded run is made later. */
    waitMs: 5_000,
    /** Starts of one tenant for each request that it may have at a time. The API refuses further ones with `rate_limited` (429). */
    startsPerRequest: 4,
    /** Milliseconds after a refused request until its place is free again, doubling between the two. Then the next one is sent. */
    pauseMs: { min: 100, max: 5_000 },
  },
  /** Starts of executions that go to a worker of the same machine at once with their request. */
  eagerStart: {
    /** Starts of one tenant at a time. Further ones take the usual way. */
    perTenantMax: 8,
    /** Starts at a time. Further ones take the usual way. */
    startsMax: 64,
    /** Milliseconds until the worker has taken a start. Then it takes the usual way, as do others during `pauseMs`. */
    waitMs: 1_000,
    /** Milliseconds after a start that the worker has not taken. Then starts go to the worker again. */
    pauseMs: 5_000,
    /** Milliseconds of one start, most of them at Temporal. Then it takes the usual way. Less than `temporalCalls.callMs`, which includes both. */
    answerMs: 4_000,
    /** Bytes of one start. More are refused, and the start takes the usual way. */
    bytesMax: 4_194_304,
  },
  /** Milliseconds since the last poll of a task queue. Then its worker counts as gone. */
  workerGoneMs: 75_000,
  /** Milliseconds for which a process remembers the task queues without a worker. Then it asks Temporal again. */
  idleQueuesCacheMs: 5_000,
  /** Archives of workspaces, which the object store keeps for a while. */
  archives: {
    /** Bytes of an archive that are written or read at once. Memory has one such part. */
    partBytes: 16_777_216,
    /** Milliseconds of one request to the object store. Then it is tried once more. */
    storeTimeoutMs: 60_000,
  },
  /** Milliseconds between two statements of a snapshot that is exported. Then PostgreSQL ends it, and the export begins anew. */
  snapshotIdleMs: 300_000,
  /** Encrypted payloads of workflows and activities. */
  payloads: {
    /** Bytes up to which compression costs more than it saves. Larger payloads are compressed. */
    plainBytesMax: 1_024,
    /** Bytes of an encoded payload in a history. A larger one goes to the object store. */
    inlineBytesMax: 131_072,
    /** Bytes of payloads from the object store that a process caches. The least recently used are dropped. */
    cacheBytesMax: 67_108_864,
    /** Days for which a tenant's key encrypts. Then a new one does; older ones still decrypt. */
    keyDays: 90,
    /** Milliseconds for which a process uses keys, also after they were destroyed. Then it reads them again. */
    keyCacheMs: 60_000,
    /** Tenants whose keys a process caches. The least recently used are dropped. */
    tenantsCachedMax: 5_000,
    /** Milliseconds of one request to the object store. Then it is tried again. */
    storeTimeoutMs: 4_000,
    /** Milliseconds of trying again while a server is unavailable. Then the task fails, and Temporal repeats it. */
    retryMs: { workflow: 6_000, activity: 15_000 },
  },
  /** OpenAPI documents that flows call, and that are sources of MCP tools. */
  openApi: {
    /** References from reference to reference (`$ref`). A part that has more is refused. */
    refsMax: 20,
    /** Characters of a reference. A part that has a longer one is refused. */
    refCharsMax: 1_000,
  },
} as const
