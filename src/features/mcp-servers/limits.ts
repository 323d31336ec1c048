/** Limits of hosted MCP servers: tools, calls, streams, sources outside the platform, container images. */

export const MCP_LIMITS = {
  // Servers and tools
  /** Tools of a server; some clients read only the first page of tools/list, so there is only one. More are refused. */
  toolsMax: 100,
  /** Tools up to which a client is shown all by default, since models choose worse from longer lists. With more it is shown `tool_search`. */
  toolsListedMax: 40,
  /** Characters of the name of a tool that an admin chooses. A longer one is refused. */
  toolNameCharsMax: 64,
  /** Characters of a name that is made here, since clients put `mcp__<server>__` in front. A longer one is cut. */
  toolNameCharsMadeMax: 56,
  /** Groups of tools of a server. More are refused with `validation_failed`. */
  groupsMax: 20,
  /** Characters of a description. A longer one is refused; one from outside is cut. */
  descriptionCharsMax: 2_000,
  /** Collections, flows or functions, of each kind, that are offered as candidates. Further ones are left out. */
  candidateThingsMax: 100,
  /** Fields of a collection that the conditions of its tools may name. Further ones cannot be compared. */
  comparableFieldsMax: 100,
  /** Conditions of one query. More are refused. */
  conditionsMax: 20,
  /** Prompts of a server. More are refused with `validation_failed`. */
  promptsMax: 200,
  /** Resources of a server. More are refused with `validation_failed`. */
  resourcesMax: 500,
  /** Characters of a resource. More are refused with `validation_failed`. */
  resourceCharsMax: 100_000,
  /** Entries of a page of prompts, resources and templates. Further ones are on the next page. */
  pageEntriesMax: 100,
  /** The review of a manifest. */
  review: {
    /** Characters up to which a manifest is reviewed at once; 20,000 take about 10 ms. A longer one is reviewed in a worker thread. */
    charsInlineMax: 20_000,
    /** Milliseconds of CPU time of that thread. Then publishing is refused. */
    cpuMs: 15_000,
  },
  /** Manifests that a process caches. The least recently used is dropped. */
  manifestsCachedMax: 200,
  /** Characters of the manifests that a process caches, as JSON. The least recently used is dropped. */
  manifestsCachedCharsMax: 33_554_432,

  // Search
  /** Characters of a query. A longer one is refused. */
  searchQueryCharsMax: 200,
  /** Tools that a search finds, unless the call states a number. Further ones are left out. */
  searchHitsDefault: 5,
  /** Tools that a search may ask for. A larger number is refused. */
  searchHitsMax: 20,
  /** Names of arguments of a tool that are searched. Further ones are left out. */
  searchArgumentsMax: 200,
  /** Indexes that a process caches. The least recently used is built again. */
  toolIndexesCachedMax: 200,

  // Calls
  /** Seconds of the longest time limit that an admin may set for a tool. More are refused with `validation_failed`. */
  toolSecondsMax: 300,
  /** Calls per minute that an admin may set for a tool. More are refused with `validation_failed`. */
  toolCallsPerMinuteMax: 10_000,
  /** Levels of nesting of arguments. Deeper ones are refused. */
  argumentsDepthMax: 64,
  /** Levels of nesting of a JSON-RPC message. A deeper one is refused. */
  messageDepthMax: 70,
  /** Members of all objects in a message, since the SDKs copy each several times, some 4 µs of CPU. More are refused. */
  messageMembersMax: 20_000,
  /** Bytes of the result of a tool as JSON, about 25,000 tokens, unless an admin sets another limit. A larger one is kept, or fails. */
  resultBytesDefault: 100_000,
  /** Bytes that an admin may set as that limit. More are refused with `validation_failed`. */
  resultBytesMax: 1_048_576,
  /** Results that are kept for their principal because they are too large for one answer. */
  keptResults: {
    /** Bytes of one. A larger one fails with `output_too_large`. */
    bytesMax: 5_242_880,
    /** Seconds for which one is kept. Then it is deleted. */
    seconds: 3_600,
    /** Results of a principal at a server. The oldest is deleted. */
    perPrincipalMax: 10,
    /** Bytes of the results of a workspace. A further one is not kept, and fails. */
    workspaceBytesMax: 52_428_800,
    /** Expired results that one statement deletes. Further ones are deleted next. */
    deletedAtOnceMax: 200,
  },
  /** Seconds for which a call waits for an execution, below the 60 s of common clients. Then it answers with the status so far. */
  executionWaitSeconds: 25,
  /** Seconds for which the call of a client that takes tasks waits for an execution. Then it answers with a task. */
  taskWaitSeconds: 0.5,
  /** Requests to its client in one result of a tool. More fail the call. */
  inputRequestsMax: 10,
  /** Characters of the JSON of such requests with their state, which travels to the client and back. More fail the call. */
  requestStateCharsMax: 16_000,
  /** Milliseconds in which a client answers such requests. Then the answer is refused. */
  requestStateMs: 86_400_000,
  /** Rounds of such requests in one call. A further one fails the call. */
  roundsMax: 10,
  /** Milliseconds in which a client answers a request in the stream of a call (versions up to 2025-11-25). Then the call fails. */
  answerWaitMs: 300_000,
  /** Characters of such an answer. A longer one counts as none. */
  answerCharsMax: 64_000,

  // The log of calls
  /** Calls of tools that change nothing, per workspace and process, about 1 kB each, that wait for their entry. Further ones wait themselves. */
  callsPendingMax: 1_000,
  /** Calls without credentials per server, process and minute that have an entry. Further ones have none. */
  deniedRecordedPerMinuteMax: 60,
  /** Arguments whose names and types an entry has. Further ones are left out. */
  shapeMembersMax: 50,
  /** Characters of these names and types. Further ones are left out. */
  shapeCharsMax: 500,
  /** Bytes of a response of the SDK that is read for its error code. A larger one is not read. */
  errorBytesMax: 65_536,

  // Streams and sessions
  /** Milliseconds for which the challenge for a scope is remembered. Then it is forgotten. */
  challengeMs: 60_000,
  /** Challenges that a process remembers. The least recent is forgotten. */
  challengesCachedMax: 10_000,
  /** Milliseconds between two checks that a listening client is still allowed to. If not, its stream ends. Below the 5 s of a revocation. */
  listenCheckMs: 2_000,
  /** Subscriptions of a session. A further one is refused. */
  subscriptionsMax: 100,
  /** Collections, and the bucket, of the resources of a stream. More are refused with `validation_failed`. */
  subscribedCollectionsMax: 20,
  /** Characters of the URI of a resource that a session subscribes to. A longer one is refused. */
  uriCharsMax: 2_000,
  /** Seconds without use of a session. Then its log level and subscriptions are forgotten. */
  sessionSeconds: 86_400,

  /** Sources of tools outside the platform. */
  sources: {
    /** Sources of a workspace. A further one is refused. */
    sourcesMax: 20,
    /** Headers of a source. More are refused with `validation_failed`. */
    headersMax: 20,
    /** Definitions of a source that are pinned. With more, the source is refused. */
    definitionsMax: 3_000,
    /** Bytes of these definitions as JSON. With more, the source is refused. */
    definitionsBytesMax: 4_194_304,
    /** Bytes of the definitions of all sources of a workspace, since a list of candidates has them all. With more, the source is refused. */
    workspaceBytesMax: 8_388_608,
    /** Bytes of the body of a request with a document as text, which is longer within JSON. More are refused with `body_too_large` (413). */
    bodyBytesMax: 4_194_304,
    /** Bytes of an OpenAPI document. A larger one is refused. */
    documentBytesMax: 2_097_152,
    /** Levels of nesting of a document. A deeper one is refused. */
    documentDepthMax: 200,
    /** Milliseconds of CPU time for reading a document: YAML takes far longer than JSON. Then it is refused. */
    documentCpuMs: 8_000,
    /** Milliseconds of fetching a document. Then it is refused. */
    documentFetchMs: 15_000,
    /** Bytes of the response of a source. A larger one fails the call. */
    responseBytesMax: 1_048_576,
    /** Bytes of the response of a failed call that are read. Further ones are left out. */
    errorBytesMax: 65_536,
    /** Characters of the response of a failed call that are shown. Further ones are left out. */
    errorCharsMax: 2_000,
    /** Seconds of a call, unless an admin sets another limit; common clients time out after 60 s. Then it fails with `tool_timeout`. */
    callSeconds: 30,
    /** Parts that are no tools, and names of changed tools, which answers show. Further ones are left out. */
    notesMax: 50,
  },
  /** MCP servers as sources. */
  upstream: {
    /** Milliseconds for which tools that were listed count as current. Then they are listed again. */
    currentMs: 60_000,
    /** Milliseconds of reading all tools. Then the source is refused. */
    listMs: 15_000,
    /** Milliseconds of CPU time of making definitions of them. Then the source is refused. */
    definitionsCpuMs: 5_000,
    /** Tools of a source. With more, the source is refused. */
    toolsMax: 500,
    /** Pages of the list of tools. With more, the source is refused. */
    pagesMax: 50,
    /** Bytes of all tools. With more, the source is refused. */
    listBytesMax: 4_194_304,
    /** Bytes of one tool. A larger one is left out. */
    toolBytesMax: 65_536,
    /** Subschemas of a schema. One with more is simplified. */
    schemaNodesMax: 2_000,
    /** Levels of nesting of a schema. Deeper parts are simplified. */
    schemaDepthMax: 32,
    /** Bytes of one response, since a stream has notifications besides the result. A larger one fails the call. */
    responseBytesMax: 4_194_304,
    /** Servers whose protocol version and session a process remembers. The least recently used is forgotten. */
    connectionsMax: 2_000,
    /** Milliseconds for which a process remembers them. Then it connects anew. */
    connectionMs: 600_000,
    /** Sources whose tools a process caches. The least recently used is dropped. */
    sourcesCachedMax: 500,
  },

  /** Container images as sources. */
  images: {
    /** Characters of the reference of an image. A longer one is refused. */
    referenceCharsMax: 400,
    /** Arguments of the command. More are refused. */
    argumentsMax: 50,
    /** Characters of an argument. A longer one is refused. */
    argumentCharsMax: 1_000,
    /** Variables of the environment. More are refused. */
    envMax: 50,
    /** MiB of memory that the `limits` of a source may state. With more, the container is killed. */
    memoryMb: { min: 32, max: 1_024, default: 256 },
    /** Cores of CPU that the `limits` of a source may state. The container gets no more. */
    cpus: { min: 0.1, max: 2, default: 0.5 },
    /** Processes and threads that the `limits` of a source may state. Further ones fail to start. */
    pids: { min: 8, max: 256, default: 64 },
    /** Seconds of a call that the `limits` of a source may state. Then the container is killed. */
    timeoutSeconds: { min: 1, max: 30, default: 20 },
    /** MiB of the only folder that a container may write to, which count as its memory. Further writes fail. */
    tmpMb: 64,
    /** Files that a container may have open. Further ones fail to open. */
    openFilesMax: 1_024,
    /** Containers of a workspace at a time. Further calls wait for one. */
    ofWorkspaceMax: 4,
    /** Containers of a process of the platform at a time. Further calls wait for one. */
    ofProcessMax: 32,
    /** Milliseconds for which a call waits for a container. Then it fails with `overloaded`. */
    waitMs: 5_000,
    /** Bytes of one message of a server. A larger one fails the call. */
    messageBytesMax: 4_194_304,
    /** Bytes that a server writes during a call. More fail the call. */
    outputBytesMax: 8_388_608,
    /** Messages of a server during a call. More fail the call. */
    messagesMax: 10_000,
    /** Bytes of its errors of which the last are kept. Earlier ones are dropped. */
    errorBytesMax: 2_000,
    /** Milliseconds of a command of the engine other than `run`. Then it is killed, and the call fails. */
    engineCommandMs: 10_000,
    /** Bytes of the output of such a command that are read. Further ones are dropped. */
    engineOutputBytesMax: 65_536,
  },
} as const
