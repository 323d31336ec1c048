/** `server.json` of a hosted server, with which a registry of MCP servers lists it (schema 2025-12-11). */

import type { PublishedServer } from '../access/authentication/mcp-server-registry.ts'

const SCHEMA = 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json'
/** Bounds of the schema, in characters. */
const NAME_MAX = 200
const TEXT_MAX = 100

/**
 * @param description of the published version; may be empty
 * @param url of the MCP endpoint, below the public URL of the platform
 */
export function serverJson(server: PublishedServer, description: string, url: string) {
  return {
    $schema: SCHEMA,
    name: registryName(server, new URL(url).hostname),
    title: shortened(server.name),
    description: shortened(description) || shortened(server.name),
    // Registries sort versions by semantic versioning.
    version: `${server.version}.0.0`,
    remotes: [{ type: 'streamable-http', url }],
    _meta: {
      'io.modelcontextprotocol.registry/publisher-provided': { manifest_sha256: server.versionHash },
    },
  }
}

/** `com.example.api/<workspace>.<slug>` at `api.example.com`: slugs are unique within a workspace alone. */
function registryName({ ref, slug }: PublishedServer, host: string): string {
  const name = `${ref.workspaceId}.${slug}`
  const namespace = host
    .replaceAll(/[^A-Za-z0-9.-]/g, '-')
    .split('.')
    .reverse()
    .join('.')
  return `${namespace.slice(0, NAME_MAX - name.length - 1)}/${name}`
}

/** One line of at most 100 characters. */
function shortened(text: string): string {
  const line = [...text.replaceAll(/\s+/g, ' ').trim()]
  return line.length <= TEXT_MAX ? line.join('') : `${line.slice(0, TEXT_MAX - 1).join('')}…`
}
