/** `tenon mcp publish|verify|call|token`: publishes and verifies hosted MCP servers, calls their tools, and configures clients of them. */

import type { Command } from 'commander'
import { type ApiClient, ApiError, fetchToken } from './client.ts'
import { JSON_NOTATION, jsonArgument } from './json-argument.ts'
import { mcpConfigVerb } from './mcp/config.ts'
import { mcpInspectVerb } from './mcp/inspect.ts'
import { mcpAdminVerbs, serverClient, serversClient } from './mcp-admin.ts'
import { verify } from './mcp-verify.ts'
import { need, readCallerFile } from './settings.ts'
import { addVerb, printJson, WORKSPACE, type WorkspaceOption } from './verb.ts'

interface Server {
  readonly id: string
  readonly slug: string
  readonly path: string
  /** `created`: it has no draft yet. */
  readonly state: string
}

interface Candidate {
  readonly candidate: string
  readonly risk: 'read' | 'write'
}

interface Publication {
  readonly version: number
  readonly state: 'active' | 'needs_approval'
  readonly diff: { readonly summary: readonly string[] }
  readonly reasons: readonly { readonly tool: string | null; readonly detail: string }[]
}

interface PublishOptions extends WorkspaceOption {
  readonly tool?: readonly string[]
  readonly tools?: string
  readonly reads?: boolean
  readonly writes?: boolean
  readonly acceptBreaking?: boolean
}

/** Exit code of a published version that is not active. */
const WAITS_FOR_APPROVAL = 2

/**
 * Creates the server if it does not exist, replaces its draft if an option says so, publishes it, and prints the version as
 * JSON. The configuration of clients goes to stderr.
 * @returns the exit code: 2 if the version is not active
 * @throws Error if no tool was ever chosen: what agents get is never a default
 */
async function publish(slug: string, options: PublishOptions): Promise<number> {
  const { client, base } = await serversClient(options.workspace)
  const server = await client.get<Server>(`${base}/${slug}`).catch((error: unknown) => {
    if (error instanceof ApiError && error.status === 404)
      return client.post<Server>(base, { name: slug, slug })
    throw error
  })
  const draft = await newDraft(client, `${base}/${slug}`, options)
  if (draft === undefined && server.state === 'created') throw nothingChosen(slug, options)
  if (draft !== undefined) await client.call('PUT', `${base}/${slug}/curation`, draft)
  const accept = options.acceptBreaking ? { accept: ['breaking'] } : {}
  const made = await client.post<Publication>(`${base}/${slug}/publish`, accept)
  printJson(made)
  if (made.state === 'needs_approval') {
    process.stderr.write(approvalNeeded(approvalCommand(slug, made.version, options), made))
    return WAITS_FOR_APPROVAL
  }
  process.stderr.write(`${configuration(slug, `${client.url}${server.path}`)}\n`)
  process.stderr.write(`Create credentials for an agent: POST ${client.url}${base}/${slug}/clients\n`)
  return 0
}

const approvalCommand = (server: string, version: number, { workspace }: WorkspaceOption): string =>
  `npx tenon mcp approve ${server} ${version}${workspace === undefined ? '' : ` --workspace ${workspace}`}`

/** Until an admin approves a version, the previous one stays active. */
function approvalNeeded(command: string, { version, diff, reasons }: Publication): string {
  const sentences = [
    ...diff.summary,
    ...reasons.map(({ tool, detail }) => `${tool ?? 'The server'} ${detail}`),
  ]
  const lines = sentences.map((line) => `  ${line}\n`).join('')
  return `Version ${version} is not active until an admin approves it: ${command}\n${lines}`
}

/** The curation that replaces the draft of a server; undefined if the draft stays as it is. */
async function newDraft(client: ApiClient, path: string, options: PublishOptions): Promise<unknown> {
  const { tool: names = [], tools: file, reads = false, writes = false } = options
  if (file !== undefined) return JSON.parse(await readCallerFile(file))
  if (names.length > 0) return { tools: Object.fromEntries(names.map((name) => [name, { enabled: true }])) }
  if (reads || writes) return { tools: await allTools(client, path, options) }
  return undefined
}

/**
 * All tools of the workspace that only read; with `--writes`, all. Sources outside may have thousands, and
 * events come from all workspaces of the tenant.
 */
async function allTools(client: ApiClient, path: string, { writes = false }: PublishOptions) {
  const { data } = await client.get<{ data: Candidate[] }>(`${path}/candidates`)
  const isOutside = ({ candidate }: Candidate) => /^(openapi|mcp|events:stream:read)/.test(candidate)
  const wanted = data.filter((one) => !isOutside(one) && (writes || one.risk === 'read'))
  return Object.fromEntries(wanted.map(({ candidate }) => [candidate, { enabled: true }]))
}

