/** Routes beside the operations, as rows of the fuzz: pages, the issuer, webhooks, MCP endpoints and documents. */

import { inject } from 'vitest'
import type { World } from '../../isolation/sweep-rows.ts'

export interface RouteRow {
  readonly method: string
  readonly path: (world: World) => string
  readonly caller: 'nobody' | 'service' | 'agent'
  readonly bodies?: readonly unknown[]
  readonly headers?: Readonly<Record<string, string>>
}

const page = (path: string): RouteRow => ({ method: 'GET', path: () => path, caller: 'nobody' })

const form = (path: string, ...bodies: readonly Record<string, string>[]): RouteRow => ({
  ...{ method: 'POST', path: () => path, caller: 'nobody' },
  bodies: bodies.map((fields) => new URLSearchParams(fields).toString()),
  headers: { 'content-type': 'application/x-www-form-urlencoded' },
})

const rpc = (method: string, params: object) => ({ jsonrpc: '2.0', id: 1, method, params })
const CLIENT = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'fuzz', version: '1' } }
const endpoint = (path: (world: World) => string, caller: RouteRow['caller'], tool: string): RouteRow => ({
  ...{ method: 'POST', path, caller },
  bodies: [
    rpc('initialize', CLIENT),
    rpc('ping', {}),
    rpc('tools/list', {}),
    rpc('tools/call', { name: tool, arguments: {} }),
    rpc('resources/list', {}),
    rpc('prompts/list', { cursor: 'x' }),
  ],
  headers: { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-06-18' },
})

const hosted = ({ workspace }: World) => `/v1/mcp/workspaces/${workspace.workspaceId}/servers/sweep`
const AUTHORIZE =
  'response_type=code&client_id=x&redirect_uri=https%3A%2F%2Fa.example&code_challenge=abc&code_challenge_method=S256&scope=openid'

export const ROUTES: Readonly<Record<string, RouteRow>> = {
  'page healthz': page('/healthz'),
  'page openapi.json': page('/openapi.json'),
  'page llms.txt': page('/llms.txt'),
  'page problem': page('/docs/problems/not_found'),
  'page fault': page('/docs/flows/diagnostics/name_unknown'),
  'page payloads': page('/auth/payloads'),
  'page password': page('/auth/password'),
  'page invitation': page('/auth/invitation?token=x'),
  'page interaction': page('/auth/interaction/x'),
  'page interaction step': page('/auth/interaction/x/login'),
  'page provider': page('/auth/interaction/x/providers/y'),
  'issuer discovery': page('/auth/.well-known/openid-configuration'),
  'issuer keys': page('/auth/jwks'),
  'issuer authorize': page(`/auth/authorize?${AUTHORIZE}`),
  'issuer token': form(
    '/auth/token',
    { grant_type: 'client_credentials', client_id: 'x', client_secret: 'y' },
    { grant_type: 'refresh_token', refresh_token: 'x', client_id: 'y' },
  ),
  'issuer revoke': form('/auth/revoke', { token: 'x', client_id: 'y' }),
  'issuer password': form('/auth/password', { email: 'a@example.test', password: 'x', new_password: 'y' }),
  'issuer interaction': form('/auth/interaction/x', { email: 'a@example.test', password: 'x' }),
  'issuer register': {
    ...{ method: 'POST', path: () => '/auth/register', caller: 'nobody' },
    bodies: [
      { client_name: 'x', redirect_uris: ['https://a.example/callback'], token_endpoint_auth_method: 'none' },
    ],
  },
  'mcp manifest keys': page('/.well-known/tenon-manifest-keys'),
  'mcp server.json': { method: 'GET', path: (world) => `${hosted(world)}/server.json`, caller: 'nobody' },
  'mcp resource': {
    method: 'GET',
    path: (world) => `/.well-known/oauth-protected-resource${hosted(world)}/mcp`,
    caller: 'nobody',
  },
  'mcp hosted': endpoint((world) => `${hosted(world)}/mcp`, 'agent', 'notes_list'),
  'mcp platform': endpoint(() => '/v1/mcp/platform/mcp', 'service', 'collections_list'),
  webhook: {
    ...{ method: 'POST', caller: 'nobody', bodies: [{ a: 1 }] },
    path: ({ workspace, webhookId }) => `${workspace.flows}/triggers/${webhookId}`,
    headers: { 'webhook-id': 'm1', 'webhook-timestamp': '1764000000', 'webhook-signature': 'v1,AAAA' },
  },
  callback: {
    ...{ method: 'POST', caller: 'nobody', bodies: [{ a: 1 }] },
    path: ({ workspace, executionId }) => `${workspace.flows}/callbacks/${executionId}?token=x`,
  },
}

/** The resource that tokens of agents are for. */
export const hostedUrl = (world: World): string => `${inject('tenon').url}${hosted(world)}/mcp`
