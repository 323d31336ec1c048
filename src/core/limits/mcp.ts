/** The bounds of hosted MCP servers, their tools and their callers. */

export const MCP_LIMITS = {
  /** Several clients read the first page of tools/list alone, so there is only one. */
  mcpToolsMax: 100,
  mcpToolNameCharsMax: 64,
  mcpDescriptionCharsMax: 2_000,
  mcpCandidateThingsMax: 100,
  mcpArgumentsDepthMax: 64,
  /** Of a whole JSON-RPC message: the arguments and what is around them. */
  mcpMessageDepthMax: 70,
  mcpResultBytesMax: 1_048_576,
  mcpManifestsCachedMax: 200,
  /** Of each server, by one node. */
  mcpStrangersRecordedPerMinute: 60,
  mcpTokenSeconds: 600,
  /** Below the 60 s after which common clients give a call up. */
  mcpFlowWaitSeconds: 25,
} as const