function nothingChosen(slug: string, { workspace }: WorkspaceOption): Error {
  const where = workspace === undefined ? '' : ` --workspace ${workspace}`
  return new Error(
    [
      `Nothing was published: the draft of ${slug} has no tools.`,
      `  npx tenon mcp candidates ${slug}${where}                 lists candidates for tools`,
      `  npx tenon mcp publish ${slug} --tool <name> <name>${where}   publishes these tools`,
      `  npx tenon mcp publish ${slug} --reads${where}            publishes all tools that only read, of every collection and bucket`,
    ].join('\n'),
  )
}

/** Prints the result of a tool. @returns 1 if the tool reports an error */
async function callTool(
  server: string,
  tool: string,
  options: { workspace?: string; arguments: string },
): Promise<number> {
  const { client, path } = await serverClient(server, options.workspace)
  const body = { tool, arguments: await jsonArgument(options.arguments, 'The arguments') }
  const result = await client.post<{ is_error: boolean }>(`${path}/call`, body).catch(async (error) => {
    if (!(error instanceof ApiError) || error.status !== 404) throw error
    throw await unknownTool(error, { client, path, server, tool }, options)
  })
  printJson(result)
  return result.is_error ? 1 : 0
}

interface Version {
  readonly version: number
  readonly active: boolean
  readonly state: string
  readonly tools: readonly { readonly name: string }[]
}

/** The error of a call, and where the tool is: in a version that waits for approval, or under another name. */
async function unknownTool(
  error: ApiError,
  { client, path, server, tool }: { client: ApiClient; path: string; server: string; tool: string },
  options: WorkspaceOption,
): Promise<Error> {
  const versions = await client.list<Version>(`${path}/versions`).catch(() => [])
  const waiting = versions.find(
    ({ state, tools }) => state === 'needs_approval' && tools.some(({ name }) => name === tool),
  )
  if (waiting !== undefined) {
    const command = approvalCommand(server, waiting.version, options)
    return new Error(`${tool} is in version ${waiting.version}, which is not active: ${command}`)
  }
  const active = versions.find((one) => one.active)
  if (active === undefined) return error
  const names = active.tools.map(({ name }) => name).join(', ')
  return new Error(`${server} has no tool ${tool}. Version ${active.version} has ${names}.`)
}

/** Prints an access token for the server alone on stdout, and the configuration of a client with it on stderr. */
async function token(server: string, options: { workspace?: string; scope?: string }): Promise<number> {
  const { settings, client, path: operations } = await serverClient(server, options.workspace)
  const { path, slug } = await client.get<Server>(operations)
  const resource = `${client.url}${path}`
  const [id, secret] = [need(settings, 'TENON_CLIENT_ID'), need(settings, 'TENON_CLIENT_SECRET')]
  const scope = options.scope ?? (await readScopes(client, path))
  const text = await fetchToken(client.url, id, secret, { resource, scope })
  process.stdout.write(`${text}\n`)
  process.stderr.write(`${configuration(slug, resource, text)}\n`)
  return 0
}

/** Returns the scopes that only read, from the metadata of the server (RFC 9728). */
async function readScopes(client: ApiClient, path: string): Promise<string> {
  const metadata = await client.get<{ scopes_supported?: string[] }>(
    `/.well-known/oauth-protected-resource${path}`,
  )
  return metadata.scopes_supported?.join(' ') ?? ''
}

/** The configuration format of most MCP clients. */
function configuration(slug: string, url: string, text?: string): string {
  const headers = text === undefined ? {} : { headers: { Authorization: `Bearer ${text}` } }
  return JSON.stringify({ mcpServers: { [slug]: { type: 'http', url, ...headers } } })
}

export function mcpVerbs(program: Command): void {
  const servers = program.command('mcp').description('Manage hosted MCP servers.')
  addVerb(
    servers,
    'publish <server>',
    'Create a server if it does not exist, and publish its draft.',
    publish,
    [
      WORKSPACE,
      ['--tool <names...>', 'Publish these tools instead of the draft. `mcp candidates` lists their names.'],
      ['--tools <file>', 'Publish this JSON body of PUT …/curation instead of the draft.'],
      [
        '--reads',
        'Publish all tools that only read instead of the draft. Tools of sources are not included.',
      ],
      [
        '--writes',
        'Publish all tools that read or write instead of the draft. Tools of sources are not included.',
      ],
      ['--accept-breaking', 'Approve changes that may break clients.'],
    ],
  )
  mcpAdminVerbs(servers)
  addVerb(
    servers,
    'verify <server> [version]',
    'Check a version against its signature. Default: the active version.',
    verify,
    [
      WORKSPACE,
      ['--keys <file>', 'File with a key set that was stored earlier. Default: the key set of the platform.'],
    ],
  )
  addVerb(servers, 'call <server> <tool>', 'Call a tool and print its result.', callTool, [
    WORKSPACE,
    ['--arguments <json>', `Arguments of the tool: ${JSON_NOTATION}.`, '{}'],
  ])
  addVerb(
    servers,
    'token <server>',
    'Print an access token for a server. Prints nothing else on stdout.',
    token,
    [WORKSPACE, ['--scope <scopes>', 'Space-separated scopes. Default: the scopes that only read.']],
  )
  mcpInspectVerb(servers)
  mcpConfigVerb(servers)
}
