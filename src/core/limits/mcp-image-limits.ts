/** Limits of container images as sources of MCP tools. They are a member of `LIMITS`. */
export const MCP_IMAGE_LIMITS = {
  mcpImages: {
    referenceCharsMax: 400,
    argumentsMax: 50,
    argumentCharsMax: 1_000,
    envMax: 50,
    /** Bounds of the `limits` of a source: memory in MiB, CPU cores, processes and threads, seconds per call. */
    memoryMb: { min: 32, max: 1_024, default: 256 },
    cpus: { min: 0.1, max: 2, default: 0.5 },
    pids: { min: 8, max: 256, default: 64 },
    timeoutSeconds: { min: 1, max: 30, default: 20 },
    /** Size of the only folder that a container may write to. It counts as memory of the container. */
    tmpMb: 64,
    openFilesMax: 1_024,
    /** Containers of a workspace and of a process of the platform at the same time, and how long a call waits for one. */
    ofWorkspaceMax: 4,
    ofProcessMax: 32,
    waitMs: 5_000,
    /** One message of a server, and all that it writes during a call. Of its errors the last part is kept. */
    messageBytesMax: 4_194_304,
    outputBytesMax: 8_388_608,
    messagesMax: 10_000,
    errorBytesMax: 2_000,
    /** Commands of the engine other than `run`. */
    engineCommandMs: 10_000,
    engineAnswerBytesMax: 65_536,
  },
} as const
