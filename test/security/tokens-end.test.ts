/** Access tokens end within 5 s of revocation, on every node, however they were revoked. */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import {
  addAccount,
  addClient,
  authorization,
  Browser,
  bearer,
  claimsOf,
  exchange,
  inWorkspace,
  REDIRECT,
  refresh,
  signIn,
  type TestAccount,
  tokensOf,
} from '../support/clients/browser.ts'
import {
  askToken,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  rpc,
  scopesOf,
} from '../support/clients/mcp.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../support/stack/in-process-node.ts'

const WITHIN_MS = 5_000

let workspace: TestWorkspace
let mcpServer: PublishedMcpServer
let person: TestAccount
let clientId: string
let node: Node
beforeAll(async () => {
  ;[workspace, node] = await Promise.all([createTestWorkspace(), startInProcessNode()])
  mcpServer = await publishMcpServer(workspace, 'ends')
  person = await addAccount(workspace.operator, { role: 'tenant_admin', tenant_id: workspace.tenantId })
  clientId = await addClient(workspace.operator)
})
afterAll(() => node?.close())

const basic = (id: string, secret: string) => ({
  authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`,
})

async function revoke(token: string, parameters: Record<string, string>, headers: Caller = {}) {
  const body = new URLSearchParams({ token, ...parameters })
  const response = await fetch(`${inject('tenon').url}/auth/revoke`, { method: 'POST', body, headers })
  return { status: response.status, text: await response.text() }
}

const read = (token: string | undefined, at = inject('tenon')) =>
  call('GET', '/v1/workspaces', { as: bearer(token), at })

/** Presents the token to both nodes, so that both cache it. */
async function expectAccepted(token: string | undefined): Promise<void> {
  expect([(await read(token)).status, (await read(token, node.at)).status]).toEqual([200, 200])
}

async function expectRefused(token: string | undefined): Promise<void> {
  const here = await read(token)
  expect([here.status, here.body.code]).toEqual([401, 'token_invalid'])
  await eventually(async () => ((await read(token, node.at)).status === 401 ? true : undefined), WITHIN_MS)
}

async function createAgentClient(): Promise<{ id: string; secret: string }> {
  const body = { name: 'agent' }
  const made = await ok(call('POST', `${mcpServer.base}/clients`, { as: workspace.operator, body }))
  return { id: made.client_id, secret: made.client_secret }
}

const list = (token: string | undefined) => rpc(mcpServer.path, bearer(token), 'tools/list')

describe.concurrent('access token of an account', () => {
  const codeOf = async () => {
    const flow = authorization(clientId)
    return { flow, end: await signIn(new Browser(REDIRECT), flow, person) }
  }

  test('code presented again: ends', async () => {
    const { flow, end } = await codeOf()
    const { body } = await exchange(clientId, flow, end)
    await expectAccepted(body['access_token'])
    expect((await exchange(clientId, flow, end)).body['error']).toBe('invalid_grant')
    await expectRefused(body['access_token'])
  })

  test('refresh token of its family presented again after its grace: ends (T17)', async () => {
    const { body: first } = await tokensOf(clientId, person)
    const { body: second } = await refresh(clientId, first['refresh_token'])
    await expectAccepted(second['access_token'])
    const after =
      "update tenon.issuer_state set consumed_at = consumed_at - interval '1 hour' where client_id = $1"
    await asSuperuser(after, [clientId])
    expect((await refresh(clientId, first['refresh_token'])).body['error']).toBe('invalid_grant')
    await expectRefused(first['access_token'])
    await expectRefused(second['access_token'])
  })

  test('refresh token revoked: ends', async () => {
    const { body } = await tokensOf(clientId, person)
    await expectAccepted(body['access_token'])
    const { status } = await revoke(body['refresh_token'] ?? '', { client_id: clientId })
    expect(status).toBe(200)
    await expectRefused(body['access_token'])
  })

  test('revoked itself: ends; the refresh token still works', async () => {
    const { body } = await tokensOf(clientId, person)
    await expectAccepted(body['access_token'])
    const revoked = await revoke(body['access_token'] ?? '', { client_id: clientId })
    expect(revoked).toEqual({ status: 200, text: '' })
    await expectRefused(body['access_token'])
    const next = await refresh(clientId, body['refresh_token'])
    expect((await read(next.body['access_token'])).status).toBe(200)
  })

  test('for a hosted MCP server, refresh token revoked: ends there too', async () => {
    const own = await addAccount(workspace.operator, { role: 'service', ...inWorkspace(workspace) })
    const access = { resource: mcpServer.url, scope: scopesOf(mcpServer, 'notes_list') }
    const { body } = await tokensOf(clientId, own, access)
    expect((await list(body['access_token'])).status).toBe(200)
    await revoke(body['refresh_token'] ?? '', { client_id: clientId })
    expect((await list(body['access_token'])).status).toBe(401)
  })

  test('revoked by another client: same response, token stays; by its own client: ends', async () => {
    const { body } = await tokensOf(clientId, person)
    const other = await addClient(workspace.operator)
    const token = body['access_token'] ?? ''
    expect(await revoke(token, { client_id: other })).toEqual({ status: 200, text: '' })
    expect((await read(token)).status).toBe(200)
    const html = { accept: 'text/html' }
    expect(await revoke(token, { client_id: clientId }, html)).toEqual({ status: 200, text: '' })
    expect((await read(token)).status).toBe(401)
  })
})

describe.concurrent('access token of a client', () => {
  test('of the operator, revoked: ends; other tokens of the client stay', async () => {
    const { clientId: id, clientSecret: secret } = inject('tenon')
    const [{ body: one }, { body: two }] = await Promise.all([askToken({}), askToken({})])
    await expectAccepted(one['access_token'])
    expect((await revoke(one['access_token'] ?? '', {}, basic(id, 'wrong'))).status).toBe(401)
    expect((await read(one['access_token'])).status).toBe(200)
    expect((await revoke(one['access_token'] ?? '', {}, basic(id, secret))).status).toBe(200)
    await expectRefused(one['access_token'])
    expect((await read(two['access_token'])).status).toBe(200)
  })

  test('of the operator for a hosted MCP server: lives 600 s, ends when revoked', async () => {
    const { clientId: id, clientSecret: secret } = inject('tenon')
    const { body } = await askToken({ resource: mcpServer.url, scope: scopesOf(mcpServer, 'notes_list') })
    expect(body['expires_in']).toBe(600)
    expect((await list(body['access_token'])).status).toBe(200)
    await revoke(body['access_token'] ?? '', {}, basic(id, secret))
    expect((await list(body['access_token'])).status).toBe(401)
  })

  test('of an agent: lives 600 s, ends when revoked', async () => {
    const agent = await createAgentClient()
    const { body } = await askToken({}, agent)
    const { iat, exp } = claimsOf(body['access_token'])
    expect([body['expires_in'], exp - iat]).toEqual([600, 600])
    expect((await list(body['access_token'])).status).toBe(200)
    expect((await revoke(body['access_token'] ?? '', {}, basic(agent.id, agent.secret))).status).toBe(200)
    expect((await list(body['access_token'])).status).toBe(401)
  })

  test('of an agent whose client is deleted: ends within 5 s', async () => {
    const agent = await createAgentClient()
    const { body } = await askToken({}, agent)
    expect((await list(body['access_token'])).status).toBe(200)
    await ok(call('DELETE', `${mcpServer.base}/clients/${agent.id}`, { as: workspace.operator }))
    await eventually(
      async () => ((await list(body['access_token'])).status === 401 ? true : undefined),
      WITHIN_MS,
    )
  })

  test.each([
    ['text like a token', 'eyJhbGciOiJFUzI1NiJ9.e30.AAAA'],
    ['opaque text', 'nothing'],
  ])('%s revoked: same response as for a token (RFC 7009 §2.2)', async (_what, token) => {
    const { clientId: id, clientSecret: secret } = inject('tenon')
    expect((await revoke(token, {}, basic(id, secret))).status).toBe(200)
  })
})
