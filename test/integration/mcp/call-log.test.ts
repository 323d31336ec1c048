/** The log of calls on hosted MCP servers: one entry for each call and each refused message, and what it says. */

import { createHash } from 'node:crypto'
import { beforeAll, expect, inject, onTestFinished, test } from 'vitest'
import {
  askToken,
  type CallEntry,
  callsOf,
  callTool,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  RPC,
  rpc,
  scopesOf,
  tokenFor,
  verifyCalls,
} from '../../support/clients/mcp.ts'
import { limit } from '../../support/fixtures/quotas.ts'
import {
  asSuperuser,
  type Caller,
  call,
  connectSuperuser,
  createTestWorkspace,
  eventually,
  tokenOf,
  unique,
} from '../../support/fixtures/tenants.ts'

/** The rows of the log with all their columns, as the database stores them. */
const stored = ({ id }: PublishedMcpServer) =>
  asSuperuser('select * from tenon.mcp_calls where server_id = $1', [id])

const modern = (
  { path }: PublishedMcpServer,
  as: Caller,
  method: string,
  more: object,
  headers: Record<string, string> = {},
) => {
  const version = '2026-07-28'
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': version,
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  const body = { jsonrpc: '2.0', id: 1, method, params: { ...more, _meta } }
  const own = { ...RPC, 'mcp-protocol-version': version, 'mcp-method': method, ...headers }
  return call('POST', path, { as, body, headers: own })
}

/** A token of an agent's client of the server. */
async function agentOf(mcpServer: PublishedMcpServer, ...tools: string[]) {
  const as = mcpServer.workspace.operator
  const made = await ok(call('POST', `${mcpServer.base}/clients`, { as, body: { name: 'agent' } }))
  const client = { id: made.client_id as string, secret: made.client_secret as string }
  const { body } = await askToken({ resource: mcpServer.url, scope: scopesOf(mcpServer, ...tools) }, client)
  return { id: client.id, as: { authorization: `Bearer ${body['access_token']}` } }
}

const VALUE = 'sesame-street'
let mcpServer: PublishedMcpServer
let agent: { id: string; as: Caller }
let hash: string
/** How many entries there have to be. */
let sent = 0
beforeAll(async () => {
  mcpServer = await publishMcpServer(await createTestWorkspace(), unique('log'))
  agent = await agentOf(mcpServer, 'notes_get', 'notes_list')
  const versions = await ok(call('GET', `${mcpServer.base}/versions`, { as: mcpServer.workspace.operator }))
  hash = versions.data[0].hash
})

const scopeOf = (tool: string) => scopesOf(mcpServer, tool)
const onWire = () => ({
  ...{ channel: 'wire', server_id: mcpServer.id, version: 1, version_hash: hash },
  ...{ tenant_id: mcpServer.workspace.tenantId, workspace_id: mcpServer.workspace.workspaceId },
  address: expect.stringMatching(/127\.0\.0\.1|::1/),
})
const ofAgent = () => ({ ...onWire(), principal: agent.id, client_id: agent.id })
const ofNobody = () => ({ ...onWire(), principal: null, client_id: null })
const post = (body: unknown, as: Caller, headers = {}) =>
  call('POST', mcpServer.path, { as, body, headers: { ...RPC, ...headers } })

