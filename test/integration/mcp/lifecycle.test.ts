/** Life cycle of a hosted MCP server: quota, publication, suspension, deletion. */

import { describe, expect, test } from 'vitest'
import {
  callTool,
  ok,
  publishMcpServer,
  rpc,
  scopesOf,
  serversOf,
  tokenFor,
} from '../../support/clients/mcp.ts'
import { resume, suspend } from '../../support/fixtures/suspension.ts'
import { asSuperuser, call, createTestWorkspace, unique } from '../../support/fixtures/tenants.ts'

describe('MCP server', () => {
  test('quota raised, lifted or set to zero: creation follows it', async () => {
    const workspace = await createTestWorkspace()
    const set = (limit: number) =>
      call('PUT', '/v1/quotas', {
        as: workspace.operator,
        body: { workspace_id: workspace.workspaceId, limits: { mcp_servers: limit } },
      })
    const make = async () =>
      (
        await call('POST', serversOf(workspace), {
          as: workspace.operator,
          body: { name: unique('S'), slug: unique('s') },
        })
      ).status
    const read = async () =>
      (await ok(call('GET', `/v1/quotas?workspace_id=${workspace.workspaceId}`, { as: workspace.operator })))
        .quotas.mcp_servers
    expect(await read()).toEqual({ limit: 1, used: 0, remaining: 1 })
    expect([await make(), await make()]).toEqual([201, 429])
    expect((await ok(set(2))).quotas.mcp_servers).toEqual({ limit: 2, used: 1, remaining: 1 })
    expect([await make(), await make()]).toEqual([201, 429])
    expect((await ok(set(-1))).quotas.mcp_servers).toEqual({ limit: -1, used: 2, remaining: null })
    expect([await make(), await make()]).toEqual([201, 201])
    await ok(set(0))
    expect(await make()).toBe(429)
  })

  test('concurrent creations with a quota of one: one server', async () => {
    const workspace = await createTestWorkspace()
    const make = () =>
      call('POST', serversOf(workspace), {
        as: workspace.operator,
        body: { name: unique('S'), slug: unique('s') },
      })
    // A slow creation in progress: the others wait for its lock before they count.
    const slow = asSuperuser(`do $$ begin
      perform pg_advisory_xact_lock(hashtext('mcp_servers'), hashtext('${workspace.workspaceId}'));
      insert into tenon.mcp_servers (tenant_id, workspace_id, id, slug, name, description, state, created_by)
      values ('${workspace.tenantId}', '${workspace.workspaceId}', 'mcp_slow', 'slow', 'slow', '', 'created', 'test');
      perform pg_sleep(1.5); end $$`)
    await new Promise((done) => setTimeout(done, 500))
    const replies = await Promise.all([make(), make(), make()])
    expect(replies.map(({ status }) => status)).toEqual([429, 429, 429])
    await slow
    expect(replies.find(({ status }) => status === 429)?.body).toMatchObject({
      code: 'quota_exceeded',
      quota: 'mcp_servers',
      limit: 1,
      used: 1,
    })
  })

  test('unpublished, suspended or deleted: 404; recreated under the same address: old tokens get 401 (T44)', async () => {
    const workspace = await createTestWorkspace()
    const as = workspace.operator
    const { path } = await ok(call('POST', serversOf(workspace), { as, body: { name: 'My Notes' } }))
    expect(path).toBe(`${serversOf(workspace)}/my-notes/mcp`)
    const metadata = () => call('GET', `/.well-known/oauth-protected-resource${path}`)
    expect([(await rpc(path, {}, 'tools/list')).status, (await metadata()).status]).toEqual([404, 404])
    const early = { tool: 'notes_list', arguments: {} }
    expect((await call('POST', `${serversOf(workspace)}/my-notes/call`, { as, body: early })).status).toBe(
      409,
    )
    await ok(call('DELETE', `${serversOf(workspace)}/my-notes`, { as }))

    const mcpServer = await publishMcpServer(workspace, 'life')
    const token = await tokenFor(mcpServer, scopesOf(mcpServer, 'notes_list'))
    const statusOfCall = async () => (await callTool(mcpServer.path, token, 'notes_list')).status
    expect(await statusOfCall()).toBe(200)
    await ok(call('PATCH', mcpServer.base, { as, body: { suspended: true } }))
    expect(await statusOfCall()).toBe(404)
    await ok(call('PATCH', mcpServer.base, { as, body: { suspended: false } }))
    expect(await statusOfCall()).toBe(200)
    await ok(call('DELETE', mcpServer.base, { as }))
    expect(await statusOfCall()).toBe(404)
    // The same address again is another server: the token was issued for the deleted one.
    await publishMcpServer(workspace, 'life')
    expect(await statusOfCall()).toBe(401)
  })

  test('tenant suspended between two calls: 404 until it is resumed', async () => {
    const mcpServer = await publishMcpServer(await createTestWorkspace(), 'rest')
    const token = await tokenFor(mcpServer, scopesOf(mcpServer, 'notes_list'))
    const status = async () => (await callTool(mcpServer.path, token, 'notes_list')).status
    expect(await status()).toBe(200)
    await ok(suspend(mcpServer.workspace))
    expect(await status()).toBe(404)
    await ok(resume(mcpServer.workspace))
    expect(await status()).toBe(200)
  })
})
