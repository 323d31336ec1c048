/** Suspended tenants get neither tokens nor clients, at once and on every node. */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import {
  addAccount,
  addClient,
  askTokens,
  inWorkspace,
  refresh,
  tokensOf,
} from '../support/clients/browser.ts'
import { askToken, ok, publishMcpServer } from '../support/clients/mcp.ts'
import { resume, suspend, suspendWorkspace } from '../support/fixtures/suspension.ts'
import {
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../support/stack/in-process-node.ts'

let node: Node
beforeAll(async () => {
  node = await startInProcessNode()
})
afterAll(() => node?.close())

interface Machine {
  readonly id: string
  readonly secret: string
}

async function createMachine(
  workspace: TestWorkspace,
  body: object = { role: 'workspace_admin', ...inWorkspace(workspace) },
): Promise<Machine> {
  const wanted = { kind: 'machine', name: 'm', ...body }
  const made = await ok(call('POST', '/v1/oauth-clients', { as: workspace.operator, body: wanted }))
  return { id: made.client_id, secret: made.client_secret }
}

const requestToken = ({ id, secret }: Machine, at = inject('tenon')) =>
  askTokens({ grant_type: 'client_credentials', client_id: id, client_secret: secret }, at)

describe('token of a suspended tenant', () => {
  test('machine client: refused at once, on this node and another', async () => {
    const workspace = await createTestWorkspace()
    const machine = await createMachine(workspace)
    // Both nodes cache the client.
    const before = [await requestToken(machine), await requestToken(machine, node.at)]
    expect(before.map(({ status }) => status)).toEqual([200, 200])
    expect((await suspend(workspace)).status).toBe(200)
    for (const at of [inject('tenon'), node.at]) {
      const { status, body } = await requestToken(machine, at)
      expect([status, body['error'], body['access_token']]).toEqual([
        expect.toSatisfy((code: number) => code === 400 || code === 401),
        expect.stringMatching(/^invalid_(target|client)$/),
        undefined,
      ])
    }
    expect((await resume(workspace)).status).toBe(200)
    await eventually(async () => ((await requestToken(machine)).status === 200 ? true : undefined), 5_000)
  })

  test('machine client of a suspended workspace: refused', async () => {
    const workspace = await createTestWorkspace()
    const machine = await createMachine(workspace)
    expect((await requestToken(machine)).status).toBe(200)
    expect((await suspendWorkspace(workspace, workspace.operator)).status).toBe(200)
    expect((await requestToken(machine)).body['access_token']).toBeUndefined()
  })

  test('agent client and refresh token of an account: refused', async () => {
    const workspace = await createTestWorkspace()
    const mcpServer = await publishMcpServer(workspace, 'suspended')
    const made = await ok(
      call('POST', `${mcpServer.base}/clients`, { as: workspace.operator, body: { name: 'a' } }),
    )
    const agent = { id: made.client_id, secret: made.client_secret }
    const person = await addAccount(workspace.operator, { role: 'service', ...inWorkspace(workspace) })
    const clientId = await addClient(workspace.operator)
    const { body } = await tokensOf(clientId, person)
    expect((await askToken({}, agent)).status).toBe(200)
    await suspend(workspace)
    expect((await askToken({}, agent)).body['access_token']).toBeUndefined()
    expect((await refresh(clientId, body['refresh_token'])).body['access_token']).toBeUndefined()
  })
})

describe('client or account in a suspended tenant', () => {
  test.each([
    ['machine client', '/v1/oauth-clients', () => ({ kind: 'machine', name: 'm' })],
    ['account', '/v1/accounts', () => ({ email: `${unique('x')}@example.test` })],
  ])('%s created by an operator, for tenant or workspace: refused', async (_what, path, more) => {
    const workspace = await createTestWorkspace()
    const as = workspace.operator
    await suspend(workspace)
    for (const place of [
      { role: 'workspace_admin', ...inWorkspace(workspace) },
      { role: 'service', workspace_id: workspace.workspaceId },
      { role: 'tenant_admin', tenant_id: workspace.tenantId },
    ]) {
      const reply = await call('POST', path, { as, body: { ...more(), ...place } })
      expect([reply.status, reply.body.code]).toEqual([403, 'tenant_suspended'])
    }
  })

  test('public client or agent client created: refused', async () => {
    const workspace = await createTestWorkspace()
    const mcpServer = await publishMcpServer(workspace, 'closed')
    const as = workspace.operator
    await suspend(workspace)
    for (const place of [inWorkspace(workspace), { tenant_id: workspace.tenantId }]) {
      const body = { kind: 'public', name: 'p', redirect_uris: ['https://app.test/'], ...place }
      expect((await call('POST', '/v1/oauth-clients', { as, body })).body.code).toBe('tenant_suspended')
    }
    const agent = await call('POST', `${mcpServer.base}/clients`, { as, body: { name: 'a' } })
    expect([agent.status, agent.body.code]).toEqual([403, 'tenant_suspended'])
  })

  test('machine client in a suspended workspace created: refused', async () => {
    const workspace = await createTestWorkspace()
    await suspendWorkspace(workspace, workspace.operator)
    const body = { kind: 'machine', name: 'm', role: 'service', ...inWorkspace(workspace) }
    const reply = await call('POST', '/v1/oauth-clients', { as: workspace.operator, body })
    expect([reply.status, reply.body.code]).toEqual([403, 'workspace_suspended'])
  })
})
