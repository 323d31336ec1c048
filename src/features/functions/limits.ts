/** Limits of functions: deployment, processes, runs, logs, requests that they make and serve. */

export const FUNCTION_LIMITS = {
  // Deployment
  /** Bytes of the source of a function. More are refused with `body_too_large` (413) or `function_invalid`. */
  sourceBytesMax: 5_242_880,
  /** Bytes of the body of a deployment, with the escapes of source and source map. More are refused with `body_too_large` (413). */
  bodyBytesMax: 12_582_912,
  /** The source map of a bundle. */
  sourceMap: {
    /** Bytes of its JSON. More are refused with `function_invalid`. */
    bytesMax: 5_242_880,
    /** Files that it names. More are refused with `function_invalid`. */
    sourcesMax: 10_000,
    /** Characters of the name of a file. A longer one is cut at its start. */
    nameCharsMax: 200,
    /** Milliseconds of CPU time for mapping a position. Then the error keeps the position in the bundle. */
    cpuMs: 3_000,
    /** Milliseconds for which an error waits for its position. Then it keeps the position in the bundle. */
    waitMs: 3_000,
  },
  /** Bytes of the compiled form with its source map. More are refused with `function_invalid`. */
  compiledBytesMax: 25_165_824,
  /** Bytes of a source map beside the code. A larger one is kept apart, and read only for errors. */
  inlineMapBytesMax: 262_144,
  /** Milliseconds of compiling. Then the deployment is refused. */
  compileMs: 15_000,
  /** The process that compiles. */
  compiler: {
    /** Seconds of CPU time. Then it is killed, and the deployment refused. */
    cpuSeconds: 10,
    /** MiB of its memory. With more, it fails, and the deployment is refused. */
    memoryMb: 700,
    /** MiB from which on it collects garbage. Then it collects more often. */
    collectMb: 300,
  },
  /** Deployments that one process compiles at a time. Further ones wait. */
  compilesMax: 2,
  /** The newest versions of a function. */
  versions: {
    /** Versions that are kept. Older ones are deleted, unless they are in use. */
    countMax: 100,
    /** Bytes of the versions that are kept. Older ones are deleted, unless they are in use. */
    bytesMax: 268_435_456,
  },
  /** Constants that a module exports. */
  constant: {
    /** Characters of the value. More are refused with `function_invalid`. */
    charsMax: 16_384,
    /** Levels of nesting of the value. More are refused with `function_invalid`. */
    depthMax: 32,
    /** Milliseconds of CPU time of a worker thread for reading a module. Then the deployment is refused. */
    cpuMs: 4_000,
  },

  // Configuration
  /** Milliseconds of the timeout of a run; at most `syncMax` if its caller waits. Then it ends with `function_timeout`. */
  timeoutMs: { default: 10_000, syncMax: 60_000, max: 900_000 },
  /** MiB of the memory of a function. With more, its process is killed: `function_out_of_memory`. */
  memoryMb: { min: 64, default: 128, max: 512 },
  config: {
    /** Runs of a function at a time. A larger number is refused with `function_invalid`. */
    concurrencyMax: 1_000,
    /** Variables of the environment. More are refused with `function_invalid`. */
    envMax: 64,
    /** Secrets that a function names. More are refused with `function_invalid`. */
    secretsMax: 32,
    /** Hosts that a function may reach. More are refused with `function_invalid`. */
    egressMax: 50,
    /** Scopes of a function. More are refused with `function_invalid`. */
    scopesMax: 20,
    /** Topics of a trigger. More are refused with `function_invalid`. */
    topicsMax: 20,
    /** Triggers of a function. More are refused with `function_invalid`. */
    triggersMax: 10,
    /** Retries of a run. More are refused with `function_invalid`. */
    retriesMax: 10,
  },
  triggers: {
    /** Bytes of the input of a schedule as JSON. More are refused. */
    scheduleInputBytesMax: 16_384,
    /** Runs of one function that events have started and that have not ended. At this number, further events wait. */
    inFlightMax: 100,
    /** Factor between the same number and the `concurrency` of a function. At this number, further events wait. */
    inFlightFactor: 2,
  },

  // Runs
  /** Bytes of the input of a run as JSON. More are refused with `body_too_large` (413). */
  inputBytesMax: 1_048_576,
  /** Bytes of the result of a run as JSON. More fail with `function_output_too_large`. */
  resultBytesMax: 1_048_576,
  /** Bytes of a result that the worker sends to the waiting process directly. A larger one comes through Temporal. */
  directResultBytesMax: 65_536,
  /** Milliseconds for which the start of a run whose caller waits is tried. Then the request is refused. */
  startRetryMs: 10_000,
  /** Milliseconds for which a run whose caller waits is queued for a slot. Then it is refused with `function_busy`. */
  queueMs: 20_000,
  /** Milliseconds for which each attempt of an asynchronous run is queued for a slot. Then the attempt has failed. */
  asyncQueueMs: 3_600_000,
  /** Milliseconds between two attempts of an asynchronous run to get a slot, doubling between the two. Then it asks again. */
  asyncPause: { minMs: 1_000, maxMs: 15_000 },
  /** Milliseconds from the schedule of an attempt, or of recording its beginning, to its code. Then another worker may make it. */
  beginMs: 5_000,
  /** Milliseconds of the timeout up to which an attempt is made within a workflow task. A longer one is an activity. */
  inlineMsMax: 10_000,
  /** Milliseconds without a sign of the worker of a run. Then the attempt has failed. */
  heartbeatMs: 10_000,
  /** Milliseconds between two attempts of a run, doubling between the two. Then the next attempt starts. */
  retry: { minMs: 1_000, maxMs: 60_000 },
  /** Milliseconds for which the record of a run's end is tried while the database is unavailable. Then the reconciler writes it. */
  recordMs: 10_000,
  /** Seconds after which the reconciler compares an open run with its workflow again. Then it does. */
  recheckSeconds: 30,
  /** Dead letters that one call runs again. The next call goes on after them. */
  redrivesMax: 100,
  /** Dead letters that one call looks at, those that it may not run among them. The next call goes on after them. */
  redrivesSeenMax: 500,
  /** Characters of the message of an error that code throws. A longer one is cut. */
  messageCharsMax: 2_000,
  /** Characters of the name of such an error. A longer one is cut. */
  errorNameCharsMax: 200,
  /** How long runs are kept, unless the workspace states it. */
  retention: {
    /** Duration since its end for which a run is kept. Then it is deleted. */
    runsKept: '7d',
    /** Duration since its end for which a dead letter is kept. Then it is deleted. */
    deadLettersKept: '30d',
    /** Runs that one statement deletes. Further ones are deleted next. */
    runsMax: 200,
  },

  // Logs
  /** Bytes of the log of a run. Further lines are dropped; a function that goes on to twice as many is killed. */
  logBytesMax: 65_536,
  /** Bytes of the newest lines that the error of a run shows. Older lines are left out. */
  logShownBytesMax: 8_192,
  /** Bytes of output besides console and result. Then the function is killed. */
  noiseBytesMax: 1_048_576,
  /** Milliseconds for which lines are collected while a run goes on. Then they are stored. */
  logFlushMs: 250,
  /** Lines that are read at once for a follower. Further ones are read next. */
  logLinesReadMax: 500,

  // Processes
  /** Slots of a worker for each of its cores. Further invocations wait. */
  slotsPerCore: 8,
  /** Activities that a worker takes for each slot, so that those that wait do not keep out another tenant's. Others take further ones. */
  activitiesPerSlot: 4,
  /** Processes that are started before they are needed. Each that is used is replaced. */
  warmProcesses: 2,
  /** Milliseconds of starting a process. Then the run fails. */
  startMs: 10_000,
  /** Milliseconds of each test of the isolation at the start of a worker. Then functions are not available. */
  probeMs: 2_000,
  /** MiB of resident memory of an idle process, most of it shared. It is added to the limit of a function's memory. */
  memoryBaseMb: 96,
  /** Milliseconds between two measurements of a process's memory. Then it is compared with its limit. */
  memoryPollMs: 25,
  /** Seconds of CPU time of a process in all its calls, above the longest timeout, if the worker cannot end it. Then it is killed. */
  cpuSecondsMax: 1_800,
  /** Threads of a process: the engine has about 10 and one per CPU, each Worker one or two. Further ones fail to start. */
  threadsMax: 256,
  /** Bytes of the code of versions that a worker caches. The least recently used is dropped. */
  codeCacheBytes: 67_108_864,
  sandbox: {
    /** Processes that are idle, each some 70 MB, of which about 45 are shared. The oldest is ended. */
    idleProcessesMax: 32,
    /** MiB of resident memory of idle processes, pages that they share counted each time. The oldest is ended. */
    idleMemoryMb: 2_048,
    /** Milliseconds for which a process is idle. Then it is ended. */
    idleMs: 60_000,
    /** Milliseconds between two searches for such processes. Then they are ended. */
    sweepMs: 5_000,
    /** Calls of a process, which bounds what code can leak into its own later calls. Then it is replaced. */
    callsMax: 1_000,
    /** Milliseconds of the life of a process. Then it is replaced. */
    ageMs: 600_000,
    /** Milliseconds that a process has spent in calls, since its CPU time is limited for all of them. Then it is replaced. */
    busyMs: 120_000,
    /** Share of its memory limit. An idle process above it is not used again. */
    reuseMemoryShare: 0.75,
    /** Share of all slots that one tenant may hold, of which the last one is kept for a tenant that holds none. Its further invocations wait. */
    tenantShare: 0.75,
    /** Share of all slots in which a tenant's runs have the usual priority. Beyond it they get what processor time others leave. */
    usualShare: 0.125,
    /** Niceness of the processes of runs. Beyond `usualShare` of the slots, those of a tenant have the higher one, and get what others leave. */
    niceness: { usual: 5, beyond: 19 },
    /** Share of these that HTTP requests may hold. Further ones wait. */
    httpShare: 0.5,
    /** Calls of the host that an invocation may have open. The process queues others; with more it is killed. */
    callsOpenMax: 64,
    /** Contents of objects, longer than `chunkBytesMax`, that an invocation may have open for reading. A further one fails with `overloaded`. */
    streamsMax: 32,
    /** Calls of an invocation that the host makes at a time. Further ones wait. */
    callsAtOnce: 16,
    /** Requests of an invocation that the host sends at a time. Further ones wait. */
    fetchesAtOnce: 8,
    /** Bytes of arguments and bodies of open calls. The process queues others; with more it is killed. */
    bytesOpenMax: 12_582_912,
    /** Bytes of the arguments of one call. More are refused. */
    callBytesMax: 4_194_304,
    /** Bytes of the JSON of all calls of an invocation, which the worker parses on the event loop that tenants share. More are refused. */
    jsonBytesMax: 67_108_864,
    /** Bytes of the answer to a call. A larger one fails the call. */
    replyBytesMax: 16_777_216,
    /** Bytes of the head of a request or response. More end the invocation. */
    headBytesMax: 262_144,
    /** Bytes of the body of a request. More end the invocation. */
    bodyBytesMax: 10_485_760,
    /** Bytes of a piece of a streamed body. More end the invocation. */
    chunkBytesMax: 262_144,
    /** Bytes of a line of the log. A longer one is cut. */
    logLineBytesMax: 8_192,
    /** Bytes that are added to each line when the log of a run is measured. Then `logBytesMax` applies. */
    logLineCostBytes: 16,
    /** Bytes of an error that a process reports. More end the invocation. */
    errorBytesMax: 65_536,
    /** Characters of the name of a file in an error. A longer one is cut. */
    fileNameCharsMax: 200,
    /** Lines and columns of a position in an error. A larger one is left out. */
    positionMax: 10_000_000,
  },

  // Requests
  /** Calls of the platform and requests to other servers of one attempt. A further one fails. */
  callsMax: 1_000,
  fetch: {
    /** Redirects that `fetch` follows. A further one fails the request. */
    redirectsMax: 5,
    /** Characters of a URL. A longer one fails the request. */
    urlCharsMax: 16_384,
    /** Bytes of the body of a request, and of a response. More fail the request. */
    bytesMax: 10_485_760,
  },
  /** Requests that functions serve over HTTP. A chunk is sent when the other process has asked for it. */
  http: {
    /** Bytes of the body of a request, and of a response. More are refused with `body_too_large`, or end the response. */
    bodyBytesMax: 104_857_600,
    /** Bytes of the headers of a response. More fail the run. */
    headBytesMax: 16_384,
    /** Headers of a response. More fail the run. */
    headersMax: 100,
    /** Bytes of a chunk. Further ones are in the next. */
    chunkBytesMax: 65_536,
    /** Chunks of an exchange that are under way. Further ones wait. */
    windowChunks: 4,
    /** Bytes that are under way for one process. Further chunks wait. */
    bytesUnderWayMax: 16_777_216,
    /** Milliseconds between two checks that the process with the client's connection is there. If it is not, the run ends. */
    pingMs: 2_000,
    /** Milliseconds in which that process answers. Then the run ends. */
    answerMs: 4_000,
    /** Milliseconds by which the end of a body may come after that of its run. Then the response is cut off: `run_cut_off`. */
    endMs: 5_000,
  },
} as const
