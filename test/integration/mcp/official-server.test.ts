/** The official MCP server, called by the official client: administrative reads as tools. */

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { expect, inject, test } from 'vitest'
import { OPERATIONS } from '../../../src/features/index.ts'
import { type Caller, call, createTestWorkspace, operator, tokenOf } from '../../support/fixtures/tenants.ts'

const PATH = '/v1/mcp/platform/mcp'

async function withClient<T>(as: Caller, work: (client: Client) => Promise<T>): Promise<T> {
  const url = new URL(`${inject('tenon').url}${PATH}`)
  const client = new Client({ name: 'test', version: '1' })
  const transport = new StreamableHTTPClientTransport(url, { requestInit: { headers: as } })
  await client.connect(transport as Parameters<typeof client.connect>[0])
  try {
    return await work(client)
  } finally {
    await client.close()
  }
}

test('tool list: every administrative read operation, no write', async () => {
  const tools = await withClient(await operator(), async (client) => (await client.listTools()).tools)
  // A tool returns once; operations that stream are no tools.
  const reads = OPERATIONS.filter(
    ({ reads: read, domain, http }) => read && domain !== 'data_access' && http.reply !== 'feed',
  )
  expect(tools.map(({ name }) => name).sort()).toEqual(
    reads.map(({ name }) => name.replaceAll('.', '_')).sort(),
  )
  expect(tools.every(({ annotations }) => annotations?.readOnlyHint === true)).toBe(true)
})

test('tenant admin: sees its own tenant only', async () => {
  const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const as = await tokenOf({ roles: ['tenant_admin'], tenant_id: workspace.tenantId })
  await withClient(as, async (client) => {
    const list = await client.callTool({ name: 'tenant_list', arguments: {} })
    expect(JSON.stringify(list.structuredContent)).toContain(workspace.tenantId)
    expect(JSON.stringify(list.structuredContent)).not.toContain(other.tenantId)
    const foreign = await client.callTool({ name: 'flow_list', arguments: { ws: other.workspaceId } })
    expect(foreign).toMatchObject({
      isError: true,
      content: [{ text: 'not_found: There is no such workspace.' }],
    })
    const faulty = await client.callTool({ name: 'tenant_list', arguments: { page_size: 1_000 } })
    expect(faulty).toMatchObject({ isError: true, content: [{ text: expect.stringContaining('page_size') }] })
    const unknown = await client.callTool({ name: 'tenant_delete', arguments: {} })
    expect(unknown.isError).toBe(true)
  })
})

test('workspace admin: is listed no tool that the role may not use; one that is called is forbidden', async () => {
  const { tenantId, workspaceId } = await createTestWorkspace()
  const as = await tokenOf({ roles: ['workspace_admin'], tenant_id: tenantId, workspace_id: workspaceId })
  await withClient(as, async (client) => {
    const names = (await client.listTools()).tools.map(({ name }) => name)
    expect(names).toContain('flow_list')
    const closed = OPERATIONS.filter(
      ({ reads, domain, roles }) =>
        reads && domain === 'structural_admin' && !(roles as readonly string[]).includes('workspace_admin'),
    ).map(({ name }) => name.replaceAll('.', '_'))
    expect(closed).toContain('tenant_list')
    expect(names.filter((name) => closed.includes(name))).toEqual([])
    const refused = await client.callTool({ name: 'tenant_list', arguments: {} })
    expect(refused).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/^forbidden:/) }],
    })
  })
})

test('no token or an API key: 401', async () => {
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
  const workspace = await createTestWorkspace()
  const as = (caller: Caller) => call('POST', PATH, { as: caller, body })
  expect((await as({})).status).toBe(401)
  expect((await as(workspace.service)).status).toBe(401)
  expect((await as({ authorization: `Bearer ${workspace.service['apikey']}` })).body.code).toBe(
    'token_invalid',
  )
  expect((await call('GET', PATH, { as: workspace.operator })).status).toBe(405)
})
