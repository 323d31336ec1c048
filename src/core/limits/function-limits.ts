/** Limits of functions: sources, processes, runs, logs. Part of LIMITS (limits.ts). */

export const FUNCTION_LIMITS = {
  functionSourceBytesMax: 262_144,
  /** The compiled form, with its source map. */
  functionCompiledBytesMax: 1_048_576,
  functionCompileMs: 5_000,
  functionCompilesAtOnce: 2,
  /** Of an exported `tool`: characters and depth of its value, and the CPU time of a worker thread for reading it. */
  functionTool: { charsMax: 16_384, depthMax: 32, cpuMs: 2_000 },
  functionInputBytesMax: 1_048_576,
  functionResultBytesMax: 1_048_576,
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
  /** The pauses between the attempts of a run double from `minMs` to `maxMs`. */
  functionRetry: { minMs: 1_000, maxMs: 60_000 },
  /** How often lines are stored while a run goes on. */
  functionLogFlushMs: 250,
  functionMemoryMb: { min: 64, default: 128, max: 512 },
  /** Resident memory of an idle process, most of it shared. */
  functionMemoryBaseMb: 96,
  functionMemoryPollMs: 25,
  /** Of a process in all its calls: ends it if the worker cannot. Above the longest timeout, since several threads add up. */
  functionCpuSecondsMax: 1_800,
  functionLogBytesMax: 65_536,
  functionLogShownBytesMax: 8_192,
  /** Output besides console and result after which a function is killed. */
  functionNoiseBytesMax: 1_048_576,
  functionMessageCharsMax: 2_000,
  functionStartMs: 10_000,
  /** How long an invocation waits for a slot before it is rejected. */
  functionQueueMs: 20_000,
  /** The longest timeout of a run whose attempt is made within a workflow task. */
  functionInlineMsMax: 10_000,
  functionHeartbeatMs: 10_000,
  functionSlotsPerCore: 4,
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
    /** How long the end of a body may come after that of its run. */
    endMs: 5_000,
  },
} as const
