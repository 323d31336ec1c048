/** Suspended tenants get neither tokens nor clients, at once and on every node. */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { aClient, aPerson, askTokens, inRoom, refresh, tokensOf } from '../support/clients/browser.ts'
import { aServer, askToken, ok } from '../support/clients/mcp.ts'
import { resume, suspend, suspendWorkspace } from '../support/fixtures/suspension.ts'
import { aRoom, call, eventually, type Room, unique } from '../support/fixtures/tenants.ts'
import { aSecondNode, type Node } from '../support/stack/in-process-node.ts'

let node: Node
beforeAll(async () => {
  node = await aSecondNode()
}, 60_000)
afterAll(() => node?.close())

interface Machine {
  readonly id: string
  readonly secret: string
}

async function createMachine(
  room: Room,
  body: object = { role: 'workspace_admin', ...inRoom(room) },
): Promise<Machine> {
  const wanted = { kind: 'machine', name: 'm', ...body }
  const made = await ok(call('POST', '/v1/oauth-clients', { as: room.operator, body: wanted }))
  return { id: made.client_id, secret: made.client_secret }
}

const requestToken = ({ id, secret }: Machine, at = inject('tenon')) =>
  askTokens({ grant_type: 'client_credentials', client_id: id, client_secret: secret }, at)

describe('token of a suspended tenant', () => {
  test('machine client: refused at once, on this node and another', async () => {
    const room = await aRoom()
    const machine = await createMachine(room)
    // Both nodes cache the client.
    const before = [await requestToken(machine), await requestToken(machine, node.at)]
    expect(before.map(({ status }) => status)).toEqual([200, 200])
    expect((await suspend(room)).status).toBe(200)
    for (const at of [inject('tenon'), node.at]) {
      const { status, body } = await requestToken(machine, at)
      expect([status, body['error'], body['access_token']]).toEqual([
        expect.toSatisfy((code: number) => code === 400 || code === 401),
        expect.stringMatching(/^invalid_(target|client)$/),
        undefined,
      ])
    }
    expect((await resume(room)).status).toBe(200)
    await eventually(async () => ((await requestToken(machine)).status === 200 ? true : undefined), 5_000)
  }, 20_000)

  test('machine client of a suspended workspace: refused', async () => {
    const room = await aRoom()
    const machine = await createMachine(room)
    expect((await requestToken(machine)).status).toBe(200)
    expect((await suspendWorkspace(room, room.operator)).status).toBe(200)
    expect((await requestToken(machine)).body['access_token']).toBeUndefined()
  })

  test('agent client and refresh token of an account: refused', async () => {
    const room = await aRoom()
    const hosted = await aServer(room, 'suspended')
    const made = await ok(call('POST', `${hosted.base}/clients`, { as: room.operator, body: { name: 'a' } }))
    const agent = { id: made.client_id, secret: made.client_secret }
    const person = await aPerson(room.operator, { role: 'service', ...inRoom(room) })
    const clientId = await aClient(room.operator)
    const { body } = await tokensOf(clientId, person)
    expect((await askToken({}, agent)).status).toBe(200)
    await suspend(room)
    expect((await askToken({}, agent)).body['access_token']).toBeUndefined()
    expect((await refresh(clientId, body['refresh_token'])).body['access_token']).toBeUndefined()
  })
})

describe('client or account in a suspended tenant', () => {
  test.each([
    ['machine client', '/v1/oauth-clients', () => ({ kind: 'machine', name: 'm' })],
    ['account', '/v1/accounts', () => ({ email: `${unique('x')}@example.test` })],
  ])('%s created by an operator, for tenant or workspace: refused', async (_what, path, more) => {
    const room = await aRoom()
    const as = room.operator
    await suspend(room)
    for (const place of [
      { role: 'workspace_admin', ...inRoom(room) },
      { role: 'service', workspace_id: room.workspaceId },
      { role: 'tenant_admin', tenant_id: room.tenantId },
    ]) {
      const reply = await call('POST', path, { as, body: { ...more(), ...place } })
      expect([reply.status, reply.body.code]).toEqual([403, 'tenant_suspended'])
    }
  })

  test('public client or agent client created: refused', async () => {
    const room = await aRoom()
    const hosted = await aServer(room, 'closed')
    const as = room.operator
    await suspend(room)
    for (const place of [inRoom(room), { tenant_id: room.tenantId }]) {
      const body = { kind: 'public', name: 'p', redirect_uris: ['https://app.test/'], ...place }
      expect((await call('POST', '/v1/oauth-clients', { as, body })).body.code).toBe('tenant_suspended')
    }
    const agent = await call('POST', `${hosted.base}/clients`, { as, body: { name: 'a' } })
    expect([agent.status, agent.body.code]).toEqual([403, 'tenant_suspended'])
  })

  test('machine client in a suspended workspace created: refused', async () => {
    const room = await aRoom()
    await suspendWorkspace(room, room.operator)
    const body = { kind: 'machine', name: 'm', role: 'service', ...inRoom(room) }
    const reply = await call('POST', '/v1/oauth-clients', { as: room.operator, body })
    expect([reply.status, reply.body.code]).toEqual([403, 'workspace_suspended'])
  })
})
