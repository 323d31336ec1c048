/** Other MCP servers as sources: whose sessions are whose, circles, addresses that are closed, servers that are down. */

import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { callTool as callHere } from '../../../src/features/mcp-servers/calls/call-tool.ts'
import { FOR_PROGRAMS } from '../../../src/features/mcp-servers/calls/result-form.ts'
import { findPublished } from '../../../src/features/mcp-servers/manifest.ts'
import {
  askToken,
  callsOf,
  callTool,
  createMcpWorkspace,
  ok,
  type PublishedMcpServer,
  publish,
  publishMcpServer,
  scopesOf,
  tokenFor,
} from '../../support/clients/mcp.ts'
import { canary, remove, storeSecret } from '../../support/fixtures/secrets.ts'
import { type Caller, call, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'
import { McpUpstream, textResult } from '../../support/servers/mcp-upstream.ts'
import { openInProcessPlatform, scopeOf } from '../../support/stack/in-process-platform.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

let upstream: McpUpstream
let workspace: TestWorkspace

const sources = ({ workspaceId }: TestWorkspace) => `/v1/mcp/workspaces/${workspaceId}/sources`
const register = (of: TestWorkspace, name: string, url: string, headers: object = {}) =>
  call('POST', sources(of), { as: of.operator, body: { name, kind: 'mcp', url, headers } })

async function workspaceFor(host: string): Promise<TestWorkspace> {
  const made = await createMcpWorkspace()
  await configure(made, { egress: { allow: [host] } })
  return made
}

const SESSION = { 'mcp:up:session': { enabled: true } }
const sessionSeen = async ({ path }: PublishedMcpServer, as: Caller): Promise<string> =>
  (await callTool(path, as, 'up_session')).body.result.content[0].text.match(/session (\S+)/)[1]

beforeAll(async () => {
  upstream = await McpUpstream.open('sessions', [
    { name: 'session', call: (_args, { session }) => textResult(`session ${session}`) },
  ])
  workspace = await workspaceFor(upstream.host)
})
afterAll(() => upstream.close())

test('sessions at the server: one for each caller, none shared between workspaces (T39)', async () => {
  const other = await workspaceFor(upstream.host)
  const seen: string[] = []
  for (const of of [workspace, other]) {
    await ok(register(of, 'up', upstream.url))
    const server = await publishMcpServer(of, 'up', SESSION)
    const as = await tokenFor(server, scopesOf(server, 'up_session'))
    const client = { name: 'agent', scopes: [scopesOf(server, 'up_session')] }
    const agent = await ok(call('POST', `${server.base}/clients`, { as: of.operator, body: client }))
    const own = await agentToken(server, agent)
    const [first, again, agents] = [
      await sessionSeen(server, as),
      await sessionSeen(server, as),
      await sessionSeen(server, own),
    ]
    expect(again).toBe(first)
    seen.push(first, agents)
  }
  expect(new Set(seen).size).toBe(4)
})

test('hosted server as a source of another one, and of itself: works, and ends after a few calls', async () => {
  const circle = await workspaceFor(new URL(inject('tenon').url).host)
  const server = await publishMcpServer(circle, 'circle')
  const grant = async () => {
    const { authorization } = await tokenFor(server, scopesOf(server, 'notes_list'))
    await storeSecret(circle, 'own', authorization)
    return { authorization: String(authorization) }
  }
  await grant()
  await ok(register(circle, 'self', server.url, { authorization: { secret: 'own' } }))
  const other = await publishMcpServer(circle, 'other', { 'mcp:self:notes_list': { enabled: true } })
  const proxied = await callTool(
    other.path,
    await tokenFor(other, scopesOf(other, 'self_notes_list')),
    'self_notes_list',
  )
  expect(proxied.body.result.structuredContent.data[0].text).toBe('hello')
  // Its tool becomes one that calls itself. That changes its definition, which is accepted twice: until it describes itself.
  const tools = { 'mcp:self:notes_list': { enabled: true, name: 'notes_list', scope: 'notes_list' } }
  const refresh = (body: object) =>
    ok(call('POST', `${sources(circle)}/self/refresh`, { as: circle.operator, body }))
  for (let round = 0; round < 3; round++) {
    await publish(server, tools)
    const { latest_version } = await ok(call('GET', server.base, { as: circle.operator }))
    await call('POST', `${server.base}/versions/${latest_version}/approve`, { as: circle.operator })
    await grant()
    const { state, drift, error } = await refresh({})
    expect(state, error).not.toBe('failed')
    if (drift === null) break
    await refresh({ accept: drift.hash })
  }
  const { body } = await callTool(server.path, await grant(), 'notes_list')
  expect(body.result.isError).toBe(true)
  expect(JSON.stringify(body.result)).toContain('passed through 16 servers')
  expect(await callsOf(server, '&tool=notes_list&outcome=tool_error')).toHaveLength(17)
})

test('addresses that are closed, redirects, and missing secrets: refused without a request (T33)', async () => {
  const closed = await createMcpWorkspace()
  const received = upstream.requests.length
  for (const url of [
    upstream.url,
    'http://169.254.169.254/mcp',
    'http://[::ffff:10.0.0.1]/',
    'http://localhost:1/',
  ])
    expect((await register(closed, 'closed', url)).body.code).toBe('egress_refused')
  for (const url of ['ftp://example.com/', 'http://user:secret@example.com/', 'file:///etc/passwd'])
    expect((await register(closed, 'closed', url)).status).toBe(400)
  const missing = await register(workspace, 'missing', upstream.url, { authorization: { secret: 'none' } })
  expect(missing.body).toMatchObject({ code: 'state_conflict', detail: expect.stringContaining('none') })
  expect(upstream.requests).toHaveLength(received)
  const secret = canary()
  await storeSecret(workspace, 'moved', secret)
  const moving = await FakeServers.open({
    '/mcp': () => ({ status: 307, headers: { location: `${moving.origin}/stolen` } }),
    '/denies': ({ headers }) => ({
      status: 401,
      json: { jsonrpc: '2.0', id: 1, error: { code: -32_001, message: `Who is ${headers.authorization}?` } },
    }),
  })
  await configure(workspace, { egress: { allow: [upstream.host, moving.host] } })
  const headers = { authorization: { secret: 'moved' } }
  const moved = await register(workspace, 'moved', `${moving.origin}/mcp`, headers)
  expect(moved.body).toMatchObject({
    code: 'upstream_invalid',
    detail: expect.stringContaining('redirects (307)'),
  })
  expect(moving.requestsTo('/stolen')).toEqual([])
  const denied = await register(workspace, 'denied', `${moving.origin}/denies`, headers)
  expect(denied.body).toMatchObject({ code: 'upstream_invalid', upstream_message: 'Who is [redacted]?' })
  expect(JSON.stringify([moved.body, denied.body])).not.toContain(secret)
  await moving.close()
})

test('calls: read the definitions themselves when they are not known, and show admins what differs', async () => {
  const changing = await McpUpstream.open('modern', [
    { name: 'a', call: () => textResult('a') },
    { name: 'b', call: () => textResult('b') },
  ])
  await configure(workspace, { egress: { allow: [upstream.host, changing.host] } })
  await ok(register(workspace, 'late', changing.url))
  const tools = { 'mcp:late:a': { enabled: true }, 'mcp:late:b': { enabled: true } }
  const server = await publishMcpServer(workspace, unique('late'), tools)
  const [first, ...others] = changing.tools
  if (first === undefined) throw new Error('no tool')
  changing.tools = [{ ...first, description: 'Other.' }, ...others]
  // Another process, which has read nothing yet.
  const platform = openInProcessPlatform()
  const scope = scopeOf(platform, workspace)
  const version = await findPublished(scope, server.id, 1)
  const context = {
    channel: 'wire',
    serverId: server.id,
    principal: 'p',
    clientId: 'c',
    requestId: 'r',
  } as const
  const use = (tool: string) =>
    callHere(scope, version, { ...context, tool: `late_${tool}`, arguments: {}, form: FOR_PROGRAMS })
  const [a, b] = await Promise.all([use('a'), use('b')])
  expect(JSON.stringify(a)).toContain('source_drifted')
  expect(b?.is_error).toBe(false)
  // Both calls have waited for one reading.
  expect(changing.requestsFor('tools/list')).toHaveLength(2)
  const source = `${sources(workspace)}/late`
  const { state, drift } = await ok(call('GET', source, { as: workspace.operator }))
  expect({ state, changed: drift.changed, fields: drift.changed_fields }).toEqual({
    state: 'drifted',
    changed: ['a'],
    fields: { a: ['description'] },
  })
  await changing.close()
  const down = await use('b')
  expect(JSON.stringify(down)).toMatch(/upstream_unavailable: .*refused/)
  await platform.close()
})

test('secret that was deleted: calls say so, with the next step', async () => {
  await storeSecret(workspace, 'brief', canary())
  await configure(workspace, { egress: { allow: [upstream.host] } })
  await ok(register(workspace, 'brief', upstream.url, { 'x-key': { secret: 'brief' } }))
  const server = await publishMcpServer(workspace, 'brief', { 'mcp:brief:session': { enabled: true } })
  await remove(workspace, 'brief')
  const as = await tokenFor(server, scopesOf(server, 'brief_session'))
  const { body } = await callTool(server.path, as, 'brief_session')
  expect(body.result.content[0].text).toMatch(/secret brief of the source does not exist/)
})

async function agentToken(
  { url }: PublishedMcpServer,
  { client_id, client_secret }: Record<string, string>,
): Promise<Caller> {
  const { body } = await askToken({ resource: url }, { id: client_id ?? '', secret: client_secret ?? '' })
  return { authorization: `Bearer ${body['access_token']}` }
}

test('source that does not answer: the error names the setting that allows its tool more time', async () => {
  const silent = await FakeServers.open({ '/slow': () => ({ hangs: true }) })
  await configure(workspace, { egress: { allow: [silent.host] } })
  const paths = { '/slow': { get: { operationId: 'slow', responses: {} } } }
  const document = { openapi: '3.0.3', servers: [{ url: silent.origin }], paths }
  const body = { name: 'silent', kind: 'openapi', url: `${silent.origin}/o.json`, document }
  await ok(call('POST', sources(workspace), { as: workspace.operator, body }))
  const limits = { timeout_seconds: 1 }
  const server = await publishMcpServer(workspace, unique('silent'), { slow: { enabled: true, limits } })
  const answer = await ok(
    call('POST', `${server.base}/call`, { as: workspace.operator, body: { tool: 'slow' } }),
  )
  expect(answer.content[0].text).toMatch(
    /^(tool|upstream)_timeout: The (tool took longer|server of the tool has not answered).* 1 s[\s\S]*limits\.timeout_seconds/,
  )
  await silent.close()
})
