/** `tenon mcp list|show|candidates|curate|preview|diff|approve|rollback|clients|audit|sources`: the lifecycle of hosted MCP servers. */

import type { Command } from 'commander'
import { JSON_NOTATION, jsonArgument } from './json-argument.ts'
import { readCallerFile, workspaceClient } from './settings.ts'
import { addVerb, printJson, printLine, WORKSPACE, type WorkspaceOption } from './verb.ts'

export async function serversClient(workspace: string | undefined) {
  const { settings, client, workspace_id } = await workspaceClient(workspace)
  return { settings, client, base: `/v1/mcp/workspaces/${workspace_id}/servers` }
}

/** Like {@link serversClient}, for one server. @param server its id or slug */
export async function serverClient(server: string, workspace: string | undefined) {
  const { base, ...rest } = await serversClient(workspace)
  return { ...rest, path: `${base}/${encodeURIComponent(server)}` }
}

interface Server {
  readonly slug: string
  readonly state: string
  readonly active_version: number | null
  readonly name: string
}

async function list({ workspace }: WorkspaceOption): Promise<number> {
  const { client, base } = await serversClient(workspace)
  for (const { slug, state, active_version, name } of await client.list<Server>(base))
    printLine(`${slug.padEnd(20)}  ${state.padEnd(10)}  ${`v${active_version ?? '–'}`.padEnd(5)}  ${name}`)
  return 0
}

/** Prints the response to `GET …/servers/<server><tail>`. */
const show =
  (tail: string) =>
  async (server: string, { workspace }: WorkspaceOption): Promise<number> => {
    const { client, path } = await serverClient(server, workspace)
    return printJson(await client.get(`${path}${tail}`))
  }

interface Candidate {
  readonly candidate: string
  readonly name: string
  readonly risk: string
  readonly title: string
}

async function candidates(server: string, { workspace }: WorkspaceOption): Promise<number> {
  const { client, path } = await serverClient(server, workspace)
  const { data } = await client.get<{ data: Candidate[] }>(`${path}/candidates`)
  for (const { candidate, name, risk, title } of data)
    printLine(`${candidate.padEnd(40)}  ${risk.padEnd(5)}  ${name.padEnd(28)}  ${title}`)
  return 0
}

async function curate(server: string, file: string, { workspace }: WorkspaceOption): Promise<number> {
  const { client, path } = await serverClient(server, workspace)
  const body: unknown = JSON.parse(await readCallerFile(file))
  return printJson(await client.call('PUT', `${path}/curation`, body))
}

interface Preview {
  readonly tools: readonly unknown[]
  readonly tokens: number
  readonly class: string
  readonly reasons: readonly { readonly tool: string | null; readonly detail: string }[]
  readonly diff: {
    readonly added: readonly string[]
    readonly removed: readonly string[]
    readonly changed: readonly { readonly name: string; readonly fields: readonly string[] }[]
    readonly summary: readonly string[]
  }
  readonly findings: readonly {
    readonly tool: string | null
    readonly pointer: string
    readonly severity: string
    readonly detail: string
  }[]
}

/** Prints what publishing the draft would change, and what the check of its texts found. */
async function diff(server: string, { workspace }: WorkspaceOption): Promise<number> {
  const { client, path } = await serverClient(server, workspace)
  const draft = await client.get<Preview>(`${path}/preview`)
  printLine(`${draft.class}: ${draft.tools.length} tools, about ${draft.tokens} tokens`)
  for (const name of draft.diff.added) printLine(`+ ${name}`)
  for (const name of draft.diff.removed) printLine(`- ${name}`)
  for (const { name, fields } of draft.diff.changed) printLine(`~ ${name}: ${fields.join(', ')}`)
  for (const sentence of draft.diff.summary) printLine(`! ${sentence}`)
  for (const { tool, detail } of draft.reasons) printLine(`! ${tool ?? server} ${detail}`)
  for (const { tool, pointer, severity, detail } of draft.findings)
    printLine(`${severity.padEnd(7)}  ${tool ?? server}${pointer}: ${detail}`)
  return 0
}

/** Makes a version the active one by `approve`, or `activate` if it needs no approval. */
const activate =
  (verb: 'approve' | 'activate') =>
  async (server: string, version: string, { workspace }: WorkspaceOption): Promise<number> => {
    const { client, path } = await serverClient(server, workspace)
    return printJson(await client.post(`${path}/versions/${encodeURIComponent(version)}/${verb}`, {}))
  }

interface Call {
  readonly time: string
  readonly outcome: string
  readonly tool: string | null
  readonly principal: string | null
  readonly code: string | null
  readonly duration_ms: number
}

async function audit(server: string, { workspace }: WorkspaceOption): Promise<number> {
  const { client, path } = await serverClient(server, workspace)
  const { data } = await client.get<{ data: Call[] }>(`${path}/audit`)
  for (const { time, outcome, tool, principal, code, duration_ms } of data)
    printLine(
      `${time}  ${outcome.padEnd(10)}  ${(tool ?? '–').padEnd(28)}  ${principal ?? '–'}  ${duration_ms} ms  ${code ?? ''}`.trimEnd(),
    )
  return 0
}

