/** `tenon mcp publish|call|token`: a hosted MCP server from the terminal, and what an agent needs to use it. */

import { readFile } from 'node:fs/promises'
import type { Command } from 'commander'
import { type ApiClient, ApiError, fetchToken } from './client.ts'
import { callerPath, need, operatorClient, readSettings, type Settings } from './settings.ts'
import { jsonOf, printJson, verb, WORKSPACE } from './verb.ts'

interface Server {
  readonly id: string
  readonly slug: string
  readonly path: string
}

interface Candidate {
  readonly candidate: string
  readonly risk: 'read' | 'write'
}

interface Publication {
  readonly version: number
  readonly state: 'active' | 'needs_approval'
  readonly diff: { readonly summary: readonly string[] }
}

interface Place {
  readonly settings: Settings
  readonly client: ApiClient
  readonly base: string
}

async function place(workspace: string | undefined): Promise<Place> {
  const settings = await readSettings()
  const ws = workspace ?? need(settings, 'TENON_WORKSPACE_ID')
  return { settings, client: await operatorClient(settings, ws), base: `/v1/mcp/workspaces/${ws}/servers` }
}

interface PublishOptions {
  readonly workspace?: string
  readonly tools?: string
  readonly writes?: boolean
}

/**
 * Creates the server where there is none, curates and publishes it, and prints the version; how an agent is told of it
 * goes to stderr.
 */
async function publish(slug: string, options: PublishOptions): Promise<number> {
  const { client, base } = await place(options.workspace)
  const server = await client.get<Server>(`${base}/${slug}`).catch((error: unknown) => {
    if (error instanceof ApiError && error.status === 404)
      return client.post<Server>(base, { name: slug, slug })
    throw error
  })
  const tools =
    options.tools === undefined ? await chosen(client, `${base}/${slug}`, options) : await file(options.tools)
  await client.call('PUT', `${base}/${slug}/curation`, { tools })
  const made = await client.post<Publication>(`${base}/${slug}/publish`, {})
  printJson(made)
  if (made.state === 'needs_approval') process.stderr.write(approvalNeeded(`${base}/${slug}`, made))
  process.stderr.write(`${configuration(slug, `${client.url}${server.path}`)}\n`)
  process.stderr.write(`An agent with credentials of its own: POST ${client.url}${base}/${slug}/clients\n`)
  return 0
}

/** The version before goes on until an admin has read what the new one widens. */
function approvalNeeded(base: string, { version, diff }: Publication): string {
  const lines = diff.summary.map((line) => `  ${line}\n`).join('')
  return `Version ${version} is not active until an admin approves it: POST ${base}/versions/${version}/approve\n${lines}`
}

/** Without a file: all that only reads, and with `--writes` the rest as well. */
async function chosen(client: ApiClient, path: string, { writes = false }: PublishOptions) {
  const { data } = await client.get<{ data: Candidate[] }>(`${path}/candidates`)
  const wanted = data.filter(({ risk }) => writes || risk === 'read')
  return Object.fromEntries(wanted.map(({ candidate }) => [candidate, { enabled: true }]))
}

async function file(name: string): Promise<unknown> {
  const text = await readFile(callerPath(name), 'utf8')
  return (JSON.parse(text) as { tools?: unknown }).tools
}

/** Prints the result as MCP has it. @returns 1 where the tool says that it failed */
async function callTool(
  server: string,
  tool: string,
  options: { workspace?: string; arguments: string },
): Promise<number> {
  const { client, base } = await place(options.workspace)
  const body = { tool, arguments: jsonOf(options.arguments, 'The arguments') }
  const result = await client.post<{ is_error: boolean }>(`${base}/${server}/call`, body)
  printJson(result)
  return result.is_error ? 1 : 0
}

/** Prints an access token for the server, alone on stdout, and on stderr the line with it for an agent. */
async function token(server: string, options: { workspace?: string; scope?: string }): Promise<number> {
  const { settings, client, base } = await place(options.workspace)
  const { path, slug } = await client.get<Server>(`${base}/${server}`)
  const resource = `${client.url}${path}`
  const [id, secret] = [need(settings, 'TENON_CLIENT_ID'), need(settings, 'TENON_CLIENT_SECRET')]
  const scope = options.scope ?? (await reading(client, path))
  const text = await fetchToken(client.url, id, secret, { resource, scope })
  process.stdout.write(`${text}\n`)
  process.stderr.write(`${configuration(slug, resource, text)}\n`)
  return 0
}

/** What only reads, as the server's own metadata say (RFC 9728). */
async function reading(client: ApiClient, path: string): Promise<string> {
  const metadata = await client.get<{ scopes_supported: string[] }>(
    `/.well-known/oauth-protected-resource${path}`,
  )
  return metadata.scopes_supported.join(' ')
}

/** The form that most agents read. */
function configuration(slug: string, url: string, text?: string): string {
  const headers = text === undefined ? {} : { headers: { Authorization: `Bearer ${text}` } }
  return JSON.stringify({ mcpServers: { [slug]: { type: 'http', url, ...headers } } })
}

export function mcpVerbs(program: Command): void {
  const servers = program.command('mcp').description('hosted MCP servers')
  servers
    .command('publish <server>')
    .description('create it where it is missing, curate and publish it')
    .option(...WORKSPACE)
    .option('--tools <file>', 'JSON, as PUT …/curation takes it; default: all that only reads')
    .option('--writes', 'without a file: what writes as well')
    .action(verb(publish))
  servers
    .command('call <server> <tool>')
    .option(...WORKSPACE)
    .option('--arguments <json>', 'arguments of the tool', '{}')
    .action(verb(callTool))
  servers
    .command('token <server>')
    .description('print an access token for it, alone on stdout')
    .option(...WORKSPACE)
    .option('--scope <scopes>', 'space-separated; default: what only reads')
    .action(verb(token))
}
