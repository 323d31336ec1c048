/** Other API processes follow the deletion of a client and the suspension of an MCP server within 5 s. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { ok, publishMcpServer, scopesOf, tokenFor } from '../../support/clients/mcp.ts'
import { expectStatus, get, send, str } from '../../support/clients/rest-client.ts'
import { askToken, makeMachine } from '../../support/fixtures/administrators.ts'
import { createTenantPair, expectIsolated, type World } from '../../support/fixtures/tenant-pair.ts'
import { call, createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

let world: World
let other: Node

beforeAll(async () => {
  world = await createTenantPair()
  other = await startInProcessNode()
})

afterAll(() => other?.close())

const atOtherNode = (headers: Record<string, string>) => send('GET', `${other.at.url}/v1/me`, { headers })

/** Slightly more than 5 s, since the reply takes time too. */
const KNOWN_MS = 5_500

const waitForCode = (headers: Record<string, string>, wanted: unknown) =>
  eventually(async () => {
    const reply = await atOtherNode(headers)
    return (get(reply, 'code') ?? reply.status) === wanted || undefined
  }, KNOWN_MS)

test('token: its client deleted at another node: refused within 5 s', async () => {
  const one = await makeMachine(world, world.a, 'tenant_admin')
  const headers = { authorization: `Bearer ${str(await askToken(one), 'access_token')}` }
  expectStatus(await atOtherNode(headers), 200)
  expectStatus(await world.admin.delete(`/v1/oauth-clients/${one.id}`), 200)
  await waitForCode(headers, 'token_invalid')
})

test('MCP server: suspended and published again at another node: followed within 5 s', async () => {
  const server = await publishMcpServer(await createTestWorkspace(), 'rest')
  const token = await tokenFor(server, scopesOf(server, 'notes_list'))
  const status = async () => {
    const body = {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'notes_list', arguments: {} },
    }
    const accept = 'application/json, text/event-stream'
    const sent = { headers: { ...token, accept }, json: body }
    return (await send('POST', `${other.at.url}${server.path}`, sent)).status
  }
  const within5s = (wanted: number) =>
    eventually(async () => (await status()) === wanted || undefined, KNOWN_MS)
  const suspend = (suspended: boolean) =>
    ok(call('PATCH', server.base, { as: server.workspace.operator, body: { suspended } }))
  expect(await status()).toBe(200)
  await suspend(true)
  await within5s(404)
  await suspend(false)
  expect(await status()).toBe(200)
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
