/** Limits of hosted MCP servers, of their tools, calls and streams. They are members of `LIMITS`. */
export const MCP_LIMITS = {
  /** Some clients read only the first page of tools/list, so there is only one. */
  mcpToolsMax: 100,
  /** Above it, clients are shown `tool_search` by default: models choose worse from longer lists. */
  mcpToolsListedMax: 40,
  mcpSearchQueryCharsMax: 200,
  mcpSearchHits: 5,
  mcpSearchHitsMax: 20,
  /** Names of arguments of a tool that are searched. */
  mcpSearchArgumentsMax: 200,
  mcpToolIndexesCachedMax: 200,
  /** Of a name that an admin chooses, and of one that is made here: clients put `mcp__<server>__` in front, within 64 characters. */
  mcpToolNameCharsMax: 64,
  mcpToolNameCharsMade: 56,
  mcpGroupsMax: 20,
  mcpDescriptionCharsMax: 2_000,
  mcpCandidateThingsMax: 100,
  mcpArgumentsDepthMax: 64,
  /** Manifests of more characters are reviewed in a worker thread; 20,000 take about 10 ms. The CPU time of a review there. */
  mcpReview: { charsInline: 20_000, cpuMs: 15_000 },
  /** The longest time limit that an admin may set for a tool. */
  mcpToolSecondsMax: 300,
  mcpToolCallsPerMinuteMax: 10_000,
  /** Of a whole JSON-RPC message. */
  mcpMessageDepthMax: 70,
  /** Of all objects in a message together. The SDKs copy each of them several times, which takes some 4 µs of CPU. */
  mcpMessageMembersMax: 20_000,
  /** Of the result of a tool, as JSON: about 25,000 tokens. A tool may have another limit, up to the second. */
  mcpResultBytesDefault: 100_000,
  mcpResultBytesMax: 1_048_576,
  /** A larger result is kept for its principal: of so many bytes, so long, and so many of a principal at a server. */
  mcpKeptResultBytesMax: 5_242_880,
  mcpKeptResultSeconds: 3_600,
  mcpKeptResultsPerPrincipal: 10,
  /** Of a workspace, together. */
  mcpKeptResultsBytesMax: 52_428_800,
  /** Expired ones that one statement deletes. */
  mcpResultsDeletedAtOnce: 200,
  /** Fields of a collection that the conditions of its tools may name. */
  mcpComparableFieldsMax: 100,
  /** Conditions of one query. */
  mcpConditionsMax: 20,
  /** Prompts and resources of a server; the characters of a resource. */
  mcpPromptsMax: 200,
  mcpResourcesMax: 500,
  mcpResourceCharsMax: 100_000,
  /** Entries of a page of prompts, resources and templates. */
  mcpPageSize: 100,
  mcpManifestsCachedMax: 200,
  /** Characters of their JSON: tools over functions have schemas of their own. */
  mcpManifestsCachedCharsMax: 33_554_432,
  /** Unauthenticated calls per server and process. */
  mcpDeniedRecordedPerMinute: 60,
  /** The log of calls stores the names and types of the arguments of a call: how many, and in how many characters. */
  mcpShapeMembersMax: 50,
  mcpShapeCharsMax: 500,
  /** Responses of more bytes are not read for the error code of the SDK. */
  mcpErrorBytesMax: 65_536,
  mcpTokenSeconds: 600,
  /** Characters of the scopes that a server offers one by one; proxies and servers take some 4,000 in a header or a URL. */
  mcpScopesOfferedCharsMax: 500,
  mcpUmbrellasCachedMax: 500,
  /** How long a challenge for a scope is remembered, and how many per process. */
  mcpChallengeMs: 60_000,
  mcpChallengesKept: 10_000,
  /** Below the 60 s after which common clients time out. */
  mcpFlowWaitSeconds: 25,
  /** Interval at which a client that listens is checked again, in milliseconds. Below the 5 s within which a revocation takes effect. */
  mcpListenCheckMs: 2_000,
  mcpSubscriptionsMax: 100,
  /** Of a resource that a session subscribes to, since it is kept. Written resources have no longer ones. */
  mcpUriCharsMax: 2_000,
  /** The number of topics of a subscription to events. */
  mcpSubscribedCollectionsMax: 20,
  /** A client that takes tasks gets one if an execution takes longer, in seconds. */
  mcpTaskWaitSeconds: 0.5,
  /** Pause between two reads of an execution that a call follows, in milliseconds. */
  executionFollowMs: 500,
  /** Requests of a tool to its client in one result. */
  mcpInputRequestsMax: 10,
  /** JSON of what a tool asks its client, with its state, in characters. It travels to the client and back. */
  mcpRequestStateCharsMax: 16_000,
  /** Time in which a client answers what a tool asks, in milliseconds. */
  mcpRequestStateMs: 86_400_000,
  /** Time in which a client answers a request in the stream of a call, and the characters of the answer (versions up to 2025-11-25). */
  mcpAnswerWaitMs: 300_000,
  mcpAnswerCharsMax: 64_000,
  /** Time after which the log level and the subscriptions of a session that is not used are forgotten, in seconds. */
  mcpSessionSeconds: 86_400,
  /** Rounds of requests in one call. */
  mcpRoundsMax: 10,
} as const
