/** Bounds of flows: runs, calls, executions, payloads in Temporal, secrets, triggers and watchers. Part of LIMITS (limits.ts). */

export const FLOW_LIMITS = {
  // Runs
  /** Of a call, and of a flow: whoever reads it holds all of it. Temporal has no part in this (payloads.ts). */
  stepOutputBytesMax: 4_194_304,
  /** Of what a call answered, as it is kept with its step, for reruns and simulations. */
  stepAnswerCharsMax: 65_536,
  /** What a run takes over from the one that it repeats. */
  reuse: { stepsMax: 1_000, bytesMax: 393_216 },
  /** How deep flows that flows run may go. */
  subflowDepthMax: 8,
  scheduleNoteCharsMax: 500,
  /** What a flow hands to one call, and to all calls under way, which its worker holds. */
  stepInputBytesMax: 4_194_304,
  callsUnderWayBytesMax: 33_554_432,
  /** Of that, what does not go to the object store: it may leave in one message, which Temporal takes up to 4 MB. */
  callsSentBytesMax: 3_500_000,
  /** Of one workflow task, which has ten seconds: the next is a task of its own, and ends it. */
  localCallsMax: 100,
  /** Requests that change nothing, beside their runs. */
  briefCalls: {
    /** How long one may last, and all of a task that follow each other. */
    lastMs: 300,
    taskMs: 1_000,
    /** Of one tenant in a worker, and how long the next waits for that. */
    atOnce: 16,
    waitMs: 250,
    /** Who was slow is not asked so for a while: twice as long each time, up to this, until he is brief again. */
    slowMinMs: 1_000,
    slowMaxMs: 64_000,
    slowKept: 10_000,
    /** A run that found no place has so many calls with a task each before it asks again; twice as many the next time. */
    restMin: 4,
    restMax: 256,
  },
  /** For how long a run that waits keeps a place that it would give back: others wait for it meanwhile. */
  placeKeptMs: 250,
  /** How long a task waits for the end of a record, longer than Temporal waits for the task; and how long that is tried in all. */
  records: { holdMs: 15_000, patienceMs: 600_000 },
  /** Of a worker: more than wait for servers elsewhere, so that they hold up no record. */
  localCallSlots: 250,
  /** Temporal ends a run without a word at 51,200 events or 50 MiB of history. */
  runEventsMax: 48_000,
  runHistoryBytesMax: 44_040_192,
  /** An input, an event, a decision; the body that brings one may have a little more around it. */
  runInputBytesMax: 4_194_304,
  runBodyBytesMax: 4_456_448,
  runInputDepthMax: 64,
  /** Of the schema of a flow's input, before it is started: some 10 ms. */
  inputCheckSteps: 50_000,

  // Calls to other servers
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

  // Executions
  /** Versions that one alias of a flow means, and the weight of each. */
  aliases: { versionsMax: 10, weightMax: 1_000_000 },
  /**
   * How often whoever mends looks, and how much at a time; when an execution that lasts is asked for again, and one that
   * should have begun, or keeps others waiting; how long a schedule is given to begin its own.
   */
  mending: { pollMs: 1_000, atOnce: 50, againSeconds: 300, soonSeconds: 5, scheduleSeconds: 60 },

  // Payloads in Temporal
  payloads: {
    /** Up to here compressing costs more than it saves. */
    plainBytesMax: 1_024,
    /** As it is encoded; a larger one is kept in the object store. */
    inlineBytesMax: 131_072,
    /** Of what was there, in the memory of one process. */
    keptBytesMax: 67_108_864,
    /** Then a tenant gets a new key; older ones still decrypt. */
    keyDays: 90,
    /** How long a process may go on with keys that were destroyed. */
    keyCacheMs: 60_000,
    tenantsCachedMax: 5_000,
    /** Of one request of somebody who looks at them. */
    decodedAtOnceMax: 1_000,
    storeTimeoutMs: 4_000,
    /** How long a worker asks for a server that is away: less than Temporal gives it for a task, or for a short call. */
    patienceMs: { workflow: 6_000, activity: 15_000 },
  },

  // Secrets
  flowSecretsMax: 200,
  /** Of the value as JSON. */
  flowSecretBytesMax: 16_384,
  /** Texts in one value that is an object or a list, and how deep they lie. */
  flowSecretTextsMax: 16,
  flowSecretDepthMax: 4,
  /** A shorter text cannot be told from other texts in an answer. */
  flowSecretCharsMin: 8,

  // Webhooks and event triggers
  /** How far the time of a webhook may be from our clock, on both sides. */
  webhookToleranceMs: 300_000,
  /** As much as the input of a run may have. */
  webhookBodyBytesMax: 524_288,
  /** Of a header that a run is shown. */
  webhookHeaderCharsMax: 1_000,
  /** How long a secret that was rotated is still good. */
  webhookGraceSeconds: 86_400,
  /** For so long a delivery that comes again starts nothing; and how many older ones go with each that is new. */
  webhookDeliveriesKeptDays: 30,
  webhookDeliveriesForgottenAtOnce: 20,
  /** Who has signed well is remembered, so that neighbours of its address do not get it refused. */
  webhookSendersKnownMax: 10_000,
  /** How often a flow may begin by an event of a flow that began by an event of a flow … */
  eventHopsMax: 16,
  /** How often it is looked which triggers there are, and, where nothing is heard, whether there is anything. */
  watchRefreshMs: 1_000,
  watchIdleMs: 5_000,
  /** How soon a trigger tries again that could not begin a run. */
  watchRetryMs: { min: 250, max: 30_000 },
  /** Of the time of the thread, at most a fourth for the filters of one trigger. */
  watchRestFactor: 3,

  // Recorded executions and their watchers
  executionStepsShownMax: 1_000,
  /** The newest are kept; who asks for older ones is told of the gap. */
  executionEventsMax: 12_000,
  executionEventsReadAtOnce: 500,
  executionErrorShownCharsMax: 1_000,
  /** How often the executions that somebody watches are looked at although nothing was heard of them, all at once. */
  lookoutPollMs: { min: 300, max: 1_200 },
} as const