test.each<[string, () => Promise<unknown>, () => object]>([
  [
    'ok',
    () => callTool(mcpServer.path, agent.as, 'notes_list', { limit: 1 }),
    () => ({
      ...ofAgent(),
      ...{ tool: 'notes_list', outcome: 'ok', transport_status: 200, rpc_code: null, code: null },
      ...{ scope: scopeOf('notes_list'), arguments_shape: ['limit: number'] },
      arguments_sha256: createHash('sha256').update('{"limit":1}').digest('hex'),
    }),
  ],
  [
    'tool error',
    () => callTool(mcpServer.path, agent.as, 'notes_get', { id: VALUE }),
    () => ({
      ...ofAgent(),
      ...{ tool: 'notes_get', outcome: 'tool_error', transport_status: 200, code: 'not_found' },
      ...{ scope: scopeOf('notes_get'), arguments_shape: ['id: string'] },
    }),
  ],
  [
    'invalid arguments',
    () => callTool(mcpServer.path, agent.as, 'notes_get', { z: [VALUE], b: null, a: { [VALUE]: VALUE } }),
    () => ({
      ...{ outcome: 'tool_error', code: 'validation_failed' },
      arguments_shape: ['a: object', 'b: null', 'z: array'],
    }),
  ],
  [
    'unknown tool',
    () => callTool(mcpServer.path, agent.as, 'nothing', {}),
    () => ({
      ...ofAgent(),
      ...{ tool: 'nothing', outcome: 'rpc_error', rpc_code: -32_602, code: 'not_found', scope: null },
    }),
  ],
  [
    'missing scope',
    () => callTool(mcpServer.path, agent.as, 'notes_delete', { id: VALUE }),
    () => ({
      ...ofAgent(),
      ...{ tool: 'notes_delete', outcome: 'denied', transport_status: 403, code: 'insufficient_scope' },
      ...{ scope: scopeOf('notes_delete'), arguments_shape: ['id: string'], arguments_sha256: null },
    }),
  ],
  [
    'no token',
    () => callTool(mcpServer.path, {}, 'notes_list', { id: VALUE }),
    () => ({
      ...ofNobody(),
      ...{ outcome: 'denied', transport_status: 401, code: 'credentials_missing', tool: null },
      ...{ scope: null, arguments_shape: null },
    }),
  ],
  [
    'bad token',
    () => callTool(mcpServer.path, { authorization: `Bearer ${VALUE}` }, 'notes_list'),
    () => ({ ...ofNobody(), outcome: 'denied', transport_status: 401, code: 'token_invalid' }),
  ],
  [
    'valid token of a deleted client',
    async () => {
      const endedToken = await tokenOf(
        {
          ...{ sub: 'agent_gone', client_id: 'agent_gone', mcp_server: mcpServer.id, mcp_version: 1 },
          tenant_id: mcpServer.workspace.tenantId,
          workspace_id: mcpServer.workspace.workspaceId,
        },
        { audience: mcpServer.url },
      )
      await callTool(mcpServer.path, endedToken, 'notes_list')
    },
    () => ({
      ...onWire(),
      ...{ principal: 'agent_gone', client_id: 'agent_gone', outcome: 'denied', code: 'token_invalid' },
    }),
  ],
  [
    'batch',
    () => post([{ jsonrpc: '2.0', id: 1, method: 'tools/list' }], agent.as),
    () => ({
      ...ofAgent(),
      ...{ outcome: 'rpc_error', transport_status: 400, rpc_code: -32_600, code: 'batch_refused' },
    }),
  ],
  [
    'call that the SDK of 2025 refuses',
    () => callTool(mcpServer.path, agent.as, 'notes_list', [VALUE]),
    () => ({
      ...ofAgent(),
      ...{ tool: 'notes_list', outcome: 'rpc_error', rpc_code: expect.any(Number), code: null },
      ...{ scope: scopeOf('notes_list'), arguments_shape: null },
    }),
  ],
  [
    'message that the SDK of 2025 refuses',
    () => post({ jsonrpc: '2.0', id: 1, method: 'tools/list' }, agent.as, { accept: 'text/html' }),
    () => ({ ...ofAgent(), outcome: 'rpc_error', transport_status: 406, rpc_code: -32_000, tool: null }),
  ],
  [
    'method that the SDK of 2025 does not know',
    () => rpc(mcpServer.path, agent.as, 'nothing'),
    () => ({ ...ofAgent(), outcome: 'rpc_error', transport_status: 200, rpc_code: -32_601 }),
  ],
  [
    'headers that differ from the body',
    () =>
      modern(mcpServer, agent.as, 'tools/call', { name: 'notes_list', arguments: {} }, { 'mcp-name': 'x' }),
    () => ({ ...ofAgent(), outcome: 'rpc_error', transport_status: 400, rpc_code: -32_020 }),
  ],
  [
    'method that the SDK of 2026 does not know',
    () => modern(mcpServer, agent.as, 'nothing', {}),
    () => ({ ...ofAgent(), outcome: 'rpc_error', transport_status: 404, rpc_code: -32_601 }),
  ],
  [
    'call over REST',
    () =>
      call('POST', `${mcpServer.base}/call`, {
        as: mcpServer.workspace.operator,
        body: { tool: 'notes_get', arguments: { id: VALUE } },
        headers: { 'x-request-id': 'mine' },
      }),
    () => ({
      ...{ channel: 'rest', principal: 'tenon-operator', client_id: 'tenon-operator', address: null },
      ...{ tool: 'notes_get', version: 1, version_hash: hash, scope: null, request_id: 'mine' },
      arguments_shape: ['id: string'],
    }),
  ],
  [
    'quota',
    async () => {
      await limit(mcpServer.workspace, { mcp_calls_per_minute: 0 })
      await callTool(mcpServer.path, agent.as, 'notes_list')
      await limit(mcpServer.workspace, { mcp_calls_per_minute: -1 })
    },
    () => ({
      ...ofAgent(),
      ...{ outcome: 'denied', transport_status: 200, code: 'quota_exceeded', scope: scopeOf('notes_list') },
    }),
  ],
])('%s: exactly one entry (T41)', async (_what, send, expected) => {
  await send()
  sent += 1
  // The refusal of an SDK is recorded when its response has left.
  const rows = await eventually(async () => {
    const found = await stored(mcpServer)
    return found.length < sent ? undefined : found
  })
  const [newest] = await callsOf(mcpServer)
  expect(newest).toMatchObject({ seq: sent, ...expected() })
  // A refusal always has a code: that of the JSON-RPC error, or of the problem.
  if (newest?.['outcome'] !== 'ok') expect(newest?.['rpc_code'] ?? newest?.['code']).not.toBeNull()
  expect(JSON.stringify(rows)).not.toContain(VALUE)
})

