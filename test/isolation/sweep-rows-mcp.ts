/** Rows of the sweep for hosted MCP servers, and the server they name. */

import { ok, publishMcpServer } from '../support/clients/mcp.ts'
import { call, type TestWorkspace, unique } from '../support/fixtures/tenants.ts'

const SLUG = 'sweep'

interface World {
  readonly workspace: TestWorkspace
  readonly agentId: string
}

const row = (tail: string, body?: () => unknown) => ({
  path: ({ workspace }: World) => `/v1/mcp/workspaces/${workspace.workspaceId}/servers${tail}`,
  ...(body !== undefined && { body }),
  foreign: 'not_found' as const,
})

const DOCUMENT = { openapi: '3.0.0', paths: { '/x': { get: {} } } }
const SOURCE = { name: SLUG, kind: 'openapi', url: 'https://x.example', document: DOCUMENT }

/** Publishes an MCP server in the workspace of the sweep, and registers a source of tools. @returns the id of a client of the server */
export async function publishSweepServer(workspace: TestWorkspace): Promise<string> {
  const { base } = await publishMcpServer(workspace, SLUG)
  const as = workspace.operator
  await ok(call('POST', `/v1/mcp/workspaces/${workspace.workspaceId}/sources`, { as, body: SOURCE }))
  return (await ok(call('POST', `${base}/clients`, { as, body: { name: 'x' } }))).client_id
}

const sourceRow = (tail: string, body?: () => unknown) => ({
  path: ({ workspace }: { workspace: TestWorkspace }) =>
    `/v1/mcp/workspaces/${workspace.workspaceId}/sources${tail}`,
  ...(body !== undefined && { body }),
  foreign: 'not_found' as const,
})

export const MCP_ROWS = {
  'mcp_server.list': row(''),
  'mcp_server.create': row('', () => ({ name: 'X', slug: 'x' })),
  'mcp_server.get': row(`/${SLUG}`),
  'mcp_server.update': row(`/${SLUG}`, () => ({ name: 'changed', suspended: true })),
  'mcp_server.delete': row(`/${SLUG}`),
  'mcp_candidate.list': row(`/${SLUG}/candidates`),
  'mcp_server.preview': row(`/${SLUG}/preview`),
  'mcp_curation.replace': row(`/${SLUG}/curation`, () => ({ tools: {} })),
  'mcp_version.create': row(`/${SLUG}/publish`, () => ({})),
  'mcp_version.list': row(`/${SLUG}/versions`),
  'mcp_version.get': row(`/${SLUG}/versions/1`),
  'mcp_version.activate': row(`/${SLUG}/versions/1/activate`, () => ({})),
  'mcp_version.approve': row(`/${SLUG}/versions/1/approve`, () => ({})),
  'mcp_server.call': row(`/${SLUG}/call`, () => ({
    tool: 'notes_create',
    arguments: { document: { text: 'x' } },
  })),
  'mcp_call.list': row(`/${SLUG}/audit`),
  'mcp_call.verify': row(`/${SLUG}/audit/verify`),
  'mcp_client.create': row(`/${SLUG}/clients`, () => ({ name: 'x' })),
  'mcp_client.list': row(`/${SLUG}/clients`),
  'mcp_client.delete': {
    ...row(''),
    path: (world: World) => `${row(`/${SLUG}/clients`).path(world)}/${world.agentId}`,
  },
  'mcp_source.list': sourceRow(''),
  'mcp_source.create': sourceRow('', () => ({ ...SOURCE, name: unique('source') })),
  'mcp_source.get': sourceRow(`/${SLUG}`),
  'mcp_source.refresh': sourceRow(`/${SLUG}/refresh`, () => ({ document: DOCUMENT })),
  'mcp_source.delete': sourceRow(`/${SLUG}`),
}
