/** The hash chain of the log of calls on an MCP server: changes are detected; who may read it, and that it outlives the server. */

import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { canonical } from '../../../src/core/json.ts'
import {
  callsOf,
  callTool,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  scopesOf,
  tokenFor,
  verifyCalls,
} from '../../support/clients/mcp.ts'
import { sqlAsRole } from '../../support/clients/sql-as-role.ts'
import { limit } from '../../support/fixtures/quotas.ts'
import {
  addTestWorkspace,
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  tokenOf,
  unique,
} from '../../support/fixtures/tenants.ts'

/** A server with six calls. */
async function createChain(): Promise<PublishedMcpServer> {
  const mcpServer = await publishMcpServer(await createTestWorkspace(), unique('chain'))
  const as = await tokenFor(mcpServer, scopesOf(mcpServer, 'notes_list'))
  for (let n = 0; n < 3; n += 1) {
    await callTool(mcpServer.path, as, 'notes_list')
    await callTool(mcpServer.path, {}, 'notes_list')
  }
  expect(await verifyCalls(mcpServer)).toMatchObject({
    ok: true,
    checked: 6,
    first_bad: null,
    head: { seq: 6 },
  })
  return mcpServer
}

/** Bypasses the triggers, which takes a superuser. */
const tamper = ({ id }: PublishedMcpServer, text: string) =>
  asSuperuser(`set session_replication_role = replica; ${text.replaceAll('$S', `server_id = '${id}'`)}`)

test.each([
  ['entry changed', `set entry = replace(entry, '"ok"', '"denied"') where $S and seq = 3`, 3, 'content'],
  ['column of a filter changed', `set outcome = 'ok' where $S and seq = 2`, 2, 'content'],
  ['entry moved to another server', `set server_id = 'mcp_x' where $S and seq = 3`, 4, 'missing'],
  [
    'entry changed and hashed again',
    `set outcome = 'denied', entry = replace(entry, '"ok"', '"denied"'),
      hash = tenon.audit_hash(prev_hash, seq, replace(entry, '"ok"', '"denied"')) where $S and seq = 3`,
    4,
    'link',
  ],
] as const)('%s: detected', async (_what, text, seq, reason) => {
  const mcpServer = await createChain()
  await tamper(mcpServer, `update tenon.mcp_calls ${text}`)
  expect(await verifyCalls(mcpServer)).toMatchObject({ ok: false, next: null, first_bad: { seq, reason } })
})

test.each([
  ['entry deleted', 'seq = 3', 4, 'missing'],
  ['last entries deleted', 'seq > 4', 5, 'head'],
  ['all entries deleted', 'true', 1, 'head'],
] as const)('%s: detected', async (_what, condition, seq, reason) => {
  const mcpServer = await createChain()
  await tamper(mcpServer, `delete from tenon.mcp_calls where $S and ${condition}`)
  expect(await verifyCalls(mcpServer)).toMatchObject({ ok: false, first_bad: { seq, reason } })
})

test('end and head forged: detected with an anchor kept elsewhere (T41)', async () => {
  const mcpServer = await createChain()
  const { head } = await verifyCalls(mcpServer)
  const anchor = `?anchor=${head.seq}:${head.hash}`
  expect((await verifyCalls(mcpServer, anchor)).ok).toBe(true)
  await tamper(
    mcpServer,
    `delete from tenon.mcp_calls where $S and seq = 6; update tenon.mcp_call_heads h set seq = 5, hash = c.hash
     from tenon.mcp_calls c where h.server_id = c.server_id and c.$S and c.seq = 5`,
  )
  expect((await verifyCalls(mcpServer)).ok).toBe(true)
  expect(await verifyCalls(mcpServer, anchor)).toMatchObject({ first_bad: { seq: 6, reason: 'anchor' } })
})

test('exported entries: verifiable on their own', async () => {
  const mcpServer = await createChain()
  let before = '0'.repeat(64)
  for (const { seq, prev_hash, hash, ...entry } of await callsOf(mcpServer, '&order=asc')) {
    const text = `${prev_hash}\n${seq}\n${canonical(entry)}`
    expect([prev_hash, hash]).toEqual([before, createHash('sha256').update(text).digest('hex')])
    before = String(hash)
  }
  expect((await verifyCalls(mcpServer)).head).toEqual({ seq: 6, hash: before })
})

test('concurrent calls on two servers of a workspace: two whole chains', async () => {
  const workspace = await createTestWorkspace()
  await limit(workspace, { mcp_servers: 2 })
  const servers = [
    await publishMcpServer(workspace, unique('a')),
    await publishMcpServer(workspace, unique('b')),
  ]
  const tokens = await Promise.all(servers.map((one) => tokenFor(one, scopesOf(one, 'notes_list'))))
  const calls = servers.flatMap(({ path }, n) =>
    Array.from({ length: 40 }, () => callTool(path, tokens[n] ?? {}, 'notes_list')),
  )
  expect(new Set((await Promise.all(calls)).map(({ status }) => status))).toEqual(new Set([200]))
  for (const mcpServer of servers) {
    expect(await verifyCalls(mcpServer)).toMatchObject({ ok: true, checked: 40, head: { seq: 40 } })
    const ids = (await callsOf(mcpServer)).map((entry) => entry['request_id'])
    expect(new Set(ids).size).toBe(40)
  }
})

