/** Tokens of people for hosted MCP servers: issued to members of the workspace, valid for that server alone. */

import { beforeAll, expect, test } from 'vitest'
import {
  addAccount,
  addClient,
  authorization,
  Browser,
  bearer,
  claimsOf,
  inWorkspace,
  REDIRECT,
  signIn,
  tokensOf,
} from '../../support/clients/browser.ts'
import { ok, type PublishedMcpServer, publishMcpServer, rpc, scopesOf } from '../../support/clients/mcp.ts'
import {
  addTestWorkspace,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let clientId: string
let mcpServer: PublishedMcpServer
beforeAll(async () => {
  workspace = await createTestWorkspace()
  clientId = await addClient(workspace.operator)
  mcpServer = await publishMcpServer(workspace, 'people')
})

test('hosted MCP server: token of a user of its workspace: accepted with the granted scopes', async () => {
  const person = await addAccount(workspace.operator, { role: 'service', ...inWorkspace(workspace) })
  const { body } = await tokensOf(clientId, person, { resource: mcpServer.url })
  const reads = scopesOf(mcpServer, 'notes_get', 'notes_list')
  expect(claimsOf(body['access_token'])).toMatchObject({
    aud: mcpServer.url,
    sub: person.id,
    scope: reads,
    mcp_server: mcpServer.id,
  })
  expect(claimsOf(body['access_token'])).not.toHaveProperty('roles')
  const listed = await rpc(mcpServer.path, bearer(body['access_token']), 'tools/list')
  expect(listed.status).toBe(200)
  // The token is not valid for the REST API, nor the other way round.
  expect((await call('GET', '/v1/collections', { as: bearer(body['access_token']) })).status).toBe(401)
  const { body: other } = await tokensOf(clientId, person)
  expect((await rpc(mcpServer.path, bearer(other['access_token']), 'tools/list')).status).toBe(401)
  const more = scopesOf(mcpServer, 'notes_create')
  const { body: up } = await tokensOf(clientId, person, {
    resource: mcpServer.url,
    scope: `${reads} ${more}`,
  })
  expect(up['scope']?.split(' ').sort()).toEqual([more, ...reads.split(' ')].sort())
  await ok(call('DELETE', `/v1/accounts/${person.id}`, { as: workspace.operator }))
  await eventually(async () => {
    const { status } = await rpc(mcpServer.path, bearer(body['access_token']), 'tools/list')
    return status === 401 ? true : undefined
  }, 5_500)
})

test('hosted MCP server: user of another workspace or tenant, or of none: refused', async () => {
  const sibling = await addTestWorkspace(workspace)
  const other = await createTestWorkspace()
  const people = await Promise.all([
    addAccount(workspace.operator, { role: 'service', ...inWorkspace(sibling) }),
    addAccount(workspace.operator, { role: 'tenant_admin', tenant_id: other.tenantId }),
    addAccount(workspace.operator, { role: 'operator' }),
  ])
  for (const person of people) {
    const browser = new Browser(REDIRECT)
    await signIn(browser, authorization(clientId), person)
    const page = await browser.open(authorization(clientId, { resource: mcpServer.url }).url)
    expect([page.status, page.html]).toEqual([403, expect.stringContaining('may not use')])
    expect((await browser.submit(page, { action: 'allow' })).status).toBe(403)
  }
})
