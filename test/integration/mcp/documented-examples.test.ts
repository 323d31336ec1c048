/** The JSON of docs/mcp.md, used as a reader would. */

import { readFileSync } from 'node:fs'
import { beforeAll, expect, test } from 'vitest'
import {
  callTool,
  createMcpWorkspace,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  rpc,
  scopesOf,
  tokenFor,
} from '../../support/clients/mcp.ts'
import { canary, storeSecret } from '../../support/fixtures/secrets.ts'
import { call, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

const PAGE = readFileSync('docs/mcp.md', 'utf8')
const BLOCKS = [...PAGE.matchAll(/```json\n(.*?)```/gs)].map(([, text = '']) => JSON.parse(text))
const GROUPS = JSON.parse(`{${/`("groups": \[.*\])`/.exec(PAGE)?.[1]}}`)
const [CLIENT, IMAGE, CURATION] = BLOCKS

let workspace: TestWorkspace

beforeAll(async () => {
  workspace = await createMcpWorkspace()
})

test('JSON blocks: each is used below', () => {
  expect(BLOCKS).toHaveLength(3)
})

test('configuration of a client: names the endpoint of the platform server', async () => {
  const { tenon } = CLIENT.mcpServers
  const { body } = await rpc(new URL(tenon.url).pathname, workspace.operator, 'tools/list')
  expect(body.result.tools.length).toBeGreaterThan(10)
})

test('source that is an image: taken as it is, up to the engine that is missing here', async () => {
  await configure(workspace, { experimental: ['mcp.images'] })
  await storeSecret(workspace, 'pdf_license', canary())
  const register = (more: object) =>
    call('POST', `/v1/mcp/workspaces/${workspace.workspaceId}/sources`, {
      as: workspace.operator,
      body: { ...IMAGE, image: IMAGE.image.replace('<digest>', 'a'.repeat(64)), ...more },
    })
  expect((await register({})).body).toMatchObject({ code: 'containers_unavailable' })
  expect((await register({ limits: { ...IMAGE.limits, cores: 1 } })).status).toBe(400)
})

async function publishCurated(): Promise<PublishedMcpServer> {
  const { operator: as, workspaceId: workspace_id, service } = workspace
  const properties = {
    customer: { type: 'string' },
    status: { type: 'string', enum: ['open', 'late'] },
    cents: { type: 'integer' },
  }
  const schema = { properties, required: ['customer'], additionalProperties: false }
  const declared = { workspace_id, collection: 'orders', store: 'relational', schema, mode: 'enforce' }
  await ok(call('POST', '/v1/schemas', { as, body: declared }))
  for (const [customer, status] of [
    ['Ann', 'late'],
    ['Ann', 'open'],
    ['Bob', 'late'],
  ])
    await ok(call('POST', '/v1/collections/orders/documents', { as: service, body: { customer, status } }))
  const server = await publishMcpServer(workspace, 'documented')
  await ok(call('PUT', `${server.base}/curation`, { as, body: { ...CURATION, ...GROUPS } }))
  await ok(call('POST', `${server.base}/publish`, { as, body: { accept: ['breaking'] } }))
  return server
}

test('curation with groups: published; its tool, prompt and resource are as it says', async () => {
  const server = await publishCurated()
  const as = await tokenFor(server, scopesOf(server, 'late_orders'))
  const ask = async (method: string, params?: object) =>
    (await rpc(server.path, as, method, params)).body.result
  const [tool, ...others] = (await ask('tools/list')).tools
  expect([tool.name, tool.description, others]).toEqual([
    'late_orders',
    expect.stringMatching(/^Orders that are overdue\./),
    [],
  ])
  const { customer, limit, ...rest } = tool.inputSchema.properties
  expect([customer.description, limit.default, limit.maximum]).toEqual(['Who ordered.', 10, 20])
  expect(rest).not.toHaveProperty('status')
  expect(rest).not.toHaveProperty('cents')
  expect(JSON.stringify(tool._meta)).toContain(GROUPS.groups[0].name)
  const [example] = CURATION.tools['collections:orders:list'].examples
  const found = (await callTool(server.path, as, 'late_orders', example)).body.result.structuredContent
  expect(found.data).toEqual([expect.objectContaining({ customer: 'Ann', status: 'late' })])
  const { messages } = await ask('prompts/get', { name: 'remind', arguments: example })
  expect(messages[0].content.text).toBe('Write a reminder to Ann.')
  const { contents } = await ask('resources/read', { uri: CURATION.resources.policy.uri })
  expect(contents[0].text).toBe('Refunds take five days.')
})
