/** The platform's MCP server as an OAuth resource: its path, its resource indicator and its scopes. */

export const PLATFORM_MCP_PATH = '/v1/mcp/platform/mcp'

/**
 * `read` reaches the tools that only read, and `write` all tools, both apart from those that show who has access: `people` reaches
 * these.
 */
export const PLATFORM_SCOPES = {
  read: 'platform:read',
  write: 'platform:write',
  people: 'platform:people',
} as const

/** Some clients append a slash to the address of an MCP server; it names the same resource. @returns the indicator as tokens have it */
export const canonicalResource = (resource: string): string =>
  resource.endsWith('/mcp/') ? resource.slice(0, -1) : resource

/** The resource indicator (RFC 8707), which is also the URL of the endpoint. @param base the public base URL as configured */
export const platformResource = (base: string): string => `${base}${PLATFORM_MCP_PATH}`
