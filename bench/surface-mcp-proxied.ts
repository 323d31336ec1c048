/** Measures a tool of another MCP server behind a hosted server against the same call at that server itself, in the same run. */

import type { ApiClient } from '../src/cli/client.ts'
import { McpUpstream, textResult, type UpstreamKind } from '../test/support/servers/mcp-upstream.ts'
import { interleaved, print } from './measure.ts'

const ROUNDS = 300
const KINDS: readonly UpstreamKind[] = ['modern', 'stateless', 'sessions']
const TOOL = { name: 'echo', call: ({ text }: Record<string, unknown>) => textResult(String(text)) }
const VERSION = '2025-11-25'

type Send = (method: string, path: string, headers: Record<string, string>, body?: string) => Promise<string>

interface Bench {
  readonly admin: ApiClient
  readonly workspaceId: string
  /** Sends to the platform, and to any other server. */
  readonly senderTo: (url: string) => Send
  readonly url: string
  readonly tokenFor: (path: string, scope: string) => Promise<string>
}

export async function proxied({ admin, workspaceId, senderTo, url, tokenFor }: Bench): Promise<void> {
  const upstreams = await Promise.all(KINDS.map((kind) => McpUpstream.open(kind, [TOOL])))
  const allow = upstreams.map(({ host }) => host)
  await admin.post('/v1/services/configure', { workspace_id: workspaceId, egress: { allow } })
  const base = `/v1/mcp/workspaces/${workspaceId}`
  const tools: Record<string, object> = {}
  for (const [index, kind] of KINDS.entries()) {
    await admin.post(`${base}/sources`, { name: kind, kind: 'mcp', url: upstreams[index]?.url })
    tools[`mcp:${kind}:echo`] = { enabled: true, scope: 'all' }
  }
  const { path } = await admin.post<{ path: string }>(`${base}/servers`, { name: 'Proxy', slug: 'proxy' })
  await admin.call('PUT', `${base}/servers/proxy/curation`, { tools })
  await admin.post(`${base}/servers/proxy/publish`, {})
  const authorization = `Bearer ${await tokenFor(path, 'mcp:proxy:all')}`
  const works: Record<string, () => Promise<unknown>> = {}
  for (const [index, kind] of KINDS.entries()) {
    const upstream = upstreams[index]
    if (upstream === undefined) continue
    works[`${kind}: direct`] = await directCall(upstream, kind, senderTo)
    works[`${kind}: proxied`] = caller(senderTo(url), path, `${kind}_echo`, { authorization }, 'modern')
  }
  const figures = await interleaved(ROUNDS, works)
  print('\nproxied server, one at a time', 'p50 ms', 'p99 ms', 'added ms')
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures)) {
    const direct = figures[name.replace('proxied', 'direct')]?.p50Ms ?? p50Ms
    print(name, p50Ms, p99Ms, p50Ms - direct)
  }
  await Promise.all(upstreams.map((upstream) => upstream.close()))
}

/** As a client that is connected already. */
async function directCall(
  { url }: McpUpstream,
  kind: UpstreamKind,
  senderTo: Bench['senderTo'],
): Promise<() => Promise<unknown>> {
  const { origin, pathname } = new URL(url)
  const session = kind === 'sessions' ? { 'mcp-session-id': await openSession(url) } : {}
  return caller(senderTo(origin), pathname, TOOL.name, session, kind)
}

async function openSession(url: string): Promise<string> {
  const params = { protocolVersion: VERSION, capabilities: {}, clientInfo: { name: 'bench', version: '1' } }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })
  const response = await fetch(url, { method: 'POST', headers: { ...TYPES }, body })
  await response.text()
  return response.headers.get('mcp-session-id') ?? ''
}

const TYPES = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }

function caller(
  send: Send,
  path: string,
  name: string,
  more: Record<string, string>,
  kind: UpstreamKind,
): () => Promise<unknown> {
  const isModern = kind === 'modern'
  const version = isModern ? '2026-07-28' : VERSION
  const era = {
    'mcp-protocol-version': version,
    ...(isModern && { 'mcp-method': 'tools/call', 'mcp-name': name }),
  }
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': version,
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  const params = { name, arguments: { text: 'hello' }, ...(isModern && { _meta }) }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
  return () => send('POST', path, { ...TYPES, ...era, ...more }, body)
}