test('messages that succeed without a call: no entry', async () => {
  expect((await rpc(mcpServer.path, agent.as, 'tools/list')).status).toBe(200)
  expect((await modern(mcpServer, agent.as, 'tools/list', {})).status).toBe(200)
  const note = { jsonrpc: '2.0', method: 'notifications/initialized' }
  expect((await post(note, agent.as)).status).toBe(202)
  expect(await stored(mcpServer)).toHaveLength(sent)
})

test('hostile names of tool and arguments: bounded, without secrets', async () => {
  const many = Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`argument_${n}`, n]))
  const secret = `svc_service_${'x'.repeat(30)}`
  for (const args of [{ [secret]: 1, 'a\u0000\ud800': 1 }, { ['x'.repeat(2_000)]: 1 }, many]) {
    await callTool(mcpServer.path, agent.as, `t\u0000${'o'.repeat(500)}`, args)
    const [entry] = await callsOf(mcpServer)
    const shape = entry?.['arguments_shape'] as string[]
    expect(shape.length).toBeGreaterThan(0)
    expect(shape.join('').length).toBeLessThanOrEqual(500)
    expect(JSON.stringify(entry)).not.toContain(secret)
  }
  expect((await verifyCalls(mcpServer)).ok).toBe(true)
})

test('log that is locked: a call that reads has its reply, one that changes something waits for its entry', async () => {
  const other = await publishMcpServer(await createTestWorkspace(), unique('locked'))
  const as = await tokenFor(other, scopesOf(other, 'notes_list', 'notes_create'))
  await callTool(other.path, as, 'notes_list')
  expect(await callsOf(other)).toHaveLength(1)
  const locking = await connectSuperuser(inject('tenon'))
  onTestFinished(() => locking.end())
  await locking.query('begin')
  await locking.query('select from tenon.mcp_call_heads where server_id = $1 for update', [other.id])
  await callTool(other.path, as, 'notes_list')
  let hasReply = false
  const created = callTool(other.path, as, 'notes_create', { document: { text: 'x' } }).finally(() => {
    hasReply = true
  })
  const documents = () => call('GET', '/v1/collections/notes/documents', { as: other.workspace.service })
  await eventually(async () => (await ok(documents())).data.length === 2 || undefined)
  await callTool(other.path, as, 'notes_list')
  expect(hasReply).toBe(false)
  await locking.query('commit')
  await created
  expect(await callsOf(other)).toHaveLength(4)
  expect(await verifyCalls(other)).toMatchObject({ ok: true, checked: 4 })
})

test('filters, orders and pages: no gap, no repetition', async () => {
  const all = await callsOf(mcpServer)
  expect(all.map(({ seq }) => seq)).toEqual(all.map((_entry, n) => all.length - n))
  expect(await callsOf(mcpServer, '&order=asc')).toEqual(all.toReversed())
  for (const order of ['asc', 'desc']) {
    const paged: CallEntry[] = []
    let after = ''
    do {
      const path = `${mcpServer.base}/audit?page[size]=3&order=${order}${after}`
      const { data, page } = await ok(call('GET', path, { as: mcpServer.workspace.operator }))
      paged.push(...data)
      after = page.next === null ? '' : `&page[after]=${page.next}`
    } while (after !== '')
    expect(paged).toEqual(order === 'asc' ? all.toReversed() : all)
  }
  const time = String(all[4]?.['time'])
  const queries: Record<string, (entry: CallEntry) => boolean> = {
    'tool=notes_list': (entry) => entry['tool'] === 'notes_list',
    'outcome=denied': (entry) => entry['outcome'] === 'denied',
    'principal=tenon-operator': (entry) => entry['principal'] === 'tenon-operator',
    [`client_id=${agent.id}`]: (entry) => entry['client_id'] === agent.id,
    [`after=${time}`]: (entry) => String(entry['time']) > time,
    [`before=${time}`]: (entry) => String(entry['time']) < time,
    [`client_id=${agent.id}&outcome=ok`]: (entry) =>
      entry['client_id'] === agent.id && entry['outcome'] === 'ok',
  }
  for (const [query, matches] of Object.entries(queries)) {
    const found = await callsOf(mcpServer, `&${query}`)
    expect([query, found.length > 0]).toEqual([query, true])
    expect(found).toEqual(all.filter(matches))
  }
  for (const wrong of ['page[after]=c1_eA', 'order=up', 'outcome=none', 'after=yesterday']) {
    const { status } = await call('GET', `${mcpServer.base}/audit?${wrong}`, {
      as: mcpServer.workspace.operator,
    })
    expect([wrong, status]).toEqual([wrong, 400])
  }
})
