/** What bounds the calls of flows to servers elsewhere. */

export const CALL_LIMITS = {
  httpCallTimeoutMs: 30_000,
  /** In base64 it is as much as a step may give. */
  httpCallBytesMax: 3_145_728,
  /** Shorter than servers keep them; for how many of the workspaces that asked last. */
  keptConnections: { idleMs: 4_000, perServer: 16, ownersMax: 1_000 },
  /** Of an issuer, for a token or its discovery document; a token ends so much earlier than it says. */
  tokenAnswerBytesMax: 65_536,
  tokenLeewayMs: 10_000,
  /** In the memory of one worker. */
  runTokensMax: 2_000,
  tokenCharsMax: 8_192,
  openApi: {
    documentBytesMax: 8_388_608,
    /** YAML takes far longer to read than JSON; how long at most, how many at once, and how long for a turn. */
    yamlBytesMax: 2_097_152,
    yamlMs: 5_000,
    yamlAtOnce: 2,
    yamlWaitMs: 10_000,
    timeoutMs: 15_000,
    keptMs: 300_000,
    keptBytesMax: 16_777_216,
    /** `$ref` to `$ref` to … */
    refsMax: 20,
    refCharsMax: 1_000,
  },
} as const
