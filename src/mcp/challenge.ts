/** The challenge of MCP servers, which tells a client where it gets a token, and with which scopes. */

/** The value of `WWW-Authenticate` (RFC 9728 §5.1). @param metadata URL of the metadata of the server */
export function challengeOf(
  metadata: string,
  scopes: readonly string[],
  { error, error_description }: { error?: string | undefined; error_description?: string },
): string {
  const parameters = Object.entries({
    error,
    resource_metadata: metadata,
    scope: scopes.join(' '),
    error_description,
  })
  const given = parameters.filter(([, value]) => value !== undefined)
  return `Bearer ${given.map(([name, value]) => `${name}="${value}"`).join(', ')}`
}
