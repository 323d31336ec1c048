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
  /** How often followers of a run, and callers that wait for a slot, read it without a notification. */
  functionWatchPollMs: 2_000,
  /** Lines that are read at once for a follower. */
  functionLogLinesReadAtOnce: 500,
  /** Dead letters that one call runs again. */
  functionRedrivesAtOnce: 100,
  /** How long runs are kept by default. The reconciler looks at `workspacesSeenMax` workspaces in one round. */
  functionRetention: {
    runs: '7d',
    deadLetters: '30d',
    batchMax: 200,
    pauseMs: 5_000,
    workspacesSeenMax: 200,
  },
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
  /** The same for a run that nobody waits for. */
  functionAsyncQueueMs: 3_600_000,
  functionHeartbeatMs: 10_000,
  functionSlotsPerCore: 4,
  functionWarmProcesses: 2,
  /** Per process: the engine has about 10 and one per CPU, each Worker one or two. */
  functionThreadsMax: 256,
  functionProbeMs: 2_000,
} as const
