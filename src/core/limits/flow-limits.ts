/** Limits of flows: executions, calls, payloads in Temporal, secrets, triggers, watchers. Part of LIMITS (limits.ts). */

export const FLOW_LIMITS = {
  // Runs
  /** Output of a call or a flow; readers hold all of it in memory. Independent of Temporal, which stores a reference. */
  stepOutputBytesMax: 4_194_304,
  /** The result of a call as recorded with its step, for reruns and simulations. */
  stepAnswerCharsMax: 65_536,
  /** Each of input, arguments and output as recorded with a step, for people. */
  stepDataCharsMax: 4_096,
  /** How long a decision waits for its record, how long links are valid without a deadline, and how mails are sent. */
  approvals: {
    recordedMs: 3_000,
    linkDays: 30,
    mailPollMs: 1_000,
    mailsAtOnce: 50,
    mailRetrySeconds: 30,
    workspacesSeenMax: 200,
    /** Tries of a mail that is refused for now, each after twice the time: about two hours. */
    mailTriesMax: 8,
    sessionSeconds: 3_600,
    mailsShown: 50,
  },
  /** Results that a rerun reuses. */
  reuse: { stepsMax: 1_000, bytesMax: 393_216 },
  /** Nesting of flows that run flows. */
  subflowDepthMax: 8,
  scheduleNoteCharsMax: 500,
  /** A list reads this many schedules at once in Temporal, for at most this time. */
  scheduleReads: { atOnce: 10, ms: 2_000 },
  /** Arguments of one call, and of all calls in flight, which the worker holds in memory. */
  stepInputBytesMax: 4_194_304,
  callsUnderWayBytesMax: 33_554_432,
  /** The part of these that does not go to the object store, in the gRPC message of one workflow task (4 MB); further calls wait. */
  callsSentBytesMax: 3_500_000,
  /** Per workflow task, which may take 10 s; a further call is an activity, which ends the task. */
  localCallsMax: 100,
  /** Inline calls: safe requests made within the workflow task. */
  inlineCalls: {
    /** Timeout of one call, and of all consecutive calls of a task. */
    lastMs: 300,
    taskMs: 1_000,
    /** Per tenant and worker, and how long the next call waits. */
    atOnce: 16,
    waitMs: 250,
    /** A slow server is not called inline for a while; the time doubles up to the maximum until it is fast again. */
    slowMinMs: 1_000,
    slowMaxMs: 64_000,
    slowKept: 10_000,
    /** After a failed inline attempt, make 4 calls as activities before trying inline again; doubles to 256. */
    skipMin: 4,
    skipMax: 256,
  },
  /** Executions that queue for the slots of one key of a flow. */
  queuedExecutionsMax: 10_000,
  /** How long an execution that waits keeps its slot before it yields it (`holdWhileWaiting: false`). */
  slotGraceMs: 250,
  /** How long a task waits until its record is written (longer than Temporal's task timeout), and how long writing is retried. */
  recordRetry: { holdMs: 15_000, patienceMs: 600_000 },
  /** Per worker: more than calls that wait for other servers, so that these never delay a record. */
  localCallSlots: 250,
  /** Temporal terminates a workflow at 51,200 events or 50 MiB of history. */
  runEventsMax: 48_000,
  runHistoryBytesMax: 44_040_192,
  /** An input, an event or a decision; the request body may be slightly larger. */
  runInputBytesMax: 4_194_304,
  runBodyBytesMax: 4_456_448,
  runInputDepthMax: 64,
  /** Steps of validating the input of a flow before it starts, about 10 ms. */
  inputCheckSteps: 50_000,

  // Calls to other servers
  /** Of a call whose task has no `timeout`, and the longest `timeout`. */
  httpCallTimeoutMs: 30_000,
  httpCallTimeoutMsMax: 900_000,
  /** How much longer the activity of a call may take. */
  httpCallGraceMs: 15_000,
  /** The silence after which the worker of a call counts as lost: if the call is repeated then, and if it is not. */
  callHeartbeatMs: 10_000,
  singleCallHeartbeatMs: 60_000,
  /** The age of the last poll of a task queue at which its worker counts as gone, and how long a process knows which queues have none. */
  workerGoneMs: 75_000,
  idleQueuesKeptMs: 5_000,
  /** A call that is sent so long after it was scheduled asks Temporal before if it was cancelled meanwhile. */
  cancelCheckAfterMs: 250,
  /** `$error.response`: how much of the body is read, and how much of content and headers is kept. */
  errorResponse: { readBytesMax: 65_536, contentBytesMax: 12_288, headersBytesMax: 4_096 },
  /** In base64, as large as the output of a step may be. */
  httpCallBytesMax: 3_145_728,
  /** Keep-alive connections: idle time (below that of common servers), per server, for how many workspaces; the rest of a response. */
  keptConnections: { idleMs: 4_000, perServer: 16, ownersMax: 1_000, discardMs: 200 },
  /** The response of an OAuth issuer; and how long before its expiry a token is renewed. */
  tokenAnswerBytesMax: 65_536,
  tokenLeewayMs: 10_000,
  /** Cached per worker. */
  runTokensMax: 2_000,
  tokenCharsMax: 8_192,
  openApi: {
    documentBytesMax: 8_388_608,
    /** Parsing YAML is far slower than JSON: size, and CPU time in a worker thread. */
    yamlBytesMax: 2_097_152,
    yamlCpuMs: 5_000,
    timeoutMs: 15_000,
    cacheTtlMs: 300_000,
    cacheBytesMax: 16_777_216,
    /** `$ref` to `$ref` to … */
    refsMax: 20,
    refCharsMax: 1_000,
  },

  // Executions
  /** Versions of one alias, and the weight of each. */
  aliases: { versionsMax: 10, weightMax: 1_000_000 },
  /**
   * Workspaces, executions and steps at once; the pause of a workspace between two looks, and how long one kind of runs is removed in
   * one look; the bounds of the period.
   */
  retention: {
    workspacesAtOnce: 8,
    batchMax: 50,
    stepsAtOnce: 50,
    pauseSeconds: 300,
    servedMs: 15_000,
    minMs: 3_600_000,
    maxMs: 315_360_000_000,
  },
  /** Workspaces that one round looks at and serves, and the events of each kind that one workspace gets. */
  alerts: { workspacesSeenMax: 1_000, workspacesMax: 50, eventsMax: 200 },
  /**
   * Poll interval and items under way of each task of the reconciler; after how long an open execution is checked again, and one
   * that has not started or that blocks a queue; how long a schedule has to start its own executions.
   */
  reconciler: {
    pollMs: 1_000,
    atOnce: 50,
    recheckSeconds: 300,
    firstCheckSeconds: 5,
    scheduleSeconds: 60,
    runSeconds: 30,
    /** One round looks at so many workspaces, queues of each, executions that hold the slots of a queue, and unstarted slots. */
    workspacesSeenMax: 200,
    queuesSeenMax: 10,
    holdersMax: 10,
    slotsSeenMax: 500,
  },

  // Payloads in Temporal
  payloads: {
    /** Up to this size, compression costs more than it saves. */
    plainBytesMax: 1_024,
    /** Encoded size; a larger payload goes to the object store. */
    inlineBytesMax: 131_072,
    /** Cache of payloads from the object store, per process. */
    cacheBytesMax: 67_108_864,
    /** After this, a tenant gets a new key; older ones still decrypt. */
    keyDays: 90,
    /** How long a process may use keys after they were destroyed. */
    keyCacheMs: 60_000,
    tenantsCachedMax: 5_000,
    /** Per request of the payload viewer or codec. */
    decodedAtOnceMax: 1_000,
    storeTimeoutMs: 4_000,
    /** Retry time while a server is unavailable: below Temporal's timeout of a workflow task, and of a short activity. */
    patienceMs: { workflow: 6_000, activity: 15_000 },
  },

  // Secrets
  flowSecretsMax: 200,
  /** Of the value as JSON. */
  flowSecretBytesMax: 16_384,
  /** Strings in a value that is an object or a list, and its depth. */
  flowSecretTextsMax: 16,
  flowSecretDepthMax: 4,
  /** A shorter secret cannot be distinguished from other text in a response. */
  flowSecretCharsMin: 8,

  // Webhooks and event triggers
  /** Of steps that a compensation has undone, and of its failures, as the record of an execution keeps them. */
  compensationStepsMax: 1_000,
  /** Maximum difference between the timestamp of a webhook and our clock, in both directions. */
  webhookToleranceMs: 300_000,
  /** Of the body of a webhook. */
  webhookBodyBytesMax: 524_288,
  /** Of a header in the input of the execution. */
  webhookHeaderCharsMax: 1_000,
  /** How long a rotated secret stays valid. */
  webhookGraceSeconds: 86_400,
  /** How long a repeated delivery starts nothing; and how many expired ones each new delivery deletes. */
  webhookDeliveriesKeptDays: 30,
  webhookDeliveriesForgottenAtOnce: 20,
  /** Senders with a valid signature are remembered, so that failures behind the same address do not block them. */
  webhookSendersKnownMax: 10_000,
  /** Maximum chain depth: flows that start each other by events. */
  chainDepthMax: 16,
  /** Interval at which the list of triggers is read, and at which a stream without notifications is polled. */
  watchRefreshMs: 1_000,
  watchIdleMs: 5_000,
  /** Retry interval of a trigger that could not start an execution. */
  watchRetryMs: { min: 250, max: 30_000 },
  /** Pause after evaluating filters, as a multiple of their CPU time: a trigger takes at most 1/4 of the thread. */
  consumerIdleFactor: 3,
  /** Pause of a trigger that has as many runs in flight as it may have. */
  consumerFullMs: 500,

  /**
   * Events that executions wait for: past ones read per call (number, size, time); executions that one lookup finds per
   * subscribed value; concurrent signals per workspace; size of the events in one signal.
   */
  subscriptions: {
    pastMax: 200,
    pastBytesMax: 524_288,
    pastMs: 10_000,
    foundMax: 200,
    signalsAtOnce: 16,
    signalBytesMax: 1_048_576,
  },

  // Recorded executions and their watchers
  executionStepsShownMax: 1_000,
  /** The newest events are kept; a reader of older ones gets a `gap`. */
  executionEventsMax: 12_000,
  executionEventsReadAtOnce: 500,
  executionErrorShownCharsMax: 1_000,
  /** Poll interval for all watched executions together, in case a notification was lost. */
  watchPollMs: { min: 300, max: 1_200 },
} as const