async function sourcesClient(workspace: string | undefined) {
  const { client, workspace_id } = await workspaceClient(workspace)
  return { client, base: `/v1/mcp/workspaces/${workspace_id}/sources` }
}

interface Source {
  readonly name: string
  readonly kind: string
  readonly state: string
  readonly tools: number
  readonly url: string
  readonly drift: { readonly hash: string } | null
}

async function listSources({ workspace }: WorkspaceOption): Promise<number> {
  const { client, base } = await sourcesClient(workspace)
  for (const { name, kind, state, tools, url } of await client.list<Source>(base))
    printLine(
      `${name.padEnd(20)}  ${kind.padEnd(7)}  ${state.padEnd(7)}  ${String(tools).padStart(4)} tools  ${url}`,
    )
  return 0
}

interface SourceOptions extends WorkspaceOption {
  readonly kind: string
  readonly document?: string
  readonly baseUrl?: string
  readonly headers?: string
  readonly env?: string
}

/** @param address a URL, or the reference of an image */
async function addSource(
  name: string,
  address: string,
  { workspace, kind, document: file, baseUrl: base_url, headers: headersText, env: variables }: SourceOptions,
): Promise<number> {
  const { client, base } = await sourcesClient(workspace)
  const place = kind === 'image' ? { image: address } : { url: address }
  const env = variables === undefined ? undefined : await jsonArgument(variables, 'The variables')
  const document = file === undefined ? undefined : await readCallerFile(file)
  const headers = headersText === undefined ? undefined : await jsonArgument(headersText, 'The headers')
  return printJson(await client.post(base, { name, kind, ...place, document, base_url, headers, env }))
}

interface RefreshOptions extends WorkspaceOption {
  readonly document?: string
  readonly accept?: boolean
}

/** Accepts what this command has read, and nothing that comes later. */
async function refreshSource(
  source: string,
  { workspace, document: file, accept }: RefreshOptions,
): Promise<number> {
  const { client, base } = await sourcesClient(workspace)
  const path = `${base}/${encodeURIComponent(source)}/refresh`
  const document = file === undefined ? undefined : await readCallerFile(file)
  const read = await client.post<Source>(path, { document })
  if (accept !== true || read.drift === null) return printJson(read)
  return printJson(await client.post(path, { document, accept: read.drift.hash }))
}

async function deleteSource(source: string, { workspace }: WorkspaceOption): Promise<number> {
  const { client, base } = await sourcesClient(workspace)
  return printJson(await client.call('DELETE', `${base}/${encodeURIComponent(source)}`))
}

function sourceVerbs(servers: Command): void {
  const sources = servers.command('sources').description('Manage sources of tools outside the platform.')
  addVerb(sources, 'list', 'List the sources of a workspace.', listSources, [WORKSPACE])
  addVerb(sources, 'add <name> <address>', 'Register a source and pin its definitions.', addSource, [
    WORKSPACE,
    ['--kind <kind>', 'Kind of the source: openapi, mcp, or image (experimental).', 'openapi'],
    ['--document <file>', 'OpenAPI document to use instead of the one at the URL.'],
    ['--base-url <url>', 'Server of the API to use instead of the first one in the document.'],
    ['--headers <json>', `Headers of requests, such as {"X-Key": {"secret": "<name>"}}: ${JSON_NOTATION}.`],
    ['--env <json>', 'Environment variables of an image, in the same form as --headers.'],
  ])
  addVerb(sources, 'refresh <source>', 'Read the definitions of a source again.', refreshSource, [
    WORKSPACE,
    ['--document <file>', 'OpenAPI document to use instead of the one at the URL.'],
    ['--accept', 'Pin the definitions that have changed.'],
  ])
  addVerb(sources, 'delete <source>', 'Delete a source that no server uses.', deleteSource, [WORKSPACE])
}

export function mcpAdminVerbs(servers: Command): void {
  addVerb(servers, 'list', 'List the servers of a workspace.', list, [WORKSPACE])
  addVerb(servers, 'show <server>', 'Print a server with its draft.', show(''), [WORKSPACE])
  addVerb(servers, 'candidates <server>', 'List candidates for tools.', candidates, [WORKSPACE])
  addVerb(
    servers,
    'curate <server> <file>',
    'Replace the draft by the JSON body of PUT …/curation.',
    curate,
    [WORKSPACE],
  )
  addVerb(servers, 'preview <server>', 'Print the draft as models see it.', show('/preview'), [WORKSPACE])
  addVerb(servers, 'diff <server>', 'Print the changes that publishing the draft would make.', diff, [
    WORKSPACE,
  ])
  addVerb(servers, 'versions <server>', 'Print the published versions.', show('/versions'), [WORKSPACE])
  addVerb(servers, 'approve <server> <version>', 'Approve a version.', activate('approve'), [WORKSPACE])
  addVerb(servers, 'rollback <server> <version>', 'Make a version the active one.', activate('activate'), [
    WORKSPACE,
  ])
  addVerb(servers, 'clients <server>', 'Print the OAuth clients of agents.', show('/clients'), [WORKSPACE])
  addVerb(servers, 'audit <server>', 'List the newest calls.', audit, [WORKSPACE])
  sourceVerbs(servers)
}