const foreign = async (mcpServer: PublishedMcpServer): Promise<Caller[]> => {
  const other = await createTestWorkspace()
  const sibling = await addTestWorkspace(mcpServer.workspace)
  const { tenantId: tenant_id, workspaceId: workspace_id } = sibling
  return [
    await tokenOf({ roles: ['tenant_admin'], tenant_id: other.tenantId }),
    await tokenOf({ roles: ['workspace_admin'], tenant_id, workspace_id }),
  ]
}

test('deleted server: its log stays readable by its id, and only by its own admins', async () => {
  const mcpServer = await publishMcpServer(await createTestWorkspace(), unique('gone'))
  const as = await tokenFor(mcpServer, scopesOf(mcpServer, 'notes_list'))
  await callTool(mcpServer.path, as, 'notes_list')
  const before = await callsOf(mcpServer)
  await ok(call('DELETE', mcpServer.base, { as: mcpServer.workspace.operator }))
  const byId = { ...mcpServer, base: mcpServer.base.replace(mcpServer.slug, mcpServer.id) }
  expect(await callsOf(byId)).toEqual(before)
  expect(await verifyCalls(byId)).toMatchObject({ ok: true, checked: 1 })
  for (const tail of ['/audit', '/audit/verify']) {
    expect((await call('GET', `${mcpServer.base}${tail}`, { as: mcpServer.workspace.operator })).status).toBe(
      404,
    )
    for (const stranger of await foreign(mcpServer))
      expect((await call('GET', `${byId.base}${tail}`, { as: stranger })).status).toBe(404)
  }
})

test('existing server: admins of another tenant or workspace get 404', async () => {
  const mcpServer = await publishMcpServer(await createTestWorkspace(), unique('own'))
  await callTool(mcpServer.path, {}, 'notes_list')
  const elsewhere = await createTestWorkspace()
  const moved = mcpServer.base.replace(mcpServer.workspace.workspaceId, elsewhere.workspaceId)
  for (const tail of ['/audit', '/audit/verify']) {
    for (const stranger of await foreign(mcpServer)) {
      const { status, body } = await call('GET', `${mcpServer.base}${tail}`, { as: stranger })
      expect([status, body.code]).toEqual([404, 'not_found'])
    }
    const path = `${moved.replace(mcpServer.slug, mcpServer.id)}${tail}`
    expect((await call('GET', path, { as: elsewhere.operator })).status).toBe(404)
  }
})

test('database roles: append through the function alone, to their own workspace', async () => {
  const mcpServer = await publishMcpServer(await createTestWorkspace(), unique('roles'))
  await callTool(mcpServer.path, {}, 'notes_list')
  const { tenantId, workspaceId } = mcpServer.workspace
  const own = [tenantId, workspaceId]
  const roles = ['tenon_admin', 'tenon_operator', 'tenon_service', 'tenon_user', 'tenon_anon', 'tenon_issuer']
  const statements = [
    'update tenon.mcp_calls set entry = entry',
    'delete from tenon.mcp_calls',
    'truncate tenon.mcp_calls',
    'update tenon.mcp_call_heads set seq = seq',
    'delete from tenon.mcp_call_heads',
    'truncate tenon.mcp_call_heads',
    `insert into tenon.mcp_calls (tenant_id, workspace_id, server_id, seq, entry, prev_hash, hash)
     values ('${tenantId}', '${workspaceId}', '${mcpServer.id}', 9, '{}', sha256('a'), sha256('b'))`,
    `insert into tenon.mcp_call_heads values ('${tenantId}', '${workspaceId}', 'mcp_x', 9, sha256('a'))`,
  ]
  for (const statement of statements) {
    for (const role of roles)
      await expect(sqlAsRole(role, own, statement), `${role}: ${statement}`).rejects.toThrow(
        /permission denied/,
      )
    if (statement.startsWith('insert')) continue
    await expect(asSuperuser(statement), statement).rejects.toThrow(/only appended to/)
  }
  const append = `select tenon.append_mcp_calls('{${mcpServer.id}}', '{"{}"}')`
  for (const role of roles.slice(1)) await expect(sqlAsRole(role, own, append)).rejects.toThrow(/denied/)
  // Of another workspace it would be another chain; without one there is none.
  await expect(sqlAsRole('tenon_admin', ['', ''], append)).rejects.toThrow(/row-level security/)
  const entry = `{"time":"x","outcome":"ok"}`.replaceAll('"', String.raw`\"`)
  const other = [tenantId, 'ws_other']
  const [row] = await sqlAsRole<{ seq: number; workspace_id: string }>(
    'tenon_admin',
    other,
    `select tenon.append_mcp_calls('{${mcpServer.id}}', '{"${entry}"}'); select seq::int, workspace_id from tenon.mcp_calls`,
  )
  expect(row).toEqual({ seq: 1, workspace_id: 'ws_other' })
  expect(await verifyCalls(mcpServer)).toMatchObject({ ok: true, checked: 1 })
})
