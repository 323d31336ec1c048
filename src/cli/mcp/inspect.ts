/** `tenon mcp inspect`: takes the steps of a client at a server, from the challenge to the tools, and reports each. */

import type { Command } from 'commander'
import { fetchToken } from '../client.ts'
import { need, operatorAccess, readSettings } from '../settings.ts'
import { addVerb, printLine, printTable, WORKSPACE, type WorkspaceOption } from '../verb.ts'
import { type Endpoint, requireEndpoint } from './config.ts'

/** Protected-resource metadata (RFC 9728). */
interface Metadata {
  readonly resource?: string
  readonly authorization_servers?: readonly string[]
  readonly scopes_supported?: readonly string[]
}

interface Tool {
  readonly name: string
  readonly title?: string
  readonly description?: string
  readonly annotations?: { readonly readOnlyHint?: boolean }
}

interface Rpc {
  readonly result?: {
    readonly serverInfo?: { readonly name: string; readonly version: string }
    readonly supportedVersions?: readonly string[]
    readonly tools?: readonly Tool[]
    readonly nextCursor?: string
  }
  readonly error?: { readonly message: string }
  readonly detail?: string
}

/** One line for each step of a client; remembers if one has failed. */
class Checks {
  failed = false

  /** @returns the value of the step; undefined if it has failed */
  async step<T>(
    name: string,
    work: () => Promise<readonly [value: T, summary: string]>,
  ): Promise<T | undefined> {
    try {
      const [value, summary] = await work()
      printLine(`ok    ${name}: ${summary}`)
      return value
    } catch (error) {
      this.failed = true
      printLine(`FAIL  ${name}: ${error instanceof Error ? error.message : String(error)}`)
      return undefined
    }
  }
}

/** The estimate of the preview of a draft: four characters of JSON per token. */
const tokensOf = (value: unknown) => Math.ceil(JSON.stringify(value).length / 4)

const LEGACY = '2025-11-25'
const MODERN = '2026-07-28'

/** Sends one JSON-RPC message. @throws Error with the reason unless there is a result */
async function send(
  url: string,
  token: string,
  { method, params = {}, version }: { method: string; params?: object; version: string },
): Promise<NonNullable<Rpc['result']>> {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': version,
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  const isModern = version === MODERN
  const response = await fetch(url, {
    method: 'POST',
    redirect: 'manual',
    headers: {
      authorization: `Bearer ${token}`,
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      'mcp-protocol-version': version,
      ...(isModern && { 'mcp-method': method }),
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method,
      params: isModern ? { ...params, _meta: meta } : params,
    }),
  })
  const { result, error, detail } = (await response.json().catch(() => ({}))) as Rpc
  if (result !== undefined) return result
  throw new Error(error?.message ?? detail ?? `HTTP ${response.status}`)
}

/** The URL of the metadata in the challenge of a request without a token (RFC 9728 §5.1). */
async function challenge(url: string): Promise<readonly [string, string]> {
  const { status, headers } = await fetch(url, { method: 'POST', redirect: 'manual', body: '{}' })
  const [, metadata] = /resource_metadata="([^"]+)"/.exec(headers.get('www-authenticate') ?? '') ?? []
  if (status !== 401 || metadata === undefined) throw new Error(`HTTP ${status} without a challenge`)
  return [metadata, `401, metadata at ${metadata}`]
}

async function readMetadata(url: string, resource: string): Promise<readonly [Metadata, string]> {
  const metadata = (await (await fetch(url, { redirect: 'manual' })).json()) as Metadata
  if (metadata.resource !== resource)
    throw new Error(`The metadata names the resource ${metadata.resource}, not ${resource}.`)
  const issuers = metadata.authorization_servers?.join(', ') ?? 'none'
  return [metadata, `issuer ${issuers}; scopes ${metadata.scopes_supported?.join(' ') ?? 'none'}`]
}

/** A token of the caller: of the REST API for the platform's server, for the server alone otherwise. */
async function tokenFor(server: string, { url }: Endpoint, scopes: readonly string[]) {
  const settings = await readSettings()
  if (server === 'platform') return [(await operatorAccess(settings)).token, 'that of the REST API'] as const
  const [id, secret] = [need(settings, 'TENON_CLIENT_ID'), need(settings, 'TENON_CLIENT_SECRET')]
  const parameters = { resource: url, scope: scopes.join(' ') }
  return [await fetchToken(need(settings, 'TENON_URL'), id, secret, parameters), `issued to ${id}`] as const
}

/** Reads all pages of `tools/list`. The tokens are an estimate of what a model is given. */
async function listTools(url: string, token: string): Promise<readonly [readonly Tool[], string]> {
  const tools: Tool[] = []
  let cursor: string | undefined
  do {
    const params = cursor === undefined ? {} : { cursor }
    const page = await send(url, token, { method: 'tools/list', params, version: LEGACY })
    tools.push(...(page.tools ?? []))
    cursor = page.nextCursor
  } while (cursor !== undefined)
  return [tools, `${tools.length} tools, about ${tokensOf(tools)} tokens`]
}

function printTools(tools: readonly Tool[]): void {
  printLine('')
  const rows = tools.map((tool) => [
    tool.name,
    tool.annotations?.readOnlyHint === true ? 'reads' : 'writes',
    String(tokensOf(tool)),
    tool.title ?? '',
  ])
  printTable(['tool', 'effect', 'tokens', 'title'], rows)
}

/** @returns 1 if a step has failed */
async function inspect(server: string, { workspace }: WorkspaceOption): Promise<number> {
  const endpoint = await requireEndpoint(server, workspace)
  const { url } = endpoint
  const checks = new Checks()
  printLine(url)
  const metadataUrl = await checks.step('request without a token', () => challenge(url))
  const metadata =
    metadataUrl === undefined
      ? undefined
      : await checks.step('metadata', () => readMetadata(metadataUrl, url))
  const scopes = metadata?.scopes_supported ?? []
  const token = metadata && (await checks.step('token', () => tokenFor(server, endpoint, scopes)))
  if (token === undefined) return 1
  await checks.step(`initialize, ${LEGACY}`, async () => {
    const params = { protocolVersion: LEGACY, capabilities: {}, clientInfo: { name: 'tenon', version: '1' } }
    const { serverInfo } = await send(url, token, { method: 'initialize', params, version: LEGACY })
    return [serverInfo, `${serverInfo?.name} ${serverInfo?.version}`]
  })
  await checks.step(`server/discover, ${MODERN}`, async () => {
    const found = await send(url, token, { method: 'server/discover', version: MODERN })
    return [found, `versions ${found.supportedVersions?.join(', ')}`]
  })
  const tools = await checks.step('tools/list', () => listTools(url, token))
  if (tools !== undefined) printTools(tools)
  return checks.failed ? 1 : 0
}

export function mcpInspectVerb(servers: Command): void {
  addVerb(
    servers,
    'inspect <server>',
    'Connect to a server, or to `platform`, as a client does, and check each step.',
    inspect,
    [WORKSPACE],
  )
}
