/** Limits of flows: definitions, executions, calls, approvals, secrets, and what follows executions. */

export const FLOW_LIMITS = {
  // Definitions
  /** Bytes of the source of a flow. A larger one is refused with `validation_failed` or `flow_invalid`. */
  sourceBytesMax: 262_144,
  /** Milliseconds of CPU time of a worker thread for compiling or simulating a flow. Then it is refused with `flow_too_costly`. */
  compileCpuMs: 5_000,
  /** Secrets of a workspace. A further one is refused. */
  secretsMax: 200,
  /** Bytes of a secret's value as JSON. More are refused. */
  secretBytesMax: 16_384,
  /** Strings in a value that is an object or a list. More are refused. */
  secretStringsMax: 16,
  /** Levels of nesting of a value. More are refused. */
  secretDepthMax: 4,
  /** Characters of a secret, since a shorter one cannot be distinguished from other text in a response. A shorter one is refused. */
  secretCharsMin: 8,

  // Start and input
  /** Bytes of an input, an event or a decision as JSON. More are refused with `body_too_large` (413). */
  inputBytesMax: 4_194_304,
  /** Bytes of the body of a request with such an input, slightly more. More are refused with `body_too_large` (413). */
  inputBodyBytesMax: 4_456_448,
  /** Levels of flows that run flows. A deeper one fails the step. */
  subflowDepthMax: 8,
  /** Executions that queue for the slots of one key of a flow. A further one is refused with `concurrency_limited`. */
  queuedExecutionsMax: 10_000,
  /** Milliseconds for which an execution that waits keeps its slot (`holdWhileWaiting: false`). Then it yields it. */
  slotGraceMs: 250,

  // The workflow of an execution
  /** Events of a workflow's history, of which Temporal allows 51,200. Then the execution fails. */
  historyEventsMax: 48_000,
  /** Bytes of a workflow's history, of which Temporal allows 50 MiB. Then the execution fails. */
  historyBytesMax: 44_040_192,
  /** Calls per workflow task that are made within it, since a task may take 10 s. A further one is an activity, which ends the task. */
  localCallsMax: 100,
  /** Calls within workflow tasks at a time in a worker; more than calls that wait for servers, so that these delay no record. Further ones wait. */
  localCallsAtOnceMax: 250,
  /** Bytes of the arguments of one call. More fail the call. */
  stepInputBytesMax: 4_194_304,
  /** Bytes of the arguments of all calls in flight, which the worker holds in memory. A call with more fails. */
  callsInFlightBytesMax: 33_554_432,
  /** Bytes of these that are in the gRPC message of one workflow task (4 MB). Further calls wait for the next task. */
  callsSentBytesMax: 3_500_000,
  /** Calls with safe methods that are made within the workflow task. */
  inlineCalls: {
    /** Milliseconds of one call. Then it is made as an activity. */
    timeoutMs: 300,
    /** Milliseconds of all consecutive calls of a task. Then further calls are activities. */
    taskMs: 1_000,
    /** Calls at a time per tenant and worker. A further one waits. */
    callsMax: 16,
    /** Milliseconds for which such a call waits. Then it is made as an activity. */
    waitMs: 250,
    /** Milliseconds for which a slow server is not called inline, doubling between the two until it is fast. Then it is tried again. */
    slowMs: { min: 1_000, max: 64_000 },
    /** Servers that a worker remembers as slow. The least recently used is forgotten. */
    slowServersCachedMax: 10_000,
    /** Calls that are activities after a failed inline attempt, doubling between the two. Then a call is inline again. */
    skippedCalls: { min: 4, max: 256 },
  },
  /** Steps that a compensation has undone, and its failures, in the record of an execution. Further ones are left out. */
  compensationStepsMax: 1_000,

  // Calls to other servers
  /** Milliseconds of the longest `timeout` of a task's call. A longer one counts as this. */
  callTimeoutMsMax: 900_000,
  /** Milliseconds by which the activity of a call may take longer. Then Temporal counts its worker as lost. */
  callGraceMs: 15_000,
  /** Milliseconds for which a flow starts a function or a subflow, and waits for the function. Then its step fails. */
  startLimitMs: 3_600_000,
  /** Attempts of such a start that fail for another reason than a server that is away or overloaded. Then its step fails. */
  startAttemptsMax: 8,
  /** Milliseconds without a sign of the worker of a call that may be repeated. Then it is repeated. */
  callHeartbeatMs: 10_000,
  /** Milliseconds without a sign of the worker of a call that may not be repeated. Then it fails. */
  singleCallHeartbeatMs: 60_000,
  /** Milliseconds between scheduling a call and sending it. If it is later, Temporal is asked before whether it was cancelled. */
  cancelCheckAfterMs: 250,
  /** The response of a failed call, as `$error.response`. */
  errorResponse: {
    /** Bytes of the body that are read. Further ones are left out. */
    readBytesMax: 65_536,
    /** Bytes of the content that are kept. Further ones are cut. */
    contentBytesMax: 12_288,
    /** Bytes of the headers that are kept. Further headers are left out. */
    headersBytesMax: 4_096,
  },
  /** Bytes of the response of an OAuth issuer. More fail the call. */
  tokenResponseBytesMax: 65_536,
  /** Characters of an access token. A longer one fails the call. */
  tokenCharsMax: 8_192,
  /** Milliseconds before the expiry of an access token. Then a new one is fetched. */
  tokenLeewayMs: 10_000,
  /** Access tokens that a worker caches. The least recently used is dropped. */
  tokensCachedMax: 2_000,
  /** OpenAPI documents that calls name. */
  openApi: {
    /** Bytes of a document. A larger one fails the call. */
    documentBytesMax: 8_388_608,
    /** Bytes of a document in YAML, whose parsing is far slower than JSON. A larger one fails the call. */
    yamlBytesMax: 2_097_152,
    /** Milliseconds of CPU time of parsing YAML in a worker thread. Then the call fails. */
    yamlCpuMs: 5_000,
    /** Milliseconds of fetching a document. Then the call fails. */
    timeoutMs: 15_000,
    /** Milliseconds for which a worker uses a document. Then it fetches it again. */
    cacheMs: 300_000,
    /** Bytes of the documents that a worker caches. The least recently used is dropped. */
    cacheBytesMax: 16_777_216,
  },

  // The record of an execution
  /** Characters of input, arguments and output each as recorded with a step, for people. Longer ones are cut. */
  stepDataCharsMax: 4_096,
  /** Characters of the result of a call as recorded with its step, for reruns and simulations. A longer one is not kept. */
  stepResultCharsMax: 65_536,
  /** Events of an execution that are kept. The oldest are deleted, and a reader of these gets a `gap`. */
  eventsKeptMax: 12_000,
  /** Events that one statement reads for a follower. Further ones are read next. */
  eventsReadMax: 500,
  /** Steps of an execution that one response has. Further ones are on the pages of its steps. */
  stepsReturnedMax: 1_000,
  /** Characters of the error of an execution as its record shows it. A longer one is cut. */
  errorCharsMax: 1_000,
  /** Writing records while the database is unavailable. */
  recordRetry: {
    /** Milliseconds for which a workflow task waits, longer than its timeout, so that another worker takes it. Then it goes on. */
    taskMs: 15_000,
    /** Milliseconds of trying again in the background. Then the reconciler writes the record. */
    backgroundMs: 600_000,
  },
  /** Milliseconds between two reads of an execution that a call follows. Then it is read again. */
  followPollMs: 500,

  // Reruns, corrections, approvals
  /** Results that a rerun or a simulation reuses. */
  reuse: {
    /** Steps with such a result. More are refused. */
    stepsMax: 1_000,
    /** Bytes of such results together. More are refused. */
    bytesMax: 393_216,
  },
  approvals: {
    /** Milliseconds for which a decision waits for its record. Then the response shows the approval as open. */
    recordMs: 3_000,
    /** Days for which the link of an approval without a deadline is valid. Then it opens nothing. */
    linkDays: 30,
    /** Milliseconds between two rounds of sending mails. Then the next round starts. */
    mailPollMs: 1_000,
    /** Mails under way at a time. Further ones are sent when these are done. */
    mailsMax: 50,
    /** Seconds after a mail was refused for now, twice as many each time. Then it is tried again. */
    mailRetrySeconds: 30,
    /** Attempts at such a mail, about two hours. Then it is given up. */
    mailAttemptsMax: 8,
    /** Workspaces at which one round looks. The next round goes on after them. */
    workspacesSeenMax: 200,
  },

  // Triggers
  /** Characters of the note on a schedule. A longer one is refused with `validation_failed`. */
  scheduleNoteCharsMax: 500,
  /** Schedules that a list reads in Temporal at a time. Further ones are read next. */
  scheduleReadsMax: 10,
  /** Milliseconds of reading schedules for a list. Then the others are listed without their times. */
  scheduleReadMs: 2_000,
  /** Events that executions wait for. */
  subscriptions: {
    /** Events of the past that one call reads. Then it goes on with new ones. */
    pastEventsMax: 200,
    /** Bytes of the past that one call reads. Then it goes on with new ones. */
    pastBytesMax: 524_288,
    /** Milliseconds of reading the past in one call. Then it goes on with new ones. */
    pastMs: 10_000,
    /** Executions that one lookup finds per value. Further ones are found by the next. */
    executionsFoundMax: 200,
    /** Signals at a time in a workspace. Further ones are sent next. */
    signalsMax: 16,
    /** Bytes of the events in one signal. Further events are in the next. */
    signalBytesMax: 1_048_576,
  },

  // Background tasks
  /** Seconds that a schedule has to start its own executions. Then the reconciler starts them. */
  scheduleStartSeconds: 60,
  /** Removing executions that a workspace no longer keeps. */
  retention: {
    /** Executions that one statement removes. Further ones are removed next. */
    executionsMax: 50,
    /** Steps that are read at a time for the archive of an execution. Further ones are read next. */
    stepsReadMax: 50,
  },
  /** Events about executions that are late. */
  alerts: {
    /** Workspaces at which one round looks. The next round goes on after them. */
    workspacesSeenMax: 1_000,
    /** Workspaces that one round serves. Further ones are served next. */
    workspacesMax: 50,
    /** Events of each kind that one workspace gets in a round. Further ones are published next. */
    eventsMax: 200,
  },

  // Payloads of the Temporal UI
  codec: {
    /** Payloads of a request to the codec. More are refused with `validation_failed`. */
    payloadsMax: 1_000,
    /** Bytes of the body of such a request. More are refused with `body_too_large` (413). */
    bodyBytesMax: 4_194_304,
  },
} as const
