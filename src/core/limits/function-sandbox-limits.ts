/** Limits of the processes that run functions, and of what they exchange with the worker. Part of LIMITS (limits.ts). */

export const FUNCTION_SANDBOX_LIMITS = {
  functionSandbox: {
    /** Idle processes of one worker. Each holds some 70 MB, of which about 45 are shared. */
    idleProcessesMax: 32,
    /** Sum of the resident memory of idle processes, pages that they share counted each time. */
    idleMemoryMb: 2_048,
    idleMs: 60_000,
    sweepMs: 5_000,
    /** A process is replaced after these, which bounds what code can leak into its own later calls. */
    callsMax: 1_000,
    ageMs: 600_000,
    /** Time spent in calls. The limit of CPU time is for all calls of a process together. */
    busyMs: 120_000,
    /** The share of its memory limit above which an idle process is not used again. */
    reuseMemoryShare: 0.75,
    /** Slots that one tenant may hold, as a share of all. */
    tenantShare: 0.75,
    /** The share of these that HTTP requests may hold. */
    httpShare: 0.5,
    /** Calls of the host that an invocation may have open. The program in the process queues others. */
    callsOpenMax: 64,
    callsAtOnce: 16,
    fetchesAtOnce: 8,
    /** Arguments and bodies of open calls together. */
    bytesOpenMax: 12_582_912,
    callBytesMax: 4_194_304,
    /** Of all calls of an invocation together: the worker parses them on its event loop, which tenants share. */
    jsonBytesMax: 67_108_864,
    replyBytesMax: 16_777_216,
    headBytesMax: 262_144,
    bodyBytesMax: 10_485_760,
    /** Of a streamed body. */
    chunkBytesMax: 262_144,
    logLineBytesMax: 8_192,
    /** Added to each line when the log of a run is measured. */
    logLineCostBytes: 16,
    errorBytesMax: 65_536,
    fileNameCharsMax: 200,
    positionMax: 10_000_000,
  },
} as const
