/** `tenon mcp config`: configuration of common MCP clients for a server, in the format of each. */

import type { Command } from 'commander'
import { serverClient } from '../mcp-admin.ts'
import { need, readSettings } from '../settings.ts'
import { addVerb, WORKSPACE, type WorkspaceOption } from '../verb.ts'

/** The format of a client: its text for a server, and where users put it. */
interface ClientFormat {
  readonly text: (name: string, url: string) => string
  readonly place: string
}

const json = (value: unknown) => JSON.stringify(value, null, 2)

/** The entry under `mcpServers`, which most clients read. */
const mcpServers =
  (entry: (url: string) => object) =>
  (name: string, url: string): string =>
    json({ mcpServers: { [name]: entry(url) } })

/** By client, as their documentation of November 2026 says. All of them sign in by OAuth when they first connect. */
const CLIENTS: Readonly<Record<string, ClientFormat>> = {
  'claude-code': {
    text: mcpServers((url) => ({ type: 'http', url })),
    place:
      '.mcp.json of the project. Or: claude mcp add --transport http <name> <url>. Then sign in with /mcp.',
  },
  'claude-desktop': {
    text: (_name, url) => url,
    place:
      'Customize > Connectors > Add custom connector. The server must be public: the configuration file supports only local servers.',
  },
  cursor: {
    text: mcpServers((url) => ({ url })),
    place: '~/.cursor/mcp.json, or .cursor/mcp.json of the project.',
  },
  vscode: {
    text: (name, url) => json({ servers: { [name]: { type: 'http', url } } }),
    place: '.vscode/mcp.json of the project, or the user configuration ("MCP: Open User Configuration").',
  },
  codex: {
    text: (name, url) => `[mcp_servers.${name}]\nurl = ${JSON.stringify(url)}`,
    place: '~/.codex/config.toml. Then: codex mcp login <name>.',
  },
  gemini: {
    text: mcpServers((url) => ({ httpUrl: url })),
    place:
      '~/.gemini/settings.json, or .gemini/settings.json of the project. Then sign in with /mcp auth <name>.',
  },
  windsurf: {
    text: mcpServers((url) => ({ serverUrl: url })),
    place: '~/.codeium/windsurf/mcp_config.json.',
  },
  zed: {
    text: (name, url) => json({ context_servers: { [name]: { url } } }),
    place: 'settings.json of Zed.',
  },
}

/** A server of a workspace, or the platform's own. */
export interface Endpoint {
  readonly name: string
  readonly url: string
  readonly path: string
}

/** @param server a slug or an id, or `platform` @throws ApiError if the workspace has no such server */
export async function requireEndpoint(server: string, workspace: string | undefined): Promise<Endpoint> {
  if (server === 'platform') {
    const path = '/v1/mcp/platform/mcp'
    return { name: 'tenon', path, url: `${need(await readSettings(), 'TENON_URL')}${path}` }
  }
  const { client, path: operations } = await serverClient(server, workspace)
  const { slug, path } = await client.get<{ slug: string; path: string }>(operations)
  return { name: slug, path, url: `${client.url}${path}` }
}

/** Prints the configuration alone on stdout, and where it belongs on stderr. */
async function config(server: string, options: WorkspaceOption & { client?: string }): Promise<number> {
  const { client = 'claude-code' } = options
  const format = Object.hasOwn(CLIENTS, client) ? CLIENTS[client] : undefined
  if (format === undefined) throw new Error(`--client must be one of ${Object.keys(CLIENTS).join(', ')}.`)
  const { name, url } = await requireEndpoint(server, options.workspace)
  process.stdout.write(`${format.text(name, url)}\n`)
  process.stderr.write(`${format.place.replace('<name>', name).replace('<url>', url)}\n`)
  return 0
}

export function mcpConfigVerb(servers: Command): void {
  addVerb(
    servers,
    'config <server>',
    'Print the configuration of a client for a server, or for `platform`.',
    config,
    [
      WORKSPACE,
      ['--client <name>', `Client to configure: ${Object.keys(CLIENTS).join(', ')}.`, 'claude-code'],
    ],
  )
}
