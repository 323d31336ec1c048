/** Tools that need a further scope: the clients whose list has them, and the reply to a call without the scope. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  addAccount,
  addClient,
  bearer,
  inWorkspace,
  refresh,
  tokensOf,
} from '../../support/clients/browser.ts'
import {
  askToken,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  rpc,
  scopesOf,
  tokenFor,
} from '../../support/clients/mcp.ts'
import { type Caller, call, createTestWorkspace } from '../../support/fixtures/tenants.ts'

let server: PublishedMcpServer
let client: { id: string; secret: string }

const ALL = ['notes_create', 'notes_delete', 'notes_get', 'notes_list', 'notes_update']
const change = (settings: object) =>
  ok(call('PATCH', server.base, { as: server.workspace.operator, body: settings }))

async function createClient(scopes?: string[]): Promise<{ id: string; secret: string }> {
  const body = { name: `client ${scopes?.length}`, ...(scopes && { scopes }) }
  const made = await ok(call('POST', `${server.base}/clients`, { as: server.workspace.operator, body }))
  return { id: made.client_id, secret: made.client_secret }
}

async function tokenOf(of: { id: string; secret: string }, ...tools: string[]): Promise<Caller> {
  const { body } = await askToken({ resource: server.url, scope: scopesOf(server, ...tools) }, of)
  return { authorization: `Bearer ${body['access_token']}` }
}

const listed = async (as: Caller) =>
  (await rpc(server.path, as, 'tools/list')).body.result.tools as { name: string; description: string }[]

beforeAll(async () => {
  server = await publishMcpServer(await createTestWorkspace(), 'scopes')
  client = await createClient()
})

describe('tools/list', () => {
  test('client without a person: shown what its token allows (T16)', async () => {
    expect((await listed(await tokenOf(client, 'notes_get'))).map(({ name }) => name)).toEqual(['notes_get'])
  })

  test('list: grantable: shown all that the client may obtain, with the scope that each needs', async () => {
    await change({ list: 'grantable' })
    const tools = await listed(await tokenOf(client, 'notes_get'))
    expect(tools.map(({ name }) => name)).toEqual(ALL)
    for (const { name, description } of tools)
      expect(description.includes(`Needs the scope mcp:scopes:${name}`)).toBe(name !== 'notes_get')
    const limited = await createClient([scopesOf(server, 'notes_get'), scopesOf(server, 'notes_list')])
    const fewer = await listed(await tokenOf(limited, 'notes_get'))
    expect(fewer.map(({ name }) => name)).toEqual(['notes_get', 'notes_list'])
    await change({ list: 'auto' })
  })

  test('client with a person: shown all, also what nobody has consented to yet; list: granted: not', async () => {
    const { operator } = server.workspace
    const person = await addAccount(operator, { role: 'service', ...inWorkspace(server.workspace) })
    const access = { resource: server.url, scope: scopesOf(server, 'notes_get', 'notes_list') }
    const { body } = await tokensOf(await addClient(operator), person, access)
    const as = bearer(body['access_token'])
    expect((await listed(as)).map(({ name }) => name)).toEqual(ALL)
    await change({ list: 'granted' })
    expect((await listed(as)).map(({ name }) => name)).toEqual(['notes_get', 'notes_list'])
    await change({ list: 'auto' })
  })
})

describe('call without the scope', () => {
  /** @param version of the protocol; undefined for clients that do not send theirs */
  const create = (as: Caller, version: string | undefined = '2025-11-25') =>
    call('POST', server.path, {
      as,
      body: {
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'notes_create', arguments: { document: { text: 'never' } } },
      },
      headers: {
        accept: 'application/json, text/event-stream',
        ...(version !== '' && { 'mcp-protocol-version': version }),
      },
    })
  const refusal = {
    isError: true,
    content: [
      { type: 'text', text: expect.stringMatching(/^insufficient_scope: .*mcp:scopes:notes_create/) },
    ],
    _meta: {
      'tenon/insufficient_scope': {
        required: ['mcp:scopes:notes_create'],
        granted: ['mcp:scopes:notes_get'],
      },
    },
  }

  test('auto: a challenge; a tool error if a person’s client only refreshes its token, and for older clients', async () => {
    const { operator } = server.workspace
    const person = await addAccount(operator, { role: 'service', ...inWorkspace(server.workspace) })
    const clientId = await addClient(operator)
    const access = { resource: server.url, scope: scopesOf(server, 'notes_get') }
    const { body } = await tokensOf(clientId, person, access)
    const as = bearer(body['access_token'])
    for (const caller of [as, as, await tokenOf(client, 'notes_get'), await tokenOf(client, 'notes_get')]) {
      const { status, headers } = await create(caller)
      expect([status, headers.get('www-authenticate')]).toEqual([
        403,
        expect.stringContaining('insufficient_scope'),
      ])
    }
    const refreshed = bearer((await refresh(clientId, body['refresh_token'])).body['access_token'])
    const second = await create(refreshed)
    expect([second.status, second.body.result]).toEqual([200, refusal])
    expect((await create(as, '2025-06-18')).body.result).toEqual(refusal)
    const { data } = await ok(
      call('GET', '/v1/collections/notes/documents', { as: server.workspace.service }),
    )
    expect(data).toHaveLength(1)
  })

  test.each([
    ['http', 403],
    ['tool_error', 200],
  ])('challenge: %s: for all clients', async (challenge, expected) => {
    await change({ challenge })
    for (const version of ['', '2025-06-18', '2025-11-25'])
      expect((await create(await tokenOf(client, 'notes_get'), version)).status).toBe(expected)
    await change({ challenge: 'auto' })
  })

  test('tool error: recorded as denied', async () => {
    await create(await tokenFor(server, scopesOf(server, 'notes_get')), '2025-06-18')
    const { data } = await ok(call('GET', `${server.base}/audit`, { as: server.workspace.operator }))
    const last = data.find(({ tool }: { tool: string }) => tool === 'notes_create')
    expect(last).toMatchObject({ outcome: 'denied', transport_status: 200, code: 'insufficient_scope' })
  })
})
