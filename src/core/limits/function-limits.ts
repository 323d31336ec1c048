/** Limits of functions: sources, processes, runs, logs. Part of LIMITS (limits.ts). */

export const FUNCTION_LIMITS = {
  functionSourceBytesMax: 5_242_880,
  /** Of a deployment: source and source map with their escapes. */
  functionBodyBytesMax: 12_582_912,
  /** The map of a bundle: its JSON, its files, the characters of a name. `waitMs`: how long an error waits for its position. */
  functionSourceMap: {
    bytesMax: 5_242_880,
    sourcesMax: 10_000,
    nameCharsMax: 200,
    cpuMs: 3_000,
    waitMs: 3_000,
  },
  /** The compiled form, with its source map. */
  functionCompiledBytesMax: 25_165_824,
  /** A larger map is kept apart from the code, and read only for errors. */
  functionInlineMapBytesMax: 262_144,
  functionCompileMs: 15_000,
  /** The esbuild process. It collects garbage from `collectMb` on. */
  functionCompiler: { cpuSeconds: 10, memoryMb: 700, collectMb: 300 },
  functionCompilesAtOnce: 2,
  /** The newest versions of a function that are kept, and their bytes. */
  functionVersions: { countMax: 100, bytesMax: 268_435_456 },
  /** Of an exported constant: characters and depth of its value, and the CPU time of a worker thread for reading a module. */
  functionConstant: { charsMax: 16_384, depthMax: 32, cpuMs: 4_000 },
  /** How long the start of a run whose caller waits is attempted. */
  functionStartBudgetMs: 10_000,
  functionInputBytesMax: 1_048_576,
  functionResultBytesMax: 1_048_576,
  /** JSON of a result that the worker sends directly; those of larger ones come through Temporal. */
  functionDirectResultBytesMax: 65_536,
  /** `syncMax`: of a run whose caller waits. */
  functionTimeoutMs: { default: 10_000, syncMax: 60_000, max: 900_000 },
  functionConfig: {
    concurrencyMax: 1_000,
    envMax: 64,
    secretsMax: 32,
    egressMax: 50,
    scopesMax: 20,
    topicsMax: 20,
    triggersMax: 10,
    retriesMax: 10,
  },
  functionTriggers: {
    scheduleInputBytesMax: 16_384,
    /** Runs of one function that events have started and that have not ended. At this number, further events wait. */
    inFlightMax: 100,
    /** The same for a function with `concurrency`, as a multiple of it. */
    inFlightFactor: 2,
  },
  /** The pauses between the attempts of a run double from `minMs` to `maxMs`. */
  functionRetry: { minMs: 1_000, maxMs: 60_000 },
  /** How often lines are stored while a run goes on. */
  functionLogFlushMs: 250,
  /** How long the record of the end of a run is tried while the database is unavailable. */
  functionRecordMs: 10_000,
  functionMemoryMb: { min: 64, default: 128, max: 512 },
  /** Resident memory of an idle process, most of it shared. */
  functionMemoryBaseMb: 96,
  functionMemoryPollMs: 25,
  /** How often followers of a run, and callers that wait for a slot, read it without a notification. */
  runWatchPollMs: 2_000,
  /** Lines that are read at once for a follower. */
  functionLogLinesReadAtOnce: 500,
  /** Dead letters that one call runs again, and those that it looks at: it passes over those that it refuses. */
  functionRedrivesAtOnce: 100,
  functionRedrivesSeenMax: 500,
  /** Queued runs of a function that one process starts at once, before the reconciler starts others. */
  runStartsAtOnce: 20,
  /** How long runs are kept by default; expired ones that one statement removes. */
  functionRetention: {
    runs: '7d',
    deadLetters: '30d',
    batchMax: 200,
  },
  /** Of a process in all its calls: ends it if the worker cannot. Above the longest timeout, since several threads add up. */
  functionCpuSecondsMax: 1_800,
  functionLogBytesMax: 65_536,
  functionLogShownBytesMax: 8_192,
  /** Output besides console and result after which a function is killed. */
  functionNoiseBytesMax: 1_048_576,
  /** Of the platform and of other servers, that one attempt may make. */
  functionCallsMax: 1_000,
  /** Of `fetch`, as browsers follow them; beside the bodies of requests and responses. */
  functionFetch: { redirectsMax: 5, urlCharsMax: 16_384, bytesMax: 10_485_760 },
  /** Code of versions that a worker keeps, in bytes. */
  functionCodeCacheBytes: 67_108_864,
  /** Of an error that code throws: its message and its name, which are cut. */
  functionMessageCharsMax: 2_000,
  functionErrorNameCharsMax: 200,
  functionStartMs: 10_000,
  /** How long an invocation waits for a slot before it is rejected. */
  functionQueueMs: 20_000,
  /** The longest timeout of a run whose attempt is made within a workflow task. */
  functionInlineMsMax: 10_000,
  /** How long each attempt of an asynchronous run waits for a slot. */
  functionAsyncQueueMs: 3_600_000,
  /** The pauses of an asynchronous run for which no slot was free double from `minMs` to `maxMs`. */
  functionAsyncPause: { minMs: 1_000, maxMs: 15_000 },
  functionHeartbeatMs: 10_000,
  functionSlotsPerCore: 8,
  /** Activities that a worker takes, for each slot: those that wait must not keep it from taking another tenant's. */
  functionActivitiesPerSlot: 4,
  functionWarmProcesses: 2,
  /** Per process: the engine has about 10 and one per CPU, each Worker one or two. */
  functionThreadsMax: 256,
  functionProbeMs: 2_000,
  /**
   * Requests that functions serve over HTTP. Bodies are bytes of one direction. A chunk is sent when the other process has asked
   * for it: at most `windowChunks` of an exchange are under way, and together `bytesUnderWayMax` for one process.
   */
  functionHttp: {
    bodyBytesMax: 104_857_600,
    headBytesMax: 16_384,
    headersMax: 100,
    chunkBytesMax: 65_536,
    windowChunks: 4,
    bytesUnderWayMax: 16_777_216,
    /** How often the worker checks that the process with the client's connection is there. */
    pingMs: 2_000,
    /** How long that process may take to answer. */
    answerMs: 4_000,
    /** How long the end of a body may come after that of its run. */
    endMs: 5_000,
  },
} as const
