/** Limits of sources of MCP tools outside the platform. They are members of `LIMITS`. */
export const MCP_SOURCE_LIMITS = {
  /** Sources of a workspace outside the platform, and the headers of each. */
  mcpSourcesMax: 20,
  mcpSourceHeadersMax: 20,
  /** Definitions that are pinned of a source: how many, and in how many bytes of JSON. */
  mcpDefinitionsMax: 3_000,
  mcpDefinitionsBytesMax: 4_194_304,
  /** Of the definitions of all sources of a workspace: a list of candidates has them all. */
  mcpSourcesBytesMax: 8_388_608,
  /** OpenAPI documents as text, and the CPU time of reading one: YAML takes far longer than JSON. */
  mcpDocumentBytesMax: 2_097_152,
  mcpDocumentDepthMax: 200,
  mcpDocumentCpuMs: 8_000,
  mcpDocumentFetchMs: 15_000,
  /** Responses of sources, and of a failed call the part that is read and the part that is shown. */
  mcpSourceResponseBytesMax: 1_048_576,
  mcpSourceErrorBytesMax: 65_536,
  mcpSourceErrorCharsMax: 2_000,
  /** A document as text is longer within JSON. */
  mcpSourceBodyBytesMax: 4_194_304,
  /** The time of a call of its tools. Common clients time out after 60 s. */
  mcpSourceSeconds: 30,
  /** MCP servers as sources. How long tools that were listed count as current. */
  mcpUpstream: {
    currentMs: 60_000,
    /** Reading all tools, and the CPU time of what is made of them. */
    listMs: 15_000,
    definitionsCpuMs: 5_000,
    toolsMax: 500,
    pagesMax: 50,
    /** All tools, and one. */
    listBytesMax: 4_194_304,
    toolBytesMax: 65_536,
    schemaNodesMax: 2_000,
    /** One response. Results of tools are smaller, but a stream has notifications, too. */
    responseBytesMax: 4_194_304,
    /** Protocol versions and sessions that are kept, and for how long. */
    connectionsMax: 2_000,
    connectionMs: 600_000,
    sourcesCachedMax: 500,
  },
  /** Parts of a source that are no tools, and names of changed tools, which answers show. */
  mcpSourceNotesMax: 50,
} as const
