/** MCP servers, and what an archive only names, in an archive: they come out closed, as they were, and bound to the new workspace. */

import { expect, test } from 'vitest'
import {
  callTool,
  ok,
  publish,
  publishMcpServer,
  scopesOf,
  serversOf,
  tokenFor,
} from '../../support/clients/mcp.ts'
import { exportArchive, importArchive } from '../../support/fixtures/archives.ts'
import { call, createTestWorkspaceWithStorage, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

const SHOP = {
  openapi: '3.0.3',
  paths: { '/orders': { get: { operationId: 'listOrders', summary: 'List', responses: { 200: {} } } } },
}

/** A server with a tool of each kind of thing, of which two versions are published. */
async function publishOverEverything(workspace: TestWorkspace) {
  const { operator: as, workspaceId } = workspace
  const source = 'export default ({ n = 0 }) => ({ twice: n * 2 })'
  await ok(call('POST', '/v1/functions', { as, body: { workspace_id: workspaceId, name: 'twice', source } }))
  const shop = {
    ...{ name: 'shop', kind: 'openapi', url: 'https://shop.example/openapi.json', document: SHOP },
    headers: { 'x-shop-key': { secret: 'SHOP_KEY' } },
  }
  await ok(call('POST', `/v1/mcp/workspaces/${workspaceId}/sources`, { as, body: shop }))
  const bucket = await bucketOf(workspace)
  const tools = {
    'collections:notes:list': { enabled: true },
    'functions:twice:invoke': { enabled: true },
    [`buckets:${bucket}:list`]: { enabled: true, name: 'files' },
  }
  const server = await publishMcpServer(workspace, 'desk', tools)
  await publish(server, {
    ...tools,
    'openapi:shop:listOrders': { enabled: true, title: 'Orders of the shop' },
  })
  return server
}

const versionOf = async ({ operator: as }: TestWorkspace, base: string, version: number) =>
  ok(call('GET', `${base}/versions/${version}`, { as }))

test('MCP server with two versions, sources and clients: imported as a copy: nobody can call it until a version is approved; then its tools are those that were published, over the copy', async () => {
  const from = await createTestWorkspaceWithStorage()
  const { operator: as, workspaceId, tenantId } = from
  const server = await publishOverEverything(from)
  await ok(call('POST', `${server.base}/clients`, { as, body: { name: 'agent' } }))
  const machine = {
    kind: 'machine',
    role: 'service',
    name: 'backend',
    tenant_id: tenantId,
    workspace_id: workspaceId,
  }
  await ok(call('POST', '/v1/oauth-clients', { as, body: machine }))
  await ok(call('POST', `/v1/workspaces/${workspaceId}/hosts`, { as, body: { host: 'desk.shop.example' } }))
  await ok(call('PUT', '/v1/quotas', { as, body: { workspace_id: workspaceId, limits: { documents: 50 } } }))
  const archive = await exportArchive(from)
  const copy = await importArchive(from, archive)

  expect(copy.operation.result.missing).toEqual(
    expect.arrayContaining([
      'client agent of the MCP server desk: make a new one',
      'OAuth client backend (machine): make a new one',
      'quota documents: set it',
      'host name desk.shop.example: claim it, and prove it again',
      'MCP server desk: publish it; to serve what it served, approve its version 2, and otherwise publish its draft',
    ]),
  )
  expect(copy.operation.result.counts).toMatchObject({
    mcp_sources: 1,
    mcp_servers: 1,
    mcp_server_versions: 2,
  })
  const base = `${serversOf(copy)}/desk`
  const draft = await ok(call('GET', base, { as }))
  expect([draft.state, draft.active_version, draft.latest_version]).toEqual(['curated', null, 2])
  expect((await callTool(draft.path, as, 'notes_list')).status).toBe(404)
  expect((await call('POST', `${base}/versions/2/activate`, { as, body: {} })).status).toBe(409)

  const [was, is] = [await versionOf(from, server.base, 2), await versionOf(copy, base, 2)]
  const shown = ({ tools }: { tools: Record<string, unknown>[] }) =>
    tools.map(({ name, title, description, input_schema, annotations, scope }) => [
      ...[name, title, description, input_schema, annotations, scope],
    ])
  expect(shown(is.manifest)).toEqual(shown(was.manifest))
  expect(is.state).toBe('needs_approval')
  expect(JSON.stringify(is.manifest)).not.toContain(workspaceId)
  expect(JSON.stringify(is.manifest)).not.toContain(`"bucket":"${await bucketOf(from)}"`)

  await ok(call('POST', `${base}/versions/2/approve`, { as, body: {} }))
  const open = {
    ...server,
    workspace: copy,
    path: draft.path,
    url: server.url.replace(server.path, draft.path),
  }
  const token = await tokenFor(open, scopesOf(open, 'notes_list', 'call_twice', 'files'))
  const run = async (tool: string, args = {}) => (await callTool(draft.path, token, tool, args)).body
  expect(JSON.stringify(await run('notes_list'))).toContain('hello')
  expect(JSON.stringify(await run('call_twice', { input: { n: 21 } }))).toContain('42')
  expect((await run('files')).result.isError).not.toBe(true)
})

test('more MCP servers than a new workspace may have: imported: the others are left out, and named', async () => {
  const from = await createTestWorkspaceWithStorage()
  const { operator: as, workspaceId } = from
  await ok(
    call('PUT', '/v1/quotas', { as, body: { workspace_id: workspaceId, limits: { mcp_servers: -1 } } }),
  )
  for (const slug of ['one', 'two']) await publishMcpServer(from, slug)
  const copy = await importArchive(from, await exportArchive(from))
  const { data } = await ok(call('GET', serversOf(copy), { as }))
  expect(data.map(({ slug }: { slug: string }) => slug)).toEqual(['one'])
  expect(copy.operation.result.missing).toContain(
    'MCP server two: it is left out, since the quota mcp_servers of the workspace is 1; raise it, and make the server anew',
  )
})
