/** Rows of the sweep for hosted MCP servers, and the server they name. */

import { publishMcpServer } from '../support/clients/mcp.ts'
import type { TestWorkspace } from '../support/fixtures/tenants.ts'

const SLUG = 'sweep'

/** Publishes an MCP server in the workspace of the sweep. */
export const publishSweepServer = (workspace: TestWorkspace) => publishMcpServer(workspace, SLUG)

const row = (tail: string, body?: () => unknown) => ({
  path: ({ workspace }: { workspace: TestWorkspace }) =>
    `/v1/mcp/workspaces/${workspace.workspaceId}/servers${tail}`,
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
  'mcp_server.call': row(`/${SLUG}/call`, () => ({ tool: 'notes_list', arguments: {} })),
  'mcp_call.list': row(`/${SLUG}/audit`),
  'mcp_call.verify': row(`/${SLUG}/audit/verify`),
  'mcp_client.create': row(`/${SLUG}/clients`, () => ({ name: 'x' })),
  'mcp_client.list': row(`/${SLUG}/clients`),
  'mcp_client.delete': row(`/${SLUG}/clients/agent_x`),
}
